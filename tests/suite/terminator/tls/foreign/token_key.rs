//! Keys in tokens (PKCS #11, RFC 7512), with SoftHSM's library, and with one that crashes or hangs
//! on demand.

use std::sync::atomic::{AtomicBool, Ordering};

use suite::prelude::*;

/// The library of Debian's package `softhsm2`.
const SOFT_HSM: &str = "/usr/lib/softhsm/libsofthsm2.so";

/// A PIN that no number in a log has by chance.
const PIN: &str = "a-pin-of-tests";

/// A library that passes all calls on to SoftHSM's, but C_Sign if one of two files exists, and
/// C_Login if another does: `refuse` refuses the PIN, `slow` makes all but the first wait until it
/// is gone. Both grow by a byte each time.
const FAULTY: &str = r#"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef unsigned long (*call)();
struct list { unsigned char version[2]; call calls[68]; };
#include <fcntl.h>
enum { C_LOGIN = 18, C_SIGN = 43, PIN_INCORRECT = 0xa0 };
static struct list own;
static call sign, login;
static unsigned long refusing(void *a, void *b, void *c, void *d) {
    int file = open(FOLDER "/slow", O_WRONLY | O_APPEND);
    if (file >= 0) {
        write(file, "x", 1);
        long tries = lseek(file, 0, SEEK_END);
        close(file);
        while (tries > 1 && !access(FOLDER "/slow", F_OK)) usleep(1000);
    }
    file = open(FOLDER "/refuse", O_WRONLY | O_APPEND);
    if (file < 0) return login(a, b, c, d);
    write(file, "x", 1);
    close(file);
    return PIN_INCORRECT;
}
static unsigned long faulty(void *a, void *b, void *c, void *d, void *e) {
    if (!access(FOLDER "/crash", F_OK)) abort();
    while (!access(FOLDER "/hang", F_OK)) usleep(1000);
    return sign(a, b, c, d, e);
}
unsigned long C_GetFunctionList(struct list **list) {
    void *library = dlopen(LIBRARY, RTLD_NOW);
    call get = (call) dlsym(library, "C_GetFunctionList");
    struct list *theirs;
    unsigned long code = get(&theirs);
    if (code) return code;
    memcpy(&own, theirs, sizeof own);
    sign = own.calls[C_SIGN];
    own.calls[C_SIGN] = (call) faulty;
    login = own.calls[C_LOGIN];
    own.calls[C_LOGIN] = (call) refusing;
    *list = &own;
    return 0;
}
"#;

/// A token with the keys of a site's certificates.
struct Token {
    site: Site,
    folder: Directory,
}

impl Token {
    /// Makes a token with a certificate and a key of each of these kinds, named by its number.
    fn with(kinds: &[Key]) -> Self {
        let token = Self { site: Site::new(), folder: Directory::new() };
        let objects = token.folder.path().join("tokens");
        fs::create_dir(&objects).unwrap();
        let settings = format!("directories.tokendir = {}\n", objects.display());
        token.folder.write("softhsm2.conf", settings);
        token.util(&["--init-token", "--free", "--label", "lariat", "--so-pin", "1234"]);
        for (number, kind) in kinds.iter().enumerate() {
            let leaf = token.site.authority.leaf(&["localhost"]).key(*kind).issue();
            token.site.write(format!("{number}.crt"), leaf.chain_pem());
            token.import(&leaf, &number.to_string(), &format!("0{number}"));
        }
        token.site.write("pin", format!("{PIN}\n"));
        token.give_away();
        token
    }

    fn import(&self, leaf: &Leaf, label: &str, id: &str) {
        let key = self.folder.write("key.pem", leaf.key_pem());
        let key = key.to_str().unwrap();
        self.util(&["--import", key, "--token", "lariat", "--label", label, "--id", id]);
    }

    fn util(&self, arguments: &[&str]) {
        let mut command = Command::new("softhsm2-util");
        command.env("SOFTHSM2_CONF", self.configuration());
        command.args(arguments).args(["--pin", PIN]);
        // The tool does not find a token to which another process logs in at this moment.
        until_true("the token's tool", || run(&mut command).code() == 0);
    }

    /// Gives the files to the user of the processes without rights.
    fn give_away(&self) {
        if geteuid().is_root() {
            run(Command::new("chown").args(["-R", "65534"]).arg(self.folder.path())).success();
            run(Command::new("chmod").args(["a+rx"]).arg(self.folder.path())).success();
        }
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("softhsm2.conf")
    }

    /// Returns the table of a certificate, with the URI of its key.
    fn entry(&self, number: usize, uri: &str) -> String {
        let chain = self.site.path(&format!("{number}.crt"));
        let pin = self.site.path("pin");
        format!("{{ chain = {chain:?}, key = {uri:?}, key-passphrase-file = {pin:?} }}")
    }

    fn uri(&self, number: usize) -> String {
        format!("pkcs11:token=lariat;object={number};type=private?module-path={SOFT_HSM}")
    }

    fn command(&self) -> Command {
        let mut command = lariat::command();
        command.env("SOFTHSM2_CONF", self.configuration());
        command
    }

    fn start(&self, service: &Service) -> Lariat {
        let workers = "[workers]\nthreads = 1\n";
        Lariat::start_by(self.command(), &format!("{workers}{}", service.toml()))
    }

    fn check(&self, service: &Service) -> Finished {
        let file = self.site.write("lariat.toml", service.toml());
        run(self.command().arg("check").arg(file))
    }
}

fn signatures(lariat: &Lariat, result: &str) -> f64 {
    lariat.sum("lariat_key_signatures_total", &[("result", result)])
}

#[test]
fn keys_of_each_kind_sign_in_both_versions() {
    let token = Token::with(&[Key::EcdsaP256, Key::EcdsaP384, Key::Rsa2048]);
    let server = Server::start(Behaviour::Echo);
    for (number, talks) in [
        (0, &["-tls1_3", "-tls1_2"][..]),
        (1, &["-tls1_3", "-tls1_2"]),
        (
            2,
            &[
                "-tls1_3 -sigalgs rsa_pss_rsae_sha256",
                "-tls1_3 -sigalgs rsa_pss_rsae_sha384",
                "-tls1_3 -sigalgs rsa_pss_rsae_sha512",
                "-tls1_2 -sigalgs RSA+SHA256",
                "-tls1_2 -sigalgs RSA+SHA384",
                "-tls1_2 -sigalgs RSA+SHA512",
            ],
        ),
    ] {
        let certificates = format!("[{}]", token.entry(number, &token.uri(number)));
        let service = Service::new(&token.site, &server).certificates(&certificates);
        assert_has(token.check(&service).success(), "good");
        let lariat = token.start(&service);
        for talk in talks {
            let words: Vec<_> =
                ["-verify_return_error"].into_iter().chain(talk.split(' ')).collect();
            s_client(&token.site, service.address, &words).success();
        }
        assert_eq!(signatures(&lariat, "signed"), talks.len() as f64);
        assert_eq!(lariat.status()["key_process"]["failed"], 0);
        assert!(!lariat.stderr().contains(PIN));
    }
}

#[test]
fn what_is_wrong_is_said_where_it_is_written_and_no_pin_is_shown() {
    let token = Token::with(&[Key::EcdsaP256, Key::EcdsaP256]);
    let server = Server::start(http());
    let other_pin = token.site.write("other-pin", "another-pin\n");
    token.import(&token.site.leaf(&["x"]), "twin", "07");
    token.import(&token.site.leaf(&["x"]), "twin", "08");
    token.give_away();
    let file = token.site.write("no-library.so", "text");
    let chain = token.site.path("0.crt");
    let good = token.uri(0);
    let module = format!("?module-path={SOFT_HSM}");
    for (uri, words) in [
        ("pkcs11:token=lariat".to_owned(), "says neither `object` nor `id`"),
        ("pkcs11:object=0;colour=red".to_owned(), "has no attribute `colour`"),
        ("pkcs11:object=0?pin-value=a-pin-of-tests".to_owned(), "holds the PIN itself"),
        (format!("pkcs11:token=lariat;object=none{module}"), "has no private key"),
        (format!("pkcs11:token=other;object=0{module}"), "none of the tokens `lariat` is meant"),
        (format!("pkcs11:token=lariat;object=twin{module}"), "2 private keys of the token fit"),
        (token.uri(1), "it is not the certificate's"),
        ("pkcs11:object=0?module-path=/no/such.so".to_owned(), "/no/such.so cannot be loaded"),
        (format!("pkcs11:object=0?module-path={}", file.display()), "cannot be loaded"),
        (format!("{good}&pin-source=file:/p"), "stands beside another place of the PIN"),
    ] {
        let certificates = format!("[{}]", token.entry(0, &uri));
        let service = Service::new(&token.site, &server).certificates(&certificates);
        let checked = token.check(&service);
        assert_eq!(checked.code(), 2, "{uri}: {checked:?}");
        assert_has(&checked.stderr, words);
        assert_has(&checked.stderr, "hint: ");
        assert!(!checked.stderr.contains(PIN), "{}", checked.stderr);
    }
    for (key, words) in [
        (format!("key-passphrase-file = {other_pin:?}"), "the token refuses the PIN"),
        ("key-passphrase-file = \"/no/pin\"".to_owned(), "does not come from /no/pin"),
        ("key-passphrase-command = [\"/bin/true\"]".to_owned(), "is empty in /bin/true"),
        (String::new(), "shows no such private key without a PIN"),
    ] {
        let comma = if key.is_empty() { "" } else { ", " };
        let certificates = format!("[{{ chain = {chain:?}, key = {good:?}{comma}{key} }}]");
        let service = Service::new(&token.site, &server).certificates(&certificates);
        let checked = token.check(&service);
        assert_eq!(checked.code(), 2, "{key}: {checked:?}");
        assert_has(&checked.stderr, words);
        assert!(!checked.stderr.contains("another-pin"), "{}", checked.stderr);
    }
}

/// Makes a service by a library that can be told to crash or to hang, and the files that tell it.
fn faulty(token: &Token, server: &Server) -> (Service, PathBuf) {
    let folder = token.folder.path();
    let certificates = faulty_in(token, folder, 0);
    token.give_away();
    let service = Service::new(&token.site, server).certificates(&certificates);
    (service, folder.to_owned())
}

/// Returns the certificate of that number by such a library in that folder.
fn faulty_in(token: &Token, folder: &Path, number: usize) -> String {
    let source = token.folder.write("faulty.c", FAULTY);
    let library = folder.join("faulty.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-w", "-o"]).arg(&library).arg(source);
    compiler.arg(format!("-DFOLDER={:?}", folder.display().to_string()));
    run(compiler.arg(format!("-DLIBRARY={SOFT_HSM:?}"))).success();
    let uri = format!("pkcs11:token=lariat;object={number}?module-path={}", library.display());
    format!("[{}]", token.entry(number, &uri))
}

#[test]
fn tokens_that_are_slow_are_all_waited_for_at_once() {
    let (token, server) = (Token::with(&[Key::EcdsaP256; 3]), Server::start(http()));
    let folders = ["first", "second", "third"].map(|name| token.folder.path().join(name));
    let service = |(number, folder): (usize, &PathBuf)| {
        fs::create_dir(folder).unwrap();
        // The first login waits already.
        fs::write(folder.join("slow"), "x").unwrap();
        let service = Service::new(&token.site, &server).named(&number.to_string());
        service.certificates(&faulty_in(&token, folder, number)).toml()
    };
    let services: String = folders.iter().enumerate().map(service).collect();
    token.give_away();
    let file = token.site.write("lariat.toml", services);
    thread::scope(|scope| {
        let check = scope.spawn(|| run(token.command().arg("check").arg(file)));
        until_true("a login in each", || {
            let waits = |folder: &PathBuf| fs::read(folder.join("slow")).unwrap() == b"xx";
            check.is_finished() || folders.iter().all(waits)
        });
        // The earlier ones would have been given up by now.
        folders.iter().for_each(|folder| fs::remove_file(folder.join("slow")).unwrap());
        check.join().unwrap().success();
    });
}

#[test]
fn a_library_that_crashes_takes_nobody_along() {
    let (token, server) = (Token::with(&[Key::EcdsaP256]), Server::start(http()));
    let (service, folder) = faulty(&token, &server);
    let lariat = token.start(&service);
    let connect = || Client::new(&token.site).try_connect(service.address);
    let mut open = connect().unwrap();
    let worker = lariat.worker_process();
    fs::write(folder.join("crash"), "").unwrap();
    connect().unwrap_err();
    lariat.wait_for_stderr("the process that holds the keys has ended");
    lariat.wait_for_reason("key-unavailable", 1);
    // A reload, a check and a start see it die too.
    let refused = lariat.reload();
    assert_eq!(refused.code(), 5, "{refused:?}");
    assert_has(&refused.stderr, "the process that opens keys in tokens died");
    assert_has(token.check(&service).stderr, "the process that opens keys in tokens died");
    fs::remove_file(folder.join("crash")).unwrap();
    until_true("signatures again", || connect().is_ok());
    assert_eq!(lariat.worker_process(), worker);
    open.ask("");
    assert_eq!(open.response().1, b"hello");
}

#[test]
fn a_reload_waits_for_its_keys_for_a_while_and_those_before_sign() {
    let (token, server) = (Token::with(&[Key::EcdsaP256]), Server::start(http()));
    let (service, _) = faulty(&token, &server);
    let lariat = token.start(&service);
    let connects = || Client::new(&token.site).try_connect(service.address).is_ok();
    until_true("a signature", connects);
    let slow = token.folder.write("slow", "");
    token.give_away();
    thread::scope(|scope| {
        let reload = scope.spawn(|| lariat.reload().success());
        // The first is the trial.
        until_true("the next process", || fs::read(&slow).unwrap() == b"xx");
        assert!(connects());
        fs::remove_file(&slow).unwrap();
        reload.join().unwrap();
    });
    assert!(connects());
    assert_eq!(signatures(&lariat, "failed") + signatures(&lariat, "late"), 0.0);
    // A hanging library holds nothing up for longer than its time limit.
    token.folder.write("slow", "");
    token.give_away();
    lariat.reload().success();
    lariat.wait_for_stderr("not all keys have been opened in 5 s");
    fs::remove_file(&slow).unwrap();
    until_true("signatures again", connects);
}

#[test]
fn a_library_that_hangs_holds_up_a_second_of_a_thread_and_is_replaced() {
    let (token, server) = (Token::with(&[Key::EcdsaP256]), Server::start(http()));
    let (service, folder) = faulty(&token, &server);
    let lariat = token.start(&service);
    let connect = || Client::new(&token.site).try_connect(service.address);
    let mut open = connect().unwrap();
    let worker = lariat.worker_process();
    let keys = lariat.process("lariat: keys");
    fs::write(folder.join("hang"), "").unwrap();
    for _ in 0..3 {
        connect().unwrap_err();
    }
    lariat.wait_for_reason("key-unavailable", 3);
    until_true("to be away", || lariat.readiness().ends_with("503"));
    assert_has(token.check(&service).stderr, "a token's library has not answered");
    lariat.wait_for_stderr("the process that holds the keys has ended");
    fs::remove_file(folder.join("hang")).unwrap();
    until_true("signatures again", || connect().is_ok());
    assert_ne!(lariat.process("lariat: keys"), keys);
    assert_eq!(lariat.worker_process(), worker);
    open.ask("");
    assert_eq!(open.response().1, b"hello");
}

#[test]
fn keys_of_files_and_of_a_token_are_in_one_process_and_a_reload_changes_them() {
    let (token, server) = (Token::with(&[Key::EcdsaP256, Key::Rsa2048]), Server::start(http()));
    let all = format!("[{:?}, {}]", token.site.path("site.pem"), token.entry(1, &token.uri(1)));
    let service = Service::new(&token.site, &server).certificates(&all);
    let lariat = token.start(&service);
    let toml = format!("[process]\nkey-process = true\n{}", service.toml());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for sigalgs in ["ecdsa_secp256r1_sha256", "rsa_pss_rsae_sha256"] {
                    s_client(&token.site, service.address, &["-sigalgs", sigalgs]).success();
                }
            }
        });
        lariat.reload_with(&toml);
        lariat.reload_with(&service.toml());
        lariat.reload_with(&toml);
        is_over.store(true, Ordering::Relaxed);
        load.join().unwrap();
    });
    assert_eq!(signatures(&lariat, "failed") + signatures(&lariat, "late"), 0.0);
}

#[test]
fn a_pin_that_is_refused_is_not_tried_again_before_a_reload() {
    let (token, server) = (Token::with(&[Key::EcdsaP256]), Server::start(http()));
    let (service, _) = faulty(&token, &server);
    let lariat = token.start(&service);
    let is_served = || Client::new(&token.site).try_connect(service.address).is_ok();
    until_true("a signature", is_served);
    let refuse = token.folder.write("refuse", "");
    token.give_away();
    kill_process(lariat.process("lariat: keys"), Signal::KILL).unwrap();
    lariat.wait_for_stderr("1 of 1 keys cannot be opened (token=lariat;module-path=");
    lariat.wait_for_stderr("none is tried again before a reload");
    for _ in 0..3 {
        Client::new(&token.site).try_connect(service.address).unwrap_err();
    }
    assert_eq!(fs::read(&refuse).unwrap(), b"x", "a token locks its PIN after a few");
    fs::remove_file(refuse).unwrap();
    lariat.reload().success();
    until_true("signatures again", is_served);
}

impl Token {
    /// Makes another token with a certificate's key; returns the folder of its objects.
    fn beside(&self, label: &str) -> PathBuf {
        let tokens = self.folder.path().join("tokens");
        let all = || -> Vec<_> {
            fs::read_dir(&tokens).unwrap().map(|entry| entry.unwrap().path()).collect()
        };
        let before = all();
        self.util(&["--init-token", "--free", "--label", label, "--so-pin", "1234"]);
        let leaf = self.site.authority.leaf(&["localhost"]).issue();
        self.site.write(format!("{label}.crt"), leaf.chain_pem());
        let key = self.folder.write("key.pem", leaf.key_pem());
        let key = key.to_str().unwrap();
        self.util(&["--import", key, "--token", label, "--label", label, "--id", "01"]);
        self.give_away();
        all().into_iter().find(|path| !before.contains(path)).unwrap()
    }

    fn certificate_beside(&self, label: &str, pin: &Path) -> String {
        let chain = self.site.path(&format!("{label}.crt"));
        let uri = format!("pkcs11:token={label};object={label}?module-path={SOFT_HSM}");
        format!("[{{ chain = {chain:?}, key = {uri:?}, key-passphrase-file = {pin:?} }}]")
    }
}

/// Makes a service with its certificate in a file, one with its key in a token, and one with its
/// key in another, which may be served without it.
fn three_services(token: &Token, server: &Server, pin: &Path) -> [Service; 3] {
    let in_token = format!("[{}]", token.entry(0, &token.uri(0)));
    let other = token.certificate_beside("other", pin);
    [
        Service::new(&token.site, server).named("files"),
        Service::new(&token.site, server).named("token").certificates(&in_token),
        Service::new(&token.site, server)
            .named("other")
            .certificates(&other)
            .tls("bad-certificate = \"skip\""),
    ]
}

fn configuration(services: &[Service; 3]) -> String {
    let services: String = services.iter().map(Service::toml).collect();
    format!("[process]\nkey-process = true\n[workers]\nthreads = 1\n{services}")
}

#[test]
fn a_token_that_is_away_keeps_its_own_key_away_alone_and_serves_when_it_comes_back() {
    let (token, server) = (Token::with(&[Key::EcdsaP256]), Server::start(http()));
    let objects = token.beside("other");
    let services = three_services(&token, &server, &token.site.path("pin"));
    let away = token.folder.path().join("away");
    fs::rename(&objects, &away).unwrap();
    let lariat = Lariat::start_by(token.command(), &configuration(&services));
    lariat.wait_for_stderr("handshakes with its certificate fail until it opens");
    let connects = |at: usize| Client::new(&token.site).try_connect(services[at].address).is_ok();
    let others = || connects(0) && connects(1);
    until_true("the other services", others);
    assert!(!connects(2));
    lariat.wait_for_reason("key-unavailable", 1);
    let line = lariat.wait_for_line(&["key-unavailable"]);
    assert_has(line.to_string(), "the process that holds the key could not open it");
    assert_has(lariat.readiness(), "ready, but for some keys that cannot sign\n200");
    let of_other = [("keys", format!("token=other;module-path={SOFT_HSM}"))];
    let of_other = of_other.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(lariat.sum("lariat_keys_unopened", &of_other), 1.0);
    assert_eq!(lariat.sum("lariat_keys_unopened", &[]), 1.0);
    assert_has(lariat.ask("status").success(), "1 of 1 keys NOT OPENED");
    assert!(others(), "while it is tried again");
    fs::rename(&away, &objects).unwrap();
    until_true("the third service", || connects(2));
    until_true("to be ready", || lariat.readiness() == "ready\n200");
    lariat.wait_for_stderr_times("1 of 1 keys cannot be opened", 1);
    // A required key that cannot be opened fails a reload and a start, as any unreadable
    // certificate does.
    fs::rename(&objects, &away).unwrap();
    let text = configuration(&services).replace("bad-certificate = \"skip\"", "");
    assert_has(lariat.reload_refused(&text).stderr, "none of the tokens");
    assert!(others(), "as before");
}

#[test]
fn a_pin_that_one_token_refuses_keeps_no_other_key_away() {
    let (token, server) = (Token::with(&[Key::EcdsaP256]), Server::start(http()));
    token.beside("other");
    let pin = token.site.write("wrong", "no-such-pin\n");
    let services = three_services(&token, &server, &pin);
    let lariat = Lariat::start_by(token.command(), &configuration(&services));
    let connects = |at: usize| Client::new(&token.site).try_connect(services[at].address).is_ok();
    until_true("the other services", || connects(0) && connects(1));
    assert!(!connects(2));
    lariat.wait_for_stderr("the token refuses the PIN");
    lariat.wait_for_stderr("none is tried again before a reload");
    fs::write(&pin, format!("{PIN}\n")).unwrap();
    lariat.reload().success();
    until_true("the third service", || connects(2));
}

#[test]
fn a_refused_pin_is_tried_once_by_a_start_and_once_by_a_reload() {
    let (token, server) = (Token::with(&[Key::EcdsaP256]), Server::start(http()));
    let (service, _) = faulty(&token, &server);
    let service = service.tls("bad-certificate = \"skip\"");
    let refuse = token.folder.write("refuse", "");
    token.give_away();
    let lariat = token.start(&service);
    lariat.wait_for_stderr("none is tried again before a reload");
    assert_eq!(fs::read(&refuse).unwrap(), b"x");
    lariat.reload().success();
    assert_eq!(lariat.sum("lariat_keys_unopened", &[]), 1.0);
    assert_eq!(fs::read(&refuse).unwrap(), b"xx", "a token locks its PIN after a few");
}

#[test]
fn a_key_that_a_token_lacks_is_looked_for_while_its_others_sign() {
    let (token, server) = (Token::with(&[Key::EcdsaP256]), Server::start(http()));
    let late = token.site.authority.leaf(&["localhost"]).issue();
    let chain = token.site.write("late.crt", late.chain_pem());
    let pin = token.site.path("pin");
    let uri = format!("pkcs11:token=lariat;object=late?module-path={SOFT_HSM}");
    let services = [
        Service::new(&token.site, &server)
            .named("there")
            .certificates(&format!("[{}]", token.entry(0, &token.uri(0)))),
        Service::new(&token.site, &server)
            .named("late")
            .certificates(&format!(
                "[{{ chain = {chain:?}, key = {uri:?}, key-passphrase-file = {pin:?} }}]"
            ))
            .tls("bad-certificate = \"skip\""),
    ];
    let toml: String = services.iter().map(Service::toml).collect();
    let lariat = Lariat::start_by(token.command(), &toml);
    lariat.wait_for_stderr("1 of 2 keys cannot be opened");
    let serving = lariat.status()["key_process"]["processes"][0]["restarts"].clone();
    let signs = || Client::new(&token.site).try_connect(services[0].address).is_ok();
    // Attempts come and go beside the one that signs.
    let process = |name| lariat.process(name);
    let first = process("lariat: keys");
    until_true("another attempt", || {
        assert!(signs());
        process("lariat: keys") != first
    });
    token.import(&late, "late", "09");
    token.give_away();
    until_true("the key", || {
        assert!(signs());
        lariat.sum("lariat_keys_unopened", &[]) == 0.0
    });
    assert_ne!(lariat.status()["key_process"]["processes"][0]["restarts"], serving);
    assert!(signs());
    assert!(Client::new(&token.site).try_connect(services[1].address).is_ok());
}
