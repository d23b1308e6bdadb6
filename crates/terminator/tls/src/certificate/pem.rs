//! Reads PEM as found in practice (RFC 7468, RFC 1421): splits a file into blocks with their lines;
//! recognises other formats of certificates and keys, with the command that converts each to PEM.
//!
//! Decides which bytes are a block and of which kind, and drops no block silently: an unreadable
//! one is an error. The parser is laxer than RFC 7468 if only one meaning is possible. The callers
//! judge the contents.

use std::borrow::Cow;

use base64ct::{Base64, Encoding};
use rustls_pki_types::PrivateKeyDer;
use x509_parser::asn1_rs::Any;
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};
use zeroize::Zeroizing;

/// Label of a key that another process holds. Only this program writes it.
pub(crate) const REFERENCE_LABEL: &str = "LARIAT KEY REFERENCE";

const BEGIN: &[u8] = b"-----BEGIN ";
const DASHES: &[u8] = b"-----";

/// Tag at the start of every certificate, key and list in DER.
const DER_SEQUENCE: u8 = 0x30;

/// Maximum length of a label; the longest in use has 25 characters.
const LABEL_BYTES_MAX: usize = 64;

/// A block of PEM, or a whole file of DER.
#[derive(Debug)]
pub struct PemBlock {
    /// Line of the block's BEGIN, from 1.
    pub line: usize,
    pub label: String,
    pub kind: BlockKind,
    /// Content of the block; empty if it is not needed.
    pub der: Zeroizing<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BlockKind {
    Certificate,
    /// A private key as PKCS #8, PKCS #1 or SEC 1, whichever its label names.
    PrivateKey,
    /// A private key encrypted with a passphrase.
    EncryptedKey,
    /// The public half of a key that another process holds ([`crate::signing`]).
    KeyReference,
    RevocationList,
    /// Parameters of a key or a key exchange, which certificate and key repeat.
    Parameters,
    /// Any block that no certificate needs.
    Other,
}

/// Fault that makes a file unreadable as PEM.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PemFault {
    /// Line of the block at fault; `None` = the whole file is.
    pub line: Option<usize>,
    pub defect: PemDefect,
}

impl PemFault {
    /// Describes the fault of the file at `place`, and its remedy.
    pub(crate) fn sentence(&self, place: &str) -> String {
        match &self.defect {
            PemDefect::Form(form) => format!("is {}; {}", form.name(), form.remedy(place)),
            defect => format!("is no valid PEM: {defect}; get the file again from who made it"),
        }
    }
}

/// A fault of PEM text; only labels of it are quoted, because the text may be a key.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PemDefect {
    /// The block ends with the file, or at the next one.
    #[error("a {0} block has no END line")]
    NoEnd(String),
    /// A line of dashes is cut, or a block's line lacks its dashes.
    #[error("a BEGIN or END line is malformed")]
    BadLine,
    /// The block holds characters outside Base64, or an impossible number of them.
    #[error("a block is not Base64")]
    NotBase64,
    /// A tool wrote line breaks as two characters.
    #[error("line breaks are written as \\n (`printf %b` makes them of it)")]
    EscapedLines,
    /// The file, or a block of it, is in another format of certificates or keys.
    #[error("it is {}", .0.name())]
    Form(ForeignForm),
}

/// Returns the blocks of a file in order. A file that is one certificate, key or list in DER is
/// read as one block.
///
/// # Errors
/// Fails with the first unreadable block, or a foreign format that may hold a certificate.
pub fn read(bytes: &[u8]) -> Result<Vec<PemBlock>, PemFault> {
    if bytes.first() == Some(&DER_SEQUENCE) {
        // DER comes first, because names in it may look like PEM text.
        let whole = without_blocks(bytes)?;
        if !whole.is_empty() {
            return Ok(whole);
        }
    }
    let text = text_of(bytes);
    let mut blocks = Vec::new();
    let (mut rest, mut line) = (text.as_slice(), 1);
    while let Some(begin) = find(rest, BEGIN) {
        let (before, found) = rest.split_at(begin);
        check_between(before, line)?;
        line += line_breaks(before);
        let used = if is_comment(before) {
            BEGIN.len()
        } else {
            let (block, used) = block(found, line)?;
            blocks.push(block);
            used
        };
        line += line_breaks(&found[..used]);
        rest = &found[used..];
    }
    check_between(rest, line)?;
    if blocks.is_empty() {
        return without_blocks(&text);
    }
    Ok(blocks)
}

/// Reports whether a file holds a private key, as far as it can be read.
pub fn holds_key(bytes: &[u8]) -> bool {
    let kinds = [BlockKind::PrivateKey, BlockKind::EncryptedKey, BlockKind::KeyReference];
    let is_key = |one: &PemBlock| kinds.contains(&one.kind);
    read(bytes).is_ok_and(|blocks| blocks.iter().any(is_key))
}

/// Returns the line of the `number`th block of a kind, from 0.
pub(crate) fn line_of(bytes: &[u8], kind: BlockKind, number: usize) -> Option<usize> {
    let blocks = read(bytes).ok()?;
    let mut of_kind = blocks.iter().filter(|block| block.kind == kind);
    of_kind.nth(number).map(|block| block.line)
}

/// Returns the content of all blocks of a kind.
pub(crate) fn all_of(blocks: Vec<PemBlock>, kind: BlockKind) -> impl Iterator<Item = Vec<u8>> {
    let of_kind = blocks.into_iter().filter(move |block| block.kind == kind);
    of_kind.map(|mut block| std::mem::take(&mut *block.der))
}

/// Returns the foreign format among blocks that explains a missing block of this kind.
pub(crate) fn form_without(blocks: &[PemBlock], kind: BlockKind) -> Option<PemFault> {
    let is_key = kind == BlockKind::PrivateKey;
    let mut others = blocks.iter().filter(|one| one.kind == BlockKind::Other);
    others.find_map(|one| {
        let form = ForeignForm::of_label(&one.label)?;
        (is_key || form == ForeignForm::Request)
            .then_some(PemFault { line: Some(one.line), defect: PemDefect::Form(form) })
    })
}

/// Converts to UTF-8 without byte order marks, which Windows editors write, also where files were
/// joined, and with line feeds where older systems use a carriage return alone.
pub(super) fn text_of(bytes: &[u8]) -> Zeroizing<Vec<u8>> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let wide: Option<fn([u8; 2]) -> u16> = match bytes {
        [0xff, 0xfe, ..] | [b'-', 0, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] | [0, b'-', ..] => Some(u16::from_be_bytes),
        _ => None,
    };
    let text: Cow<'_, [u8]> = match wide {
        None => bytes.into(),
        Some(unit) => {
            let units = bytes.as_chunks().0.iter().map(|pair| unit(*pair));
            // No block has a character beyond ASCII, so any substitute will do.
            let narrow = units.map(|unit| u8::try_from(unit).unwrap_or(b'?'));
            narrow.skip(usize::from(bytes[0] >= 0xfe)).collect()
        }
    };
    let mut plain = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = &*text;
    while let Some(at) = find(rest, MARK) {
        plain.extend_from_slice(&rest[..at]);
        rest = &rest[at + MARK.len()..];
    }
    plain.extend_from_slice(rest);
    for at in 0..plain.len() {
        if plain[at] == b'\r' && plain.get(at + 1) != Some(&b'\n') {
            plain[at] = b'\n';
        }
    }
    plain
}

/// Returns the block whose BEGIN opens `text`, and its length in bytes.
fn block(text: &[u8], line: usize) -> Result<(PemBlock, usize), PemFault> {
    let fault = |defect| PemFault { line: Some(line), defect };
    let opening = &text[BEGIN.len()..];
    let label_end = find(&opening[..opening.len().min(LABEL_BYTES_MAX)], DASHES);
    let label = label_end.map(|end| &opening[..end]);
    let label = label.filter(|label| label.iter().all(|byte| (b' '..=b'~').contains(byte)));
    let label = label.ok_or_else(|| fault(PemDefect::BadLine))?;
    let name = String::from_utf8_lossy(label).trim().to_owned();
    let inside = &opening[label.len() + DASHES.len()..];
    let closing = [b"-----END ", label, DASHES].concat();
    let ends = find(inside, DASHES).filter(|end| inside[*end..].starts_with(&closing));
    let end = ends.ok_or_else(|| fault(PemDefect::NoEnd(name.clone())))?;
    let kind = kind_of(&name, &inside[..end]).map_err(|form| fault(PemDefect::Form(form)))?;
    let der = match kind {
        BlockKind::Certificate
        | BlockKind::PrivateKey
        | BlockKind::RevocationList
        | BlockKind::KeyReference => {
            let mut der = decode(&inside[..end]).map_err(fault)?;
            if name == "TRUSTED CERTIFICATE"
                && let Some(first) = first_element(&der)
            {
                // OpenSSL appends the trusted uses.
                der.truncate(first);
            }
            der
        }
        // The older format also needs its headers, and is not supported.
        BlockKind::EncryptedKey if name.starts_with("ENCRYPTED") => {
            decode(&inside[..end]).map_err(fault)?
        }
        _ => Zeroizing::default(),
    };
    let used = BEGIN.len() + label.len() + DASHES.len() + end + closing.len();
    let label = name;
    Ok((PemBlock { line, label, kind, der }, used))
}

fn kind_of(label: &str, content: &[u8]) -> Result<BlockKind, ForeignForm> {
    Ok(match label {
        "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE" => BlockKind::Certificate,
        "X509 CRL" => BlockKind::RevocationList,
        REFERENCE_LABEL => BlockKind::KeyReference,
        "ENCRYPTED PRIVATE KEY" => BlockKind::EncryptedKey,
        "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY" | "DSA PRIVATE KEY" => {
            match find(content, b"4,ENCRYPTED") {
                Some(_) => BlockKind::EncryptedKey,
                None => BlockKind::PrivateKey,
            }
        }
        _ if label.ends_with("PARAMETERS") => BlockKind::Parameters,
        _ => match ForeignForm::of_label(label) {
            Some(form) if form.holds_certificate() => return Err(form),
            _ => BlockKind::Other,
        },
    })
}

/// Decodes Base64. Headers (RFC 1421 section 4.4) are the lines with a colon, which Base64 lacks.
fn decode(content: &[u8]) -> Result<Zeroizing<Vec<u8>>, PemDefect> {
    if content.contains(&b'\\') {
        return Err(PemDefect::EscapedLines);
    }
    let lines = content.split(|byte| matches!(byte, b'\n' | b'\r'));
    let lines = lines.filter(|line| !line.contains(&b':'));
    let mut packed = Zeroizing::new(Vec::with_capacity(content.len()));
    packed.extend(lines.flatten().copied().filter(|byte| !byte.is_ascii_whitespace()));
    decode_packed(&packed).ok_or(PemDefect::NotBase64)
}

fn decode_packed(packed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut der = Zeroizing::new(vec![0; packed.len() / 4 * 3 + 3]);
    let decoded = Base64::decode(packed, &mut der).ok()?.len();
    der.truncate(decoded);
    Some(der)
}

/// Checks text around blocks. Any text is allowed except a damaged BEGIN or END line: without all
/// its dashes, or with others that a word processor substituted.
fn check_between(text: &[u8], first_line: usize) -> Result<(), PemFault> {
    let lines = (first_line..).zip(text.split(|byte| *byte == b'\n'));
    let mut lines = lines.filter(|(_, text)| !is_comment(text));
    let half = lines.find(|(_, text)| is_half_a_mark(text));
    half.map_or(Ok(()), |(line, _)| Err(PemFault { line: Some(line), defect: PemDefect::BadLine }))
}

/// Reports whether a line is a damaged mark. A name like `back-end.example` or
/// `xn--endgltig-65a.example`, which `openssl x509 -text` writes before a block, is not: one dash
/// counts at the start of a line, and two if a blank follows the word.
fn is_half_a_mark(line: &[u8]) -> bool {
    let upper = line.to_ascii_uppercase();
    let opens = [b"-BEGIN ".as_slice(), b"-END "];
    let within: [&[u8]; 4] = [b"--BEGIN ", b"--END ", b"BEGIN CERTIFICATE", b"BEGIN X509"];
    opens.iter().any(|mark| upper.trim_ascii_start().starts_with(mark))
        || within.iter().any(|mark| find(&upper, mark).is_some())
}

/// Reports whether the last line of a text is commented out.
fn is_comment(text: &[u8]) -> bool {
    let last = text.rsplit(|byte| *byte == b'\n').next();
    last.is_some_and(|line| line.trim_ascii_start().starts_with(b"#"))
}

/// Reads a file without BEGIN: DER, Base64 of DER, or neither.
fn without_blocks(bytes: &[u8]) -> Result<Vec<PemBlock>, PemFault> {
    let fault = |form| PemFault { line: None, defect: PemDefect::Form(form) };
    if let Some(form) = ForeignForm::of_bytes(bytes) {
        return Err(fault(form));
    }
    let mut packed = Zeroizing::new(bytes.to_vec());
    packed.retain(|byte| !byte.is_ascii_whitespace());
    let der = match decode_packed(&packed) {
        Some(text) if find(&text, BEGIN).is_some() => return Err(fault(ForeignForm::EncodedTwice)),
        Some(der) if !der.is_empty() => der,
        _ => Zeroizing::new(bytes.to_vec()),
    };
    if let Some(form) = ForeignForm::of_bytes(&der) {
        return Err(fault(form));
    }
    let is_whole = first_element(&der) == Some(der.len());
    let kind = match () {
        () if !is_whole => return Ok(Vec::new()),
        () if X509Certificate::from_der(&der).is_ok() => BlockKind::Certificate,
        () if CertificateRevocationList::from_der(&der).is_ok() => BlockKind::RevocationList,
        () if PrivateKeyDer::try_from(&**der).is_ok() => BlockKind::PrivateKey,
        () => return Ok(Vec::new()),
    };
    let (line, label) = (1, String::from("DER"));
    Ok(vec![PemBlock { line, label, kind, der }])
}

/// Returns the length of the first element of DER.
fn first_element(der: &[u8]) -> Option<usize> {
    let (rest, _) = Any::from_der(der).ok()?;
    Some(der.len() - rest.len())
}

fn line_breaks(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|part| part == what)
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ForeignForm {
    /// No byte but white space.
    Empty,
    /// Certificates in a PKCS #7 (CMS) bundle, as PEM.
    Pkcs7,
    Pkcs7Der,
    /// Certificates and keys in an archive of PKCS #12.
    Pkcs12,
    JavaKeyStore,
    OpenSshKey,
    PuttyKey,
    Pgp,
    Request,
    /// The public half of a key.
    PublicKey,
    /// PEM encoded in Base64 again, as in a Secret of Kubernetes.
    EncodedTwice,
    /// A Secret of Kubernetes as YAML or JSON, containing PEM in Base64.
    KubernetesSecret,
    /// JSON containing PEM in Base64, as Traefik stores certificates.
    Json,
    /// HTML or another markup: the answer of a server that had no certificate.
    WebPage,
    /// Compressed data; the command that unpacks it.
    Packed(&'static str),
    /// A kind of certificate that TLS does not support.
    OtherCertificate,
}

/// Formats by words in the block's label; the first match counts.
const LABELS: &[(&str, ForeignForm)] = &[
    ("PKCS7", ForeignForm::Pkcs7),
    ("PKCS #7", ForeignForm::Pkcs7),
    ("CMS", ForeignForm::Pkcs7),
    ("PKCS12", ForeignForm::Pkcs12),
    ("OPENSSH PRIVATE KEY", ForeignForm::OpenSshKey),
    ("PGP", ForeignForm::Pgp),
    ("CERTIFICATE REQUEST", ForeignForm::Request),
    ("PUBLIC KEY", ForeignForm::PublicKey),
    ("CERTIFICATE", ForeignForm::OtherCertificate),
];

/// Formats by the first bytes of a file. In BER an archive may be of indefinite length.
const OPENINGS: &[(&[u8], ForeignForm)] = &[
    (b"\x30\x80\x02\x01\x03", ForeignForm::Pkcs12),
    (b"\x30\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02", ForeignForm::Pkcs7Der),
    (b"\xfe\xed\xfe\xed", ForeignForm::JavaKeyStore),
    (b"\xce\xce\xce\xce", ForeignForm::JavaKeyStore),
    (b"PuTTY-User-Key-File", ForeignForm::PuttyKey),
    (b"ssh-", ForeignForm::PublicKey),
    (b"ecdsa-sha2-", ForeignForm::PublicKey),
    (b"\x1f\x8b", ForeignForm::Packed("gunzip -c")),
    (b"PK\x03\x04", ForeignForm::Packed("unzip -p")),
    (b"\xfd7zXZ\x00", ForeignForm::Packed("xz -dc")),
    (b"BZh", ForeignForm::Packed("bunzip2 -c")),
    (b"\x28\xb5\x2f\xfd", ForeignForm::Packed("zstd -dc")),
];

/// Words that mark a manifest as a Secret.
const SECRETS: [&[u8]; 3] = [b"kind: Secret\n", b"\"kind\": \"Secret\"", b"\"kind\":\"Secret\""];

/// `-----BEGIN` in Base64.
const BEGIN_IN_BASE64: &[u8] = b"LS0tLS1CRUdJT";

/// Content type signedData (RFC 5652 section 5.1), as DER.
const SIGNED_DATA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02";

impl ForeignForm {
    pub(super) fn of_label(label: &str) -> Option<Self> {
        let found = LABELS.iter().find(|(words, _)| label.contains(words));
        found.map(|(_, form)| *form)
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.trim_ascii().is_empty() {
            return Some(Self::Empty);
        }
        let opening = OPENINGS.iter().find(|(first, _)| bytes.starts_with(first));
        let element = || Any::from_der(bytes).ok().map(|(_, sequence)| sequence.data);
        let has = |words: &[u8]| bytes.windows(words.len()).any(|part| part == words);
        if SECRETS.iter().any(|words| has(words)) {
            return Some(Self::KubernetesSecret);
        }
        match bytes.trim_ascii_start()[0] {
            b'{' | b'[' if has(BEGIN_IN_BASE64) => return Some(Self::Json),
            b'<' => return Some(Self::WebPage),
            _ => {}
        }
        opening.map(|(_, form)| *form).or_else(|| match element()? {
            body if body.starts_with(SIGNED_DATA) => Some(Self::Pkcs7Der),
            // Version 3 (RFC 7292 section 4).
            [2, 1, 3, ..] => Some(Self::Pkcs12),
            _ => None,
        })
    }

    /// Reports whether the format may hold a certificate that is meant to be served.
    pub(super) fn holds_certificate(self) -> bool {
        matches!(self, Self::Pkcs7 | Self::Pkcs12 | Self::OtherCertificate)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Pkcs7 | Self::Pkcs7Der => "PKCS #7",
            Self::Pkcs12 => "PKCS #12",
            Self::JavaKeyStore => "a Java key store",
            Self::OpenSshKey => "a key of OpenSSH",
            Self::PuttyKey => "a key of PuTTY",
            Self::Pgp => "of OpenPGP, which TLS does not speak",
            Self::Request => "a certificate request",
            Self::PublicKey => "a public key",
            Self::EncodedTwice => "encoded in Base64 once more",
            Self::KubernetesSecret => "a manifest of a Kubernetes Secret",
            Self::Json => "JSON, with PEM in Base64 in it",
            Self::WebPage => "a web page",
            Self::Packed(_) => "compressed",
            Self::OtherCertificate => "a certificate of a kind that TLS does not know",
        }
    }

    /// Describes how to convert the file at `place` to PEM.
    pub(super) fn remedy(self, place: &str) -> String {
        match self {
            Self::Empty => "name the file that the CA delivered".to_owned(),
            Self::Pkcs7 => {
                format!("convert it with `openssl pkcs7 -in {place} -print_certs -out CHAIN.pem`")
            }
            Self::Pkcs7Der => format!(
                "convert it with `openssl pkcs7 -inform der -in {place} -print_certs -out \
                 CHAIN.pem`"
            ),
            Self::Pkcs12 => format!(
                "convert it with `openssl pkcs12 -in {place} -nodes -out PEM` (with `-legacy` if \
                 OpenSSL 3 says `unsupported`, as of exports by older Windows) and protect the \
                 result by file mode"
            ),
            Self::JavaKeyStore => format!(
                "convert it with `keytool -importkeystore -srckeystore {place} -destkeystore \
                 STORE.p12 -deststoretype PKCS12` and `openssl pkcs12 -in STORE.p12 -nodes -out \
                 PEM`"
            ),
            Self::OpenSshKey => format!(
                "convert a copy of it in place with `ssh-keygen -p -m PEM -N '' -f {place}`; one \
                 of Ed25519 cannot be, so get a certificate for a new key"
            ),
            Self::PuttyKey => format!(
                "convert it with `puttygen {place} -O private-openssh -o KEY` and \
                 `ssh-keygen -p -m PEM -N '' -f KEY`"
            ),
            Self::Request => "name the certificate that the CA made of it".to_owned(),
            Self::PublicKey => "name the private key that it belongs to".to_owned(),
            Self::KubernetesSecret => {
                "write `kubectl get secret NAME -o jsonpath='{.data.tls\\.crt}' | base64 -d` into a \
                 file and `tls\\.key` so into another, or mount the Secret and name its folder"
                    .to_owned()
            }
            Self::Json => format!(
                "write its certificate into a file and its key into another, in Traefik's form by \
                 `jq -r '.[].Certificates[0].certificate' {place} | base64 -d` and \
                 `jq -r '.[].Certificates[0].key' {place} | base64 -d`"
            ),
            Self::WebPage => "read it: it may say why the certificate was not delivered".to_owned(),
            Self::Packed(unpack) => format!("unpack it with `{unpack} {place} > PEM`"),
            Self::EncodedTwice => format!("decode it with `base64 -d {place} > PEM`"),
            Self::Pgp | Self::OtherCertificate => {
                "name an X.509 certificate (BEGIN CERTIFICATE) and its key".to_owned()
            }
        }
    }
}
