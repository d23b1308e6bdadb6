//! A private key behind a passphrase, which comes from a file or a program.

use std::os::unix::fs::PermissionsExt;

use suite::prelude::*;

const PASSPHRASE: &str = "correct horse battery";

/// Writes a new certificate, and its key encrypted by OpenSSL.
fn issue(site: &Site, form: &[&str]) {
    let leaf = site.leaf(&["localhost"]);
    site.write("site.crt", leaf.chain_pem());
    let plain = site.write("plain.key", leaf.key_pem());
    let mut openssl = Command::new("openssl");
    openssl.args(form).args(["-passout", &format!("pass:{PASSPHRASE}")]);
    run(openssl.arg("-in").arg(plain).arg("-out").arg(site.path("site.key"))).success();
}

fn service(site: &Site, server: &Server, passphrase: &str) -> Service {
    let (chain, key) = (site.path("site.crt"), site.path("site.key"));
    let table = format!("[{{ chain = {chain:?}, key = {key:?}{passphrase} }}]");
    Service::new(site, server).certificates(&table)
}

/// Returns a key that names a program with this script.
fn program(site: &Site, script: &str) -> String {
    let path = site.write("passphrase.sh", format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    format!(", key-passphrase-command = {path:?}")
}

fn is_verified(site: &Site, service: &Service) {
    let answer = s_client(site, service.address, &[]);
    answer.assert_stdout("Verify return code: 0 (ok)");
}

#[test]
fn an_encrypted_key_serves_and_is_read_anew_at_a_reload() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    issue(&site, &["pkcs8", "-topk8"]);
    let file = site.write("passphrase", format!("{PASSPHRASE}\n"));
    let by_file = service(&site, &server, &format!(", key-passphrase-file = {file:?}"));
    let lariat = by_file.start();
    is_verified(&site, &by_file);
    issue(&site, &["pkcs8", "-topk8", "-scrypt"]);
    lariat.reload().success();
    is_verified(&site, &by_file);
    // The worker process that takes over has no passphrase and needs none.
    lariat.replace_worker_process();
    is_verified(&site, &by_file);
    site.write("passphrase", "another");
    let refused = lariat.reload();
    assert_eq!(refused.code(), 5, "{refused:?}");
    refused.assert_stderr("is not opened by this passphrase");
    is_verified(&site, &by_file);
    let said = format!("{}{}{}", lariat.status(), lariat.log(), lariat.stderr());
    assert!(!said.contains(PASSPHRASE) && !said.contains("another"), "{said}");
}

#[test]
fn a_program_writes_the_passphrase() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    issue(&site, &["pkcs8", "-topk8"]);
    let by_program = service(&site, &server, &program(&site, &format!("echo '{PASSPHRASE}'")));
    let _lariat = by_program.start();
    is_verified(&site, &by_program);
}

#[test]
fn what_is_wrong_with_a_passphrase_is_named() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let path = site.write("given", PASSPHRASE);
    let given = format!(", key-passphrase-file = {path:?}");
    let file = |name: &str, content: &str| {
        format!(", key-passphrase-file = {:?}", site.write(name, content))
    };
    let missing = format!(", key-passphrase-file = {:?}", site.path("nothing"));
    let both = program(&site, "exit 0") + &given;
    let pkcs8 = &["pkcs8", "-topk8"][..];
    let cases: [(&[&str], String, &str); 8] = [
        (pkcs8, String::new(), "name its passphrase by `key-passphrase-file`"),
        (pkcs8, file("wrong", "wrong"), "is not opened by this passphrase"),
        (pkcs8, file("empty", "\n"), "gives an empty passphrase"),
        (pkcs8, missing, "No such file or directory"),
        (pkcs8, both, "stands beside a file with the passphrase"),
        (&["ec", "-aes128"], given.clone(), "is encrypted in OpenSSL's old form"),
        (&["pkcs8", "-topk8", "-v2", "des3"], given, "in a form that is not supported"),
        (pkcs8, program(&site, "exit 3"), "it ended with exit status: 3"),
    ];
    for (form, passphrase, words) in cases {
        issue(&site, form);
        let answer = lariat::check(&service(&site, &server, &passphrase).toml());
        assert_ne!(answer.code(), 0, "{words}: {answer:?}");
        answer.assert_stderr(words);
        assert!(!answer.stderr.contains(PASSPHRASE), "{answer:?}");
    }
}

/// The program may ask somebody, or count its failures.
#[test]
fn a_program_that_fails_is_run_once_for_all_keys() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    issue(&site, &["pkcs8", "-topk8"]);
    let folder = Directory::new();
    for name in ["a", "b"] {
        fs::copy(site.path("site.crt"), folder.join(format!("{name}.crt"))).unwrap();
        fs::copy(site.path("site.key"), folder.join(format!("{name}.key"))).unwrap();
    }
    let runs = site.path("runs");
    let fails = program(&site, &format!("echo >> {}; exit 3", runs.display()));
    let table = format!("[{{ chain = {:?}{fails} }}]", folder.path());
    let answer = lariat::check(&Service::new(&site, &server).certificates(&table).toml());
    answer.assert_stderr("it ended with exit status: 3");
    assert_eq!(fs::read_to_string(runs).unwrap(), "\n");
}
