//! Targets of the laboratory: each installed one does what it claims, fails at what it says that it
//! does not support, and leaves nothing that outlives the laboratory.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use suite::prelude::*;
use suite::process::{children, processes};

/// Requirements, and loads that tell whether they are met: each must succeed, but for those whose
/// names end with `.none`, of which no session must be resumed. Levels whose names are alike up to
/// the point have one requirement, which is met if all of them succeed.
const SHAPES: [(&str, &str); 17] = [
    (
        "tls-1-2",
        "server = { versions = ['1.2'], certificates = ['rsa2048'], groups = ['secp256r1'], \
         suites = ['TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384'] }\n\
         expect = { version = 'TLSv1.2', suite = 'TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384', \
         group = 'secp256r1' }",
    ),
    (
        "tls-1-3",
        "server = { versions = ['1.3'], certificates = ['p384'], groups = ['secp384r1'], \
         suites = ['TLS_CHACHA20_POLY1305_SHA256'] }\n\
         expect = { version = 'TLSv1.3', suite = 'TLS_CHACHA20_POLY1305_SHA256', \
         group = 'secp384r1' }",
    ),
    ("ed25519", "server.certificates = ['ed25519']\nexpect.signature = 'ed25519'"),
    (
        "hybrid",
        "server = { versions = ['1.3'], groups = ['X25519MLKEM768'] }\n\
         expect.group = 'X25519MLKEM768'",
    ),
    ("pair.rsa", "server.certificates = ['rsa2048', 'p256']\nload.signatures = 'rsa'"),
    ("pair.ecdsa", "server.certificates = ['rsa2048', 'p256']\nload.signatures = 'ecdsa'"),
    (
        "all-kinds",
        "load = { handshake = 'mixed', tls = 'both' }\n\
         expect.kinds = ['full', 'session-id', 'ticket', 'psk']",
    ),
    (
        "session-ids-alone.none",
        "server = { versions = ['1.2'], tickets = false }\n\
         load = { tls = '1.2', handshake = 'ticket' }",
    ),
    (
        "session-ids-alone.some",
        "server = { versions = ['1.2'], tickets = false }\n\
         load = { tls = '1.2', handshake = 'session-id' }\nexpect.kinds = ['full', 'session-id']",
    ),
    (
        "session-ids-alone-1-3.none",
        "server = { versions = ['1.3'], tickets = false }\n\
         load = { tls = '1.3', handshake = 'psk' }",
    ),
    (
        "tickets-alone.none",
        "server = { versions = ['1.2'], session-ids = false }\n\
         load = { tls = '1.2', handshake = 'session-id' }",
    ),
    (
        "tickets-alone.some",
        "server = { versions = ['1.2'], session-ids = false }\n\
         load = { tls = '1.2', handshake = 'ticket' }\nexpect.kinds = ['full', 'ticket']",
    ),
    (
        "no-resumption.none",
        "server = { session-ids = false, tickets = false }\n\
         load = { handshake = 'any', tls = 'both' }",
    ),
    (
        "re-encrypt",
        "server.back-tls = true\nload.handshake = 'full'\n\
         expect = { kinds = ['full'], origin-resumed = { least = 0.1 } }",
    ),
    (
        "client-mode",
        "server = { front = 'plain', back-tls = true }\n\
         expect.origin-resumed = { least = 0.1 }",
    ),
    ("passthrough", "server.front = 'passthrough'"),
    (
        "two-workers",
        "server.workers = 2\nload = { handshake = 'psk', tls = '1.3' }\n\
         expect.kinds = ['full', 'psk']",
    ),
];

/// Returns the scenario with a level for each shape.
fn scenario() -> String {
    let level = |(name, keys): (&str, &str)| {
        let unmet = "expect = { resumed = { most = 0.0 }, error-rate = { most = 1.0 } }";
        let unmet = if name.ends_with(".none") { unmet } else { "" };
        format!("[[factor.value]]\nname = '{name}'\ntitle = '{name}'\n{keys}\n{unmet}\n")
    };
    format!("{HEAD}{}", SHAPES.map(level).concat())
}

const HEAD: &str = r#"
question = "Is every target what it is asked to be?"
method = "A few connections, one request each."
operation = "requests"
metrics = ["rate"]
targets = ["lariat"]
tls-origin = "nginx-files"

[quick]
repeats = 1
warm-up = "0s"
duration = "300ms"

[full]
repeats = 1
warm-up = "0s"
duration = "1m"

[load]
connections = 4
size = "1KiB"
timeout = "30s"

[expect]
error-rate = { most = 0.0 }

[[factor]]
name = "shape"
title = "shape"
"#;

/// A run of shapes by targets, not yet started.
struct Shapes {
    directory: Directory,
    words: Vec<OsString>,
}

/// A wish of a target: `hitch`, `pair`.
type Wish = (String, String);

impl Shapes {
    /// Makes a run by these targets, in these shapes (all of them, if there are none).
    fn of(targets: &str, shapes: &[&str]) -> Self {
        let directory = Directory::new();
        let scenario = directory.write("shapes.toml", scenario());
        let mut words: Vec<OsString> = vec!["run".into(), scenario.into()];
        words.extend(["--speeds", "none", "--targets", targets].map(Into::into));
        for shape in shapes {
            words.extend(["--only".into(), format!("shape={shape}").into()]);
        }
        // The terminator beside the tests, because it need not lie beside the laboratory.
        for target in ["lariat=", "lariat-files="] {
            let mut given = OsString::from(target);
            given.push(lariat::command().get_program());
            words.extend(["--program".into(), given]);
        }
        Self { directory, words }
    }

    fn command(&self) -> Command {
        let mut command = lab::command();
        let folder = self.directory.path();
        // Files that a killed laboratory leaves behind are removed with ours.
        command.env("TMPDIR", folder).current_dir(folder);
        command.args(&self.words);
        command
    }

    /// Returns the claims of each target, by wish: whether it can do it.
    fn claims(&self) -> BTreeMap<Wish, bool> {
        let said = run(self.command().arg("--dry-run")).success();
        let mut claims = BTreeMap::new();
        let mut lines = said.lines().peekable();
        while let Some(line) = lines.next() {
            let Some((target, shape)) = line.trim().split_once(" shape=") else {
                continue;
            };
            let next = lines.peek().unwrap();
            let can = !next.trim().starts_with("unsupported: ");
            claims.insert((target.to_owned(), wish_of(shape)), can);
        }
        claims
    }

    /// Returns what each target did, also where it claims no support: whether it succeeded, and the
    /// messages about it.
    fn deeds(&self) -> BTreeMap<Wish, (bool, String)> {
        let boastful = boastful_targets();
        let mut command = self.command();
        command.arg("--target-folder").arg(boastful.path());
        let record = self.directory.join("record.jsonl");
        let mut running = Running::start(command.arg("--record").arg(&record));
        let lines = || fs::read_to_string(&record).map_or(0, |text| text.lines().count());
        let mut seen = 0;
        let status = loop {
            // The time limit is for each configuration, because there are many.
            let step = until("the next configuration", || match running.ended() {
                Some(status) => Some(Err(status)),
                None => Some(lines()).filter(|&now| now > seen).map(Ok),
            });
            match step {
                Ok(now) => seen = now,
                Err(status) => break status,
            }
        };
        assert!(matches!(status.code(), Some(0 | 6)), "{status}");
        let record = fs::read_to_string(record).unwrap();
        let mut deeds = BTreeMap::new();
        for line in record.lines().skip(1) {
            let event: Value = serde_json::from_str(line).unwrap();
            let Some(key) = event["configuration"].as_str() else {
                continue;
            };
            let (target, shape) = key.split_once(" shape=").unwrap();
            let target = target.strip_prefix("target=").unwrap().to_owned();
            let deed = deeds.entry((target, wish_of(shape)));
            let (is_done, about) = deed.or_insert((true, String::new()));
            *is_done &= is_as_wished(shape, &event);
            *about += &format!("{shape}: {} {}; ", event["event"], event["why"]);
        }
        deeds
    }
}

fn wish_of(shape: &str) -> String {
    shape.split('.').next().unwrap_or_default().to_owned()
}

fn is_as_wished(shape: &str, event: &Value) -> bool {
    let why = event["why"].as_str().unwrap_or_default();
    if shape.ends_with(".none") {
        event["event"] == "measured" || why.starts_with("nothing succeeded: resumption-")
    } else {
        event["event"] == "measured"
    }
}

/// The sides of a target whose templates can do everything.
const ALL_SIDES: &str = "fronts = [\"tls\", \"plain\", \"passthrough\"]\nback-tls = true";

/// Returns the targets of the program, as they would be if they could do everything.
fn boastful_targets() -> Directory {
    let directory = Directory::new();
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets");
    for folder in entries(&ours).into_iter().filter(|path| path.is_dir()) {
        let copy = directory.join(folder.file_name().unwrap());
        fs::create_dir(&copy).unwrap();
        for file in entries(&folder) {
            let text = fs::read_to_string(&file).unwrap();
            let boast = text.split("\n[[unsupported]]").next().unwrap();
            let lines = boast.lines();
            let lines = lines
                .filter(|line| !line.starts_with("fronts =") && !line.starts_with("back-tls ="));
            let boast: String = lines.map(|line| format!("{line}\n")).collect();
            let boast = boast.replace("\nscheme =", &format!("\n{ALL_SIDES}\nscheme ="));
            fs::write(copy.join(file.file_name().unwrap()), boast).unwrap();
        }
    }
    directory
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Checks that every target does what it claims, and fails at the rest.
fn assert_honest(shapes: &Shapes) {
    let claims = shapes.claims();
    let deeds = shapes.deeds();
    assert!(claims.len() > 1, "{claims:?}");
    assert!(claims.keys().eq(deeds.keys()), "{claims:?}\n{deeds:?}");
    for (wish, (is_done, about)) in deeds {
        assert_eq!(is_done, claims[&wish], "{wish:?}: {about}");
    }
}

#[test]
fn each_program_is_as_it_says() {
    assert_honest(&Shapes::of("lariat,hitch,stunnel,haproxy-tcp,nginx-stream", &[]));
}

#[test]
fn other_modes_of_the_same_programs_are_as_they_say() {
    assert_honest(&Shapes::of(
        "lariat-files,haproxy-http,nginx-http,nginx-files,nginx-lua",
        &["tls-1-3", "hybrid", "session-ids-alone-1-3.none"],
    ));
}

/// Returns the ids of all descendants of a process.
fn descendants(of: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut last = BTreeSet::from([of]);
    while !last.is_empty() {
        last = children(&last);
        found.extend(&last);
    }
    found
}

/// Counts these processes with that name.
fn count(name: &str, ids: &BTreeSet<u32>) -> usize {
    let has_name = |id: &&u32| {
        let comm = fs::read_to_string(format!("/proc/{id}/comm"));
        comm.is_ok_and(|comm| comm.trim() == name)
    };
    ids.iter().filter(has_name).count()
}

#[test]
fn nothing_outlives_a_killed_laboratory() {
    // Processes of several generations, but for the last one.
    for (target, program, processes_max) in [
        ("hitch", "hitch", 2),
        ("nginx-stream", "nginx", 2),
        ("lariat", "lariat: worker", 1),
        ("stunnel", "stunnel", 1),
    ] {
        let shapes = Shapes::of(target, &["tls-1-3"]);
        let mut command = shapes.command();
        let mut running = Running::start(command.args(["--full", "--record", "record.jsonl"]));
        let beneath = until(&format!("{target} to run"), || {
            running.assert_running();
            let beneath = descendants(running.id());
            (count(program, &beneath) == processes_max).then_some(beneath)
        });
        running.signal(Signal::KILL);
        running.wait();
        until_true(&format!("all of {target} to end"), || {
            let left = processes();
            let is_left = |(id, _): &(u32, u32)| beneath.contains(id);
            !left.iter().any(is_left)
        });
    }
}

/// Makes a folder with one target; `rest` are further lines of its file.
fn own_target(rest: &str) -> Directory {
    let directory = Directory::new();
    fs::create_dir(directory.join("own")).unwrap();
    let text = format!(
        "title = \"a server of our own\"\nserves = \"itself\"\nscheme = \"https\"\n\
         version = [[\"{{{{program}}}}\", \"version\"]]\nstart = [\"{{{{program}}}}\"]\n{rest}"
    );
    directory.write("own/target.toml", text);
    directory
}

/// Runs `lariat-lab targets` with these words: exit code, standard output, standard error.
fn targets(folder: &Directory, words: &[&str]) -> (i32, String, String) {
    let mut command = lab::command();
    command.arg("targets").args(words);
    let finished = run(command.arg("--target-folder").arg(folder.path()));
    (finished.code(), finished.stdout, finished.stderr)
}

#[test]
fn targets_are_told_with_version_and_owner() {
    let none = Directory::new();
    let (code, told, _) = targets(&none, &["nginx-stream", "plain"]);
    assert_eq!(code, 0, "{told}");
    for words in ["nginx version: nginx/", "(package nginx ", "(ours)", "lariat-lab "] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let program = lariat::command().get_program().to_string_lossy().into_owned();
    let given = format!("own={program}");
    let own = own_target("program = \"no-such-server\"\npackages = [\"no-such-package\"]\n");
    let (code, told, said) = targets(&own, &["own", "--program", &given]);
    assert_eq!(code, 0, "{said}");
    assert_has(&told, &format!("{program} (given)"));
    assert_has(&told, "\n     lariat ");
}

#[test]
fn what_is_missing_is_told_with_its_remedy() {
    let own = own_target("program = \"no-such-server\"\npackages = [\"no-such-package\"]\n");
    let (code, told, said) = targets(&own, &["own"]);
    assert_eq!(code, 6, "{said}");
    assert!(told.contains("not installed (package no-such-package)"));
    assert!(said.contains("hint: `lariat-lab targets --install` installs it"));
    let (code, told, said) = targets(&own, &["own", "--program", "own=/no/such/file"]);
    assert_eq!(code, 6, "{said}");
    assert_has(&told, "there is no program /no/such/file");
    let own = own_target("program = \"sh\"\npackages = [\"dash\"]\nneeds = [\"/no/module.so\"]\n");
    let (code, told, _) = targets(&own, &["own"]);
    assert_eq!((code, told.contains("/no/module.so is missing")), (6, true), "{told}");
}

/// A root without programs: enough to be refused, and to be listed.
#[test]
fn roots_are_listed_and_refused_without_a_network() {
    let roots = Directory::new();
    fs::create_dir_all(roots.path().join("sid/usr")).unwrap();
    let own = own_target("program = \"sh\"\npackages = [\"dash\"]\nroot = \"forky\"\n");
    let folder = roots.path().to_str().unwrap();
    let listed = |words: &[&str]| targets(&own, &[words, &["--root-folder", folder]].concat());
    let (code, told, _) = listed(&["hitch", "plain"]);
    assert_has(&told, &format!("\nroot sid ({folder}/sid)\nhitch"));
    assert_has(&told, "not installed (package hitch of sid)");
    assert_eq!(code, 0, "what is not asked for is not missing: {told}");
    for (words, code, wanted) in [
        (&["hitch", "--suite", "sid"][..], 6, "--install --suite sid` installs it"),
        (&["own"], 6, "--install --suite forky` installs it"),
        (&["--suite", "forky"], 2, "there is no root `forky` in"),
        (&["--suite", "../sid", "--install"], 2, "`../sid` is no name of a suite"),
        (&["--suite", "sid", "--root", "/"], 2, "cannot be used with '--root <DIR>'"),
        (&["--root", "/no/such/root"], 2, "/no/such/root: No such file"),
    ] {
        let (found, told, said) = listed(words);
        let all = told + &said;
        assert_eq!((found, all.contains(wanted)), (code, true), "{words:?}: {all}");
    }
    let mut command = lab::command();
    command.args(["run", "keys", "--suite", "forky", "--root-folder", folder]);
    let finished = run(&mut command);
    finished.assert_fails(2, &["targets --install --suite forky"]);
}

#[test]
fn slips_are_named() {
    let none = Directory::new();
    for (words, wanted) in [
        (&["nginx-steam"][..], "did you mean `nginx-stream`?"),
        (&["--instal"], "a similar argument exists: '--install'"),
        (&["--program", "haproxy"], "'haproxy' for '--program <TARGET=PATH>': not NAME=VALUE"),
        (&["--program", "haprox-tcp=/bin/true"], "did you mean `haproxy-tcp`?"),
    ] {
        let (code, _, said) = targets(&none, words);
        assert_eq!((code, said.contains(wanted)), (2, true), "{said}");
    }
    for (rest, wanted) in [
        ("program = 1\n", "own/target.toml"),
        ("program = \"x\"\nfiles = [\"x.conf\"]\n", "no template for `x.conf`"),
        (
            "program = \"x\"\n[[unsupported]]\nwhen = { worker = 2 }\nwhy = \"\"\n",
            "`worker` in `when`",
        ),
    ] {
        let (code, _, said) = targets(&own_target(rest), &[]);
        assert_eq!((code, said.contains(wanted)), (2, true), "{said}");
    }
}
