//! `examples/mail.toml`, served to the usual clients of its protocols before real servers.

use suite::example::Example;
use suite::prelude::*;
use suite::starttls::{Foreign, aiosmtpd, dovecot, prosody, slapd};

use super::starttls::{LOGIN, STREAM, curl_as_ann, ldap_at};

/// Addresses of the services of `examples/mail.toml`.
const EXAMPLE_FRONTS: [&str; 8] = [
    "[::]:8587",
    "[::]:8465",
    "[::]:8143",
    "[::]:8993",
    "[::]:8389",
    "[::]:8636",
    "[::]:5223",
    "127.0.0.1:2525",
];

/// Sends a message there by `msmtp`, which has to come to this server.
fn msmtp(site: &Site, address: SocketAddr, tls: &[&str], server: &Foreign) {
    let message = "From: bob@example\nTo: ann@example\nSubject: by msmtp\n\nhello\n";
    let (message, before) = (site.write("message", message), server.stdout());
    let mut command = Command::new("sh");
    command
        .args(["-c", "msmtp \"$@\" < \"$0\""])
        .arg(&message)
        .args(["--host=localhost", "--from=bob@example", "--auth=off"])
        .arg(format!("--port={}", address.port()))
        .arg(format!("--tls-trust-file={}", site.ca().display()))
        .args(tls)
        .arg("ann@example");
    run(&mut command).success();
    until_true("the message", || {
        let said = server.stdout();
        let new = said.strip_prefix(&before);
        new.is_some_and(|new| new.contains("Subject: by msmtp"))
    });
}

#[test]
fn the_example_of_mail_serves_the_usual_clients() {
    let site = Site::new();
    let pem = site.path("site.pem").display().to_string();
    let provider = aiosmtpd(&["--tlscert", &pem, "--tlskey", &pem]);
    let (mail, (_dovecot, [imap, ..])) = (aiosmtpd(&[]), dovecot());
    let (directory, chat) = (slapd(""), prosody(None));
    let servers = [
        ("127.0.0.1:2587", mail.address.to_string()),
        ("127.0.0.1:2143", imap.to_string()),
        ("127.0.0.1:2389", directory.address.to_string()),
        ("127.0.0.1:5222", chat.address.to_string()),
        ("smtp.example", "localhost".to_owned()),
        ("localhost:587", format!("localhost:{}", provider.address.port())),
    ];
    let ca = |path: PathBuf| format!("tls = {{ ca = [{path:?}]");
    let example = Example::new(&site, "mail.toml");
    let example = example.with(&ca(site.path("certs/site.pem")), ca(site.ca()));
    let fronts = EXAMPLE_FRONTS.map(|_| free_address());
    let own = EXAMPLE_FRONTS.into_iter().zip(fronts.map(|one| one.to_string()));
    let places = own.chain(servers);
    let example = places.fold(example, |example, (place, value)| example.with(place, value));
    let [submission, submissions, imap, imaps, ldap, ldaps, xmpps, smarthost] = fronts;
    let _lariat = example.start();
    msmtp(&site, submission, &["--tls=on", "--tls-starttls=on"], &mail);
    msmtp(&site, submissions, &["--tls=on", "--tls-starttls=off"], &mail);
    msmtp(&site, smarthost, &["--tls=off"], &provider);
    for (scheme, address) in [("imap", imap), ("imaps", imaps)] {
        let url = format!("{scheme}://localhost:{}/", address.port());
        let said = curl_as_ann(&site, &url, true).run().success();
        assert_has(said, "INBOX");
    }
    for (scheme, address, start_tls) in [("ldap", ldap, &["-ZZ"][..]), ("ldaps", ldaps, &[])] {
        let url = format!("{scheme}://{address}");
        let who = ldap_at(&site, "ldapwhoami", &url, start_tls);
        assert_eq!(who.success(), "dn:cn=admin,dc=example\n");
    }
    let arguments = ["-alpn", "xmpp-client", "-verify_return_error"];
    let mut talk = Talk::start(&site, xmpps, &arguments);
    talk.say(STREAM);
    talk.wait_for("</stream:features>", 1);
    talk.say(LOGIN);
    talk.wait_for("<success", 1);
    talk.end();
}
