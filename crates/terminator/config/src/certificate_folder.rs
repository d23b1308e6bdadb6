//! Finds certificates and their keys among the files of a folder, as ACME clients, other proxies
//! and Kubernetes leave them.
//!
//! Names only decide which files are worth reading: a certificate is paired with the key that fits
//! it. `tls` checks the pairs.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use tls::certificate::PemContents;

use crate::files::Files;

/// File name endings of certificates and keys, in lower case or in capitals as Windows writes them.
/// HAProxy keeps two certificates of a site in `.rsa` and `.ecdsa`.
const ENDINGS: [&str; 8] = ["pem", "crt", "cer", "cert", "der", "rsa", "ecdsa", "key"];

/// The files of one certificate.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct CertificateFiles {
    pub(crate) chain: PathBuf,
    /// File of the key; `None` if the key is in the chain's file, or missing.
    pub(crate) key: Option<PathBuf>,
    pub(crate) ocsp: Option<PathBuf>,
}

#[derive(Debug, Default)]
pub(crate) struct FolderContents {
    pub(crate) found: Vec<CertificateFiles>,
    /// Leaf certificates whose key is missing.
    pub(crate) keyless: Vec<PathBuf>,
    /// Certificates with keys that are not a server's: those of clients, and of authorities that
    /// have signed others of the folder, as in MySQL's data directory.
    pub(crate) unfit: Vec<PathBuf>,
    /// Files that are no part of a certificate above.
    pub(crate) passed_over: Vec<PathBuf>,
}

/// Depth of the search beneath a folder: Caddy keeps a folder for each authority, and in it one for
/// each certificate.
const DEPTH_MAX: usize = 2;

/// Searches a folder; if it holds no certificate, searches its subfolders, as in certbot's `live`.
/// A key may then be in another subfolder than its certificate.
pub(crate) fn look_through(files: &mut dyn Files, folder: &Path) -> io::Result<FolderContents> {
    let mut contents = look_through_to(DEPTH_MAX, files, folder)?;
    if !contents.keyless.is_empty() {
        pair_apart(files, &mut contents);
    }
    Ok(contents)
}

/// Pairs certificates without a key in their own folder with keys of other folders: uacme and
/// Debian keep all keys in `private`, cPanel in `keys`.
fn pair_apart(files: &mut dyn Files, contents: &mut FolderContents) {
    let is_key = |one: &PemContents| one.certificates == 0 && !one.keys.is_empty();
    let looked = look_at_all(files, &contents.passed_over).into_iter();
    let keys = looked.filter(|(_, one)| one.as_ref().is_some_and(is_key)).map(|(path, _)| path);
    let both: BTreeSet<PathBuf> = keys.chain(contents.keyless.drain(..)).collect();
    let both: Vec<PathBuf> = both.into_iter().collect();
    let FolderContents { found, keyless, unfit, .. } = sort_out(files, &both);
    let used: BTreeSet<&Path> = found.iter().flat_map(CertificateFiles::paths).collect();
    contents.passed_over.retain(|path| !used.contains(path.as_path()));
    contents.found.extend(found);
    contents.found.sort_by(|a, b| a.chain.cmp(&b.chain));
    contents.keyless = keyless;
    contents.unfit.extend(unfit);
}

fn look_through_to(
    depth: usize,
    files: &mut dyn Files,
    folder: &Path,
) -> io::Result<FolderContents> {
    let listed = files.list(folder)?;
    let mut contents = sort_out(files, &listed);
    if contents.found.is_empty() && depth > 0 {
        for inner in listed.iter().filter(|path| !is_hidden(path)) {
            let Ok(within) = look_through_to(depth - 1, files, inner) else { continue };
            contents.passed_over.retain(|path| path != inner);
            contents.found.extend(within.found);
            contents.keyless.extend(within.keyless);
            contents.unfit.extend(within.unfit);
            contents.passed_over.extend(within.passed_over);
        }
    }
    Ok(contents)
}

/// Finds the key of a certificate that was named alone: a file beside it of a usual name that fits.
pub(crate) fn key_beside(files: &mut dyn Files, chain: &Path) -> Option<PathBuf> {
    let contents = PemContents::of(&files.read(chain).ok()?).ok()?;
    let (_, public_key) = contents.leaf.filter(|_| !contents.has_key)?;
    key_names(chain).into_iter().find(|path| {
        let beside = files.read(path).ok();
        let beside = beside.and_then(|bytes| PemContents::of(&bytes).ok());
        beside.is_some_and(|beside| beside.keys.contains(&public_key))
    })
}

/// A file that was read; `None` if it was unreadable, or holds no PEM.
type LookedAt = (PathBuf, Option<PemContents>);

/// Number of certificates in a file's chain, whether its key is in a separate file, and whether it
/// is PEM: of two files with one certificate, the higher rank is served.
type PairRank = (usize, bool, bool);

fn sort_out(files: &mut dyn Files, listed: &[PathBuf]) -> FolderContents {
    let names: BTreeSet<&Path> = listed.iter().map(PathBuf::as_path).collect();
    let looked = look_at_all(files, listed);
    let keys = keys_of(&looked);
    let only = only_chain(&names);
    let mut pairs: Vec<(PairRank, CertificateFiles)> = Vec::new();
    let mut places: HashMap<&[u8], usize> = HashMap::new();
    let mut keyless = Vec::new();
    let is_wanted = |path: &PathBuf| only.as_ref().is_none_or(|only| only == path);
    for (path, contents) in looked.iter().filter(|(path, _)| is_wanted(path)) {
        let leaf = contents.as_ref().and_then(|one| one.leaf.as_ref());
        let leaf = leaf.map(|(der, _)| der.as_slice());
        let Some(pair) = pair_of(path, contents.as_ref(), &keys, &names) else {
            let of_authority = contents.as_ref().is_none_or(|one| one.is_of_authority);
            keyless.extend(leaf.filter(|_| !of_authority).map(|leaf| (leaf, path)));
            continue;
        };
        match leaf.and_then(|leaf| places.get(leaf)) {
            Some(place) if pair.0 > pairs[*place].0 => pairs[*place] = pair,
            Some(_) => {}
            None => {
                places.extend(leaf.map(|leaf| (leaf, pairs.len())));
                pairs.push(pair);
            }
        }
    }
    // A copy of a certificate without its key does not matter.
    keyless.retain(|(leaf, _)| !places.contains_key(leaf));
    let mut found: Vec<_> = pairs.into_iter().map(|(_, found)| found).collect();
    // A fuller copy keeps its own position, because the copy that it replaces is forgotten: the
    // folder has the same first certificate when it is read again from a recording.
    found.sort_by(|a, b| a.chain.cmp(&b.chain));
    let unfit = take_unfit(&mut found, &looked);
    let used: BTreeSet<&Path> = found.iter().flat_map(CertificateFiles::paths).collect();
    let of_no_use = |path: &&PathBuf| !used.contains(path.as_path()) && !is_hidden(path);
    for (path, _) in looked.iter().filter(|(path, _)| of_no_use(&path)) {
        files.forget(path);
    }
    FolderContents {
        keyless: keyless.into_iter().map(|(_, path)| path.clone()).collect(),
        passed_over: listed.iter().filter(of_no_use).cloned().collect(),
        unfit,
        found,
    }
}

/// Removes the certificates that are not a server's. A file whose first certificate does not belong
/// to the key stays: its leaf follows an authority's, and loading moves it to the front. MySQL's
/// certificate for clients says nothing of its use, or of a host, so its file name decides.
fn take_unfit(found: &mut Vec<CertificateFiles>, looked: &[LookedAt]) -> Vec<PathBuf> {
    let read: HashMap<&PathBuf, &PemContents> =
        looked.iter().filter_map(|(path, read)| Some((path, read.as_ref()?))).collect();
    let issuers = found.iter().filter_map(|one| read.get(&one.chain));
    let issuers = issuers.filter(|one| one.issuer != one.subject).map(|one| &one.issuer);
    let issuers: BTreeSet<&Vec<u8>> = issuers.collect();
    let chains: BTreeSet<PathBuf> = found.iter().map(|one| one.chain.clone()).collect();
    let is_of_client = |one: &CertificateFiles, contents: &PemContents| {
        let name = one.chain.file_name().unwrap_or_default().to_string_lossy();
        let server = one.chain.with_file_name(name.replacen("client", "server", 1));
        !contents.names_hosts && server != one.chain && chains.contains(&server)
    };
    let is_unfit = |one: &CertificateFiles| {
        let keys = read.get(one.key.as_ref().unwrap_or(&one.chain)).map(|one| &one.keys);
        let is_of_key = |(_, key): &(_, _)| keys.is_some_and(|keys| keys.contains(key));
        read.get(&one.chain).filter(|one| one.leaf.as_ref().is_some_and(is_of_key)).is_some_and(
            |read| {
                !read.is_for_servers
                    || is_of_client(one, read)
                    || read.is_of_authority && issuers.contains(&read.subject)
            },
        )
    };
    found.extract_if(.., |one| is_unfit(one)).map(|one| one.chain).collect()
}

fn look_at_all(files: &mut dyn Files, listed: &[PathBuf]) -> Vec<LookedAt> {
    let mut looked = Vec::new();
    let is_worth_it =
        |path: &&PathBuf| !is_hidden(path) && ENDINGS.iter().any(|ending| ends_with(path, ending));
    for path in listed.iter().filter(is_worth_it) {
        match files.read(path) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {}
            read => {
                let contents = read.ok().and_then(|bytes| PemContents::of(&bytes).ok());
                let contents = contents.filter(|contents| !contents.is_blank);
                looked.push((path.clone(), contents));
            }
        }
    }
    looked
}

/// File of the private key of each public key, and whether the file holds nothing else.
type KeyPlaces<'l> = HashMap<&'l [u8], (&'l Path, bool)>;

/// Indexes the keys; a file with only a key takes precedence.
fn keys_of(looked: &[LookedAt]) -> KeyPlaces<'_> {
    let mut keys = HashMap::new();
    for is_apart in [false, true] {
        let read = looked.iter().filter_map(|(path, contents)| Some((path, contents.as_ref()?)));
        for (path, contents) in read.filter(|(_, one)| (one.certificates == 0) == is_apart) {
            let place = (path.as_path(), is_apart);
            keys.extend(contents.keys.iter().map(|key| (key.as_slice(), place)));
        }
    }
    keys
}

/// Returns the pair of a file's certificate. An unreadable file counts as a certificate, so that
/// the next read reports the error, unless its name is that of a key, or of no kind (`.der`: OCSP
/// responses and revocation lists have it too).
fn pair_of(
    path: &Path,
    contents: Option<&PemContents>,
    keys: &KeyPlaces<'_>,
    names: &BTreeSet<&Path>,
) -> Option<(PairRank, CertificateFiles)> {
    let by_name = || key_names(path).into_iter().find(|key| names.contains(key.as_path()));
    let is_pem = !ends_with(path, "der");
    let (rank, key) = match contents {
        None if ends_with(path, "key") || !is_pem => return None,
        None => ((0, false, is_pem), by_name()),
        Some(contents) if contents.certificates == 0 => return None,
        Some(contents) if contents.has_key => ((contents.certificates, false, is_pem), None),
        Some(contents) => {
            let public_key = contents.leaf.as_ref().map(|(_, key)| key.as_slice());
            let fitting = public_key.and_then(|key| keys.get(key));
            let (key, is_apart) = match fitting {
                Some((key, is_apart)) => (key.to_path_buf(), *is_apart),
                None => (by_name()?, true),
            };
            ((contents.certificates, is_apart, is_pem), Some(key))
        }
    };
    let staples = [path.with_extension("ocsp"), with_suffix(path, ".ocsp")];
    let files = CertificateFiles {
        ocsp: staples.into_iter().find(|staple| names.contains(staple.as_path())),
        chain: path.to_owned(),
        key,
    };
    Some((rank, files))
}

/// Returns the usual names of a certificate's key: most clients', HAProxy's and mkcert's, that of
/// certbot and dehydrated, and in another folder those of Debian, cPanel and uacme.
fn key_names(chain: &Path) -> Vec<PathBuf> {
    let stem = chain.file_stem().unwrap_or_default().to_string_lossy();
    let is_certbot = matches!(&*stem, "fullchain" | "cert");
    let mkcert = chain.with_file_name(format!("{stem}-key.pem"));
    let mut names = vec![chain.with_extension("key"), with_suffix(chain, ".key"), mkcert];
    names.extend(is_certbot.then(|| chain.with_file_name("privkey.pem")));
    if let Some((folder, outer)) = chain.parent().and_then(|one| Some((one, one.parent()?))) {
        let key = format!("{stem}.key");
        names.extend([outer.join("private").join(&key), outer.join("keys").join(key)]);
        let folder = folder.file_name().unwrap_or_default();
        names.push(outer.join("private").join(folder).join("key.pem"));
    }
    names
}

/// Returns the one chain of a folder that certbot, dehydrated or uacme made for one certificate.
/// The latter two keep those of earlier years beside it (`cert-1764421200.pem`).
fn only_chain(names: &BTreeSet<&Path>) -> Option<PathBuf> {
    let folder = names.first()?.parent()?;
    let [chain, key, of_uacme] =
        ["fullchain.pem", "privkey.pem", "cert.pem"].map(|name| folder.join(name));
    if names.contains(chain.as_path()) && names.contains(key.as_path()) {
        return Some(chain);
    }
    let is_earlier = |path: &&Path| {
        let stem = path.file_stem().unwrap_or_default().to_str();
        let time = stem.and_then(|stem| stem.strip_prefix("cert-"));
        time.is_some_and(|time| time.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_kept = names.contains(of_uacme.as_path()) && names.iter().any(is_earlier);
    is_kept.then_some(of_uacme)
}

fn ends_with(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(ending))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b".")
}

impl CertificateFiles {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let beside = [&self.key, &self.ocsp].into_iter().flatten();
        [&self.chain].into_iter().chain(beside).map(PathBuf::as_path)
    }
}

#[cfg(test)]
mod tests {
    use testkit::authority::{Authority, Trait};
    use testkit::leaf::{Key, Leaf};

    use super::*;
    use crate::files::{Recorder, Recording};

    /// Searches a folder, given as names with their texts. Returns the pairs, the unfit and keyless
    /// certificates, and the files passed over.
    fn found(folder: &[(&str, &str)]) -> (Vec<String>, Vec<String>, Vec<String>) {
        let mut files = Recording::default();
        let mut lists: std::collections::BTreeMap<PathBuf, BTreeSet<PathBuf>> = Default::default();
        for (name, text) in folder {
            let path = Path::new("/d").join(name);
            files.insert(&path, text.as_bytes().to_vec());
            for (inner, outer) in path.ancestors().zip(path.ancestors().skip(1)) {
                lists.entry(outer.into()).or_default().insert(inner.into());
            }
        }
        for (outer, inner) in lists {
            files.insert_list(outer, inner.into_iter().collect());
        }
        let mut recorder = Recorder::new(files);
        let contents = look_through(&mut recorder, Path::new("/d")).expect("a folder");
        // Another process reads the same from the recording.
        let again = look_through(&mut recorder.into_recording(), Path::new("/d"));
        assert_eq!(again.expect("a folder").found, contents.found);
        let name = |path: &Path| path.strip_prefix("/d").expect("in it").display().to_string();
        let names = |paths: Vec<PathBuf>| paths.iter().map(|path| name(path)).collect();
        let pairs = contents.found.iter().map(|one| {
            let paths: Vec<_> = one.paths().map(name).collect();
            paths.join(" + ")
        });
        let unfit = contents.unfit.into_iter().chain(contents.keyless);
        (pairs.collect(), names(unfit.collect()), names(contents.passed_over))
    }

    fn leaf() -> Leaf {
        let between = Authority::root("root").intermediate("between");
        between.leaf(&["a.example"]).issue()
    }

    /// Owner of the folder, its files, the pairs, and the files passed over.
    const FOLDERS: [[&str; 4]; 18] = [
        [
            "lego",
            "x.crt=chain x.issuer.crt=ca x.json=text x.key=key",
            "x.crt + x.key",
            "x.issuer.crt x.json",
        ],
        [
            "acme.sh",
            "account.conf=text x/ca.cer=ca x/fullchain.cer=chain x/x.cer=leaf x/x.conf=text \
             x/x.key=key",
            "x/fullchain.cer + x/x.key",
            "account.conf x/ca.cer x/x.cer x/x.conf",
        ],
        [
            "certbot's live",
            "README=text a/cert.pem=leaf a/chain.pem=ca a/fullchain.pem=chain a/privkey.pem=key \
             b/fullchain.pem=chain2 b/privkey.pem=key2",
            "a/fullchain.pem + a/privkey.pem, b/fullchain.pem + b/privkey.pem",
            "README a/cert.pem a/chain.pem",
        ],
        [
            "dehydrated",
            "fullchain-17.pem=chain2 fullchain.pem=chain privkey-17.pem=key2 privkey.pem=key",
            "fullchain.pem + privkey.pem",
            "fullchain-17.pem privkey-17.pem",
        ],
        [
            "HAProxy",
            "a.pem=chain a.pem.issuer=ca a.pem.key=key a.pem.ocsp=text a.pem.sctl=text \
             b.pem.ecdsa=whole2 b.pem.rsa=rsa dhparam.pem=dh",
            "a.pem + a.pem.key + a.pem.ocsp, b.pem.ecdsa, b.pem.rsa",
            "a.pem.issuer a.pem.sctl dhparam.pem",
        ],
        ["mkcert", "x-key.pem=key x.pem=chain", "x.pem + x-key.pem", ""],
        [
            "Kubernetes",
            "..data=text ca.crt=ca tls-combined.pem=whole tls.crt=chain tls.key=key",
            "tls.crt + tls.key",
            "ca.crt tls-combined.pem",
        ],
        ["Caddy", "x/x.crt=chain x/x.json=text x/x.key=key", "x/x.crt + x/x.key", "x/x.json"],
        ["all of Caddy", "le/x/x.crt=chain le/x/x.key=key", "le/x/x.crt + le/x/x.key", ""],
        [
            "names that say nothing",
            "a.key=key2 b.crt=chain c.crt=chain2 d.key=key",
            "b.crt + d.key, c.crt + a.key",
            "",
        ],
        ["capitals", "X.CER=chain X.KEY=key X.P7B=text", "X.CER + X.KEY", "X.P7B"],
        [
            "an answer of OCSP, and a copy",
            "w.der=text x.der=chain x.key=key x.pem=chain x.pem.ocsp=text",
            "x.pem + x.key + x.pem.ocsp",
            "w.der x.der",
        ],
        ["folders beside files", "old/y.pem=whole2 x.pem=whole", "x.pem", "old"],
        ["a fuller copy", "a.crt=leaf b.pem=whole2 c.pem=whole", "b.pem, c.pem", "a.crt"],
        [
            "uacme",
            "a/cert-17.pem=chain2 a/cert.pem=chain b/cert.pem=whole2 private/a/key-17.pem=key2 \
             private/a/key.pem=key private/key.pem=dh",
            "a/cert.pem + private/a/key.pem, b/cert.pem",
            "a/cert-17.pem private/key.pem private/a/key-17.pem",
        ],
        [
            "cPanel",
            "certs/a_1.crt=chain certs/b.crt=chain2 csrs/a.csr=text keys/1.key=key keys/2.key=key2",
            "certs/a_1.crt + keys/1.key, certs/b.crt + keys/2.key",
            "csrs/a.csr",
        ],
        [
            "Debian",
            "certs/ca.pem=ca certs/snakeoil.pem=leaf openssl.cnf=text private/other.key=key2 \
             private/snakeoil.key=key",
            "certs/snakeoil.pem + private/snakeoil.key",
            "openssl.cnf certs/ca.pem private/other.key",
        ],
        // Errors are reported when the files are read again.
        [
            "damaged and mismatched",
            "x.crt=cut y.crt=chain y.key=key2 z.crt=text",
            "x.crt, y.crt + y.key, z.crt",
            "",
        ],
    ];

    #[test]
    fn the_folders_of_acme_clients_and_other_proxies_are_understood() {
        let (one, two) = (leaf(), leaf());
        let root = Authority::root("r");
        let rsa = root.leaf(&["a.example"]).key(Key::Rsa2048).issue();
        let dh = "-----BEGIN DH PARAMETERS-----\nAAAA\n-----END DH PARAMETERS-----\n";
        let texts = HashMap::from([
            ("chain", one.chain_pem()),
            ("leaf", one.certificate_pem().to_owned()),
            ("key", one.key_pem().to_owned()),
            ("whole", one.pem()),
            ("chain2", two.chain_pem()),
            ("key2", two.key_pem().to_owned()),
            ("whole2", two.pem()),
            ("rsa", rsa.pem()),
            ("ca", Authority::root("root").pem().to_owned()),
            ("dh", dh.to_owned()),
            ("cut", "-----BEGIN".to_owned()),
            ("text", "{}".to_owned()),
        ]);
        for [whose, folder, pairs, passed_over] in FOLDERS {
            let files = folder.split_whitespace().map(|file| {
                let (name, what) = file.split_once('=').expect("a name and its content");
                (name, texts[what].as_str())
            });
            let (found, keyless, others) = found(&files.collect::<Vec<_>>());
            assert_eq!(found.join(", "), pairs, "{whose}");
            assert_eq!(others.join(" "), passed_over, "{whose}");
            assert!(keyless.is_empty(), "{whose}: {keyless:?}");
        }
    }

    #[test]
    fn a_certificate_without_its_key_is_named_unless_it_is_a_copy_or_an_authority() {
        let (one, two) = (leaf(), leaf());
        let (chain, other) = (one.chain_pem(), two.chain_pem());
        let folder = [
            ("a.pem", one.pem()),
            ("a2.crt", chain),
            ("b.crt", other),
            ("ca.crt", Authority::root("root").pem().to_owned()),
        ];
        let folder = folder.each_ref().map(|(name, text)| (*name, text.as_str()));
        let (found, keyless, _) = found(&folder);
        assert_eq!((found, keyless), (vec!["a.pem".to_owned()], vec!["b.crt".to_owned()]));
    }

    #[test]
    fn the_key_of_a_file_that_is_named_alone_is_found_in_another_folder_if_it_fits() {
        let (one, other) = (leaf(), leaf());
        for [chain, key] in [
            ["/etc/ssl/certs/x.pem", "/etc/ssl/private/x.key"],
            ["/home/u/ssl/certs/x.crt", "/home/u/ssl/keys/x.key"],
            ["/etc/ssl/uacme/x/cert.pem", "/etc/ssl/uacme/private/x/key.pem"],
        ] {
            for (leaf, expected) in [(&one, Some(PathBuf::from(key))), (&other, None)] {
                let mut files = Recording::default();
                files.insert(chain, leaf.chain_pem().into_bytes());
                files.insert(key, one.key_pem().as_bytes().to_vec());
                assert_eq!(key_beside(&mut files, Path::new(chain)), expected);
            }
        }
    }

    /// MySQL keeps its authority and the certificate for clients with their keys beside the
    /// server's; mkcert's CAROOT holds an authority alone. `openssl req -x509` marks a self-signed
    /// certificate as an authority too, and it is served.
    #[test]
    fn an_authority_and_a_client_with_their_keys_are_not_served() {
        let root = Authority::root("root");
        let ca = root.as_leaf();
        let (server, client) = (root.leaf(&["a"]).issue(), root.client("c"));
        let mysql = [
            ("ca-key.pem", ca.key_pem()),
            ("ca.pem", ca.certificate_pem()),
            ("client-cert.pem", client.certificate_pem()),
            ("client-key.pem", client.key_pem()),
            ("server-cert.pem", server.certificate_pem()),
            ("server-key.pem", server.key_pem()),
        ];
        let (pairs, unfit, _) = found(&mysql);
        assert_eq!(pairs, ["server-cert.pem + server-key.pem"]);
        assert_eq!(unfit, ["ca.pem", "client-cert.pem"]);

        // MySQL's certificates say nothing of their use.
        let [server, client] = [0; 2].map(|_| root.leaf(&[]).issue());
        let plain = [
            ("client-cert.pem", client.certificate_pem()),
            ("client-key.pem", client.key_pem()),
            ("server-cert.pem", server.certificate_pem()),
            ("server-key.pem", server.key_pem()),
        ];
        let (pairs, unfit, _) = found(&plain);
        assert_eq!(pairs, ["server-cert.pem + server-key.pem"]);
        assert_eq!(unfit, ["client-cert.pem"]);
        assert_eq!(found(&plain[..2]).0, ["client-cert.pem + client-key.pem"], "no other is there");
        let host = root.leaf(&["client.example"]).issue();
        let named = [("client.pem", host.pem()), ("server.pem", server.pem())];
        let named = named.each_ref().map(|(name, text)| (*name, text.as_str()));
        assert_eq!(found(&named).0, ["client.pem", "server.pem"]);

        let (alone, _, _) = found(&mysql[..2]);
        assert_eq!(alone, ["ca.pem + ca-key.pem"], "its usage lets it sign handshakes");
        let strict = Authority::root_with("root", &["root"], &[Trait::CertSignAlone]).as_leaf();
        let caroot =
            [("rootCA-key.pem", strict.key_pem()), ("rootCA.pem", strict.certificate_pem())];
        let (none, unfit, _) = found(&caroot);
        assert_eq!((none, unfit), (vec![], vec!["rootCA.pem".to_owned()]));

        // The first certificate of a file that is not in order says nothing of the leaf.
        let between = Authority::root_with("root", &["root"], &[Trait::CertSignAlone]);
        let leaf = between.leaf(&["a"]).issue();
        let turned = between.pem().to_owned() + leaf.certificate_pem() + leaf.key_pem();
        assert_eq!(found(&[("turned.pem", &turned)]).0, ["turned.pem"]);

        let own = Authority::own_issuer_by_openssl("-newkey ec -pkeyopt ec_paramgen_curve:P-256");
        assert_eq!(found(&[("own.pem", &own)]).0, ["own.pem"]);
    }
}
