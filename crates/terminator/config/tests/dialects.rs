//! The protocol of a service, and its effect on other settings.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

use std::time::Duration;

use config::{Recording, TypedConfiguration};
use proxy::options::ServiceOptions;

/// Makes a service of mode `off` or with a certificate, and with these additional lines.
fn service(tls: &str, more: &str) -> ServiceOptions {
    let mut files = Recording::default();
    for name in ["site.pem", "ca.pem"] {
        files.insert(name, b"PEM".to_vec());
    }
    let place = "lariat.toml".to_owned();
    let text = format!(
        "[[service]]\nfront.listen = ['[::]:443']\nfront.tls = {tls}\n\
         back.servers = ['10.0.0.1:80']\n{more}\n"
    );
    let loaded = config::load(&TypedConfiguration::of_text(place, text), &mut files).unwrap();
    loaded.settings.data_plane.services.into_iter().next().unwrap()
}

const TERMINATED: &str = "{ certificates = ['site.pem'] }";

/// Makes a service with STARTTLS of this protocol to its servers.
fn asking(dialect: &str, more: &str) -> ServiceOptions {
    let back = format!("back.starttls = '{dialect}'\nback.tls.ca = ['ca.pem']");
    service("'off'", &format!("{back}\n{more}"))
}

#[test]
fn what_is_spoken_says_how_long_it_may_be_silent() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    for (dialects, silence) in [
        ("smtp lmtp pop3", minutes(10)),
        ("imap sieve nntp", minutes(30)),
        ("mysql", minutes(8 * 60)),
        ("ftp postgres ldap xmpp", minutes(24 * 60)),
    ] {
        for dialect in dialects.split(' ') {
            assert_eq!(asking(dialect, "").timeouts.idle, silence, "{dialect}");
            let written = asking(dialect, "timeouts.idle = '7m'");
            assert_eq!(written.timeouts.idle, minutes(7), "{dialect}");
        }
    }
    assert_eq!(service(TERMINATED, "").timeouts.idle, minutes(5));
    let at_front = service(TERMINATED, "front.starttls = 'imap'");
    assert_eq!(at_front.timeouts.idle, minutes(30));
    assert_eq!(at_front.timeouts.greeting, Duration::from_secs(30));
}

#[test]
fn mail_servers_are_told_a_name_that_is_not_localhost() {
    let own = |dialect: &str, more: &str| asking(dialect, more).starttls.unwrap().own_name;
    let own_name = own("smtp", "");
    assert!(own_name.contains('.') || own_name.starts_with('['), "{own_name}");
    assert_eq!(own("lmtp", ""), own_name);
    assert_eq!(own("smtp", "back.ehlo-name = 'mx.example'"), "mx.example");
    assert_eq!(own("imap", ""), "");
}
