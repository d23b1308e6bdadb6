//! Drivers of PostgreSQL.

use suite::prelude::*;
use suite::starttls::{lariat, postgres};

use super::{Login, assert_refused, assert_says, service};

const DRIVERS: [&str; 5] = ["psycopg", "asyncpg", "postgresql", "pg8000", "pgx"];

fn login<'a>(service: &Service, ca: Option<&'a Path>) -> Login<'a> {
    Login { address: service.address, user: "ann", password: "secret", ca }
}

/// Returns a driver's option to begin with TLS.
fn direct(driver: &str) -> &'static str {
    match driver {
        "psycopg" | "pgx" => "sslnegotiation=direct",
        "asyncpg" => "direct",
        _ => "-sslNegotiation=direct",
    }
}

/// Returns how a statement ends that a driver has canceled.
fn canceled(driver: &str) -> &'static str {
    match driver {
        "postgresql" => "cancel 57014",
        _ => "cancel canceled",
    }
}

/// Returns everything that a driver can do, and what it prints then. One driver cannot cancel.
fn all<'a>(driver: &str, who: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
    let mut actions = vec!["who", "prepared", "large"];
    let mut lines = vec![who, "prepared 42", "large 3000000"];
    if driver != "pg8000" {
        actions.extend(["cancel", "who"]);
        lines.extend([canceled(driver), who]);
    }
    (actions, lines)
}

#[test]
fn a_server_without_tls_serves_every_driver() {
    let site = Site::new();
    let hba = "local all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256";
    let server = postgres(hba, &[], &site);
    let socket = format!(".s.PGSQL.{}", server.address.port());
    let socket = format!("unix:{}", server.directory.join(socket).display());
    let ca = site.ca();
    let tcp = service(&site, "tcp", server.address).starting_tls("postgres", "required");
    let unix = service(&site, "unix", &socket).starting_tls("postgres", "required");
    let pair = service(&site, "pair", tcp.address).asking("postgres", &ca).mode("off");
    let lariat = lariat([&tcp, &unix, &pair]);
    for driver in DRIVERS {
        for (service, ca) in [(&tcp, Some(ca.as_path())), (&unix, Some(&ca)), (&pair, None)] {
            let login = login(service, ca);
            let (actions, lines) = all(driver, "who ann false");
            assert_says(driver, login, &actions, &lines);
            // pg8000 does not begin with TLS.
            if ca.is_some() && driver != "pg8000" {
                let actions = [&[direct(driver)], &actions[..]].concat();
                assert_says(driver, login, &actions, &lines);
            }
            for (user, password) in [("ann", "wrong"), ("nobody", "secret")] {
                let wrong = Login { user, password, ..login };
                assert_refused(driver, wrong, &["who"], "password authentication failed");
            }
        }
        let plain = login(&tcp, None);
        assert_refused(driver, plain, &["who"], "this server requires TLS");
    }
    lariat.wait_for_line(&["starttls-required"]);
    let verified = login(&tcp, Some(&ca));
    assert_says("psycopg", verified, &["copy"], &["copy 6"]);
    // libpq before version 17 cancels in plaintext.
    assert_says("psycopg", verified, &["old-cancel"], &["old-cancel canceled"]);
    // The server has no TLS, and so offers no SCRAM-SHA-256-PLUS.
    let bound = ["channel_binding=require", "who"];
    assert_refused("psycopg", verified, &bound, "channel binding");
    let bound = ["-channelBinding=require", "who"];
    assert_refused("postgresql", verified, &bound, "hannel");
    // GSSAPI encryption is declined: a driver that insists reports it, another one asks for TLS.
    let insisting = ["-gssEncMode=require", "who"];
    assert_refused("postgresql", verified, &insisting, "does not support GSS");
}

/// Drivers that bind their login to the certificate if the server offers that, and how they are
/// told not to.
const BINDING: [(&str, Option<&str>); 4] = [
    ("psycopg", Some("channel_binding=disable")),
    ("postgresql", Some("-channelBinding=disable")),
    ("pg8000", None),
    ("pgx", None),
];

#[test]
fn a_server_with_tls_offers_channel_binding() {
    let site = Site::new();
    let hba = "hostssl all all 127.0.0.1/32 scram-sha-256";
    // A client's request may go to one server, and its cancellation to the other.
    let servers = [(); 2].map(|()| postgres(hba, &["-c", "ssl=on"], &site));
    let list = servers.each_ref().map(|one| format!("{:?}", one.address.to_string()));
    let (ca, list) = (site.ca(), format!("[{}]", list.join(", ")));
    let before = |name| {
        let service = service(&site, name, "127.0.0.1:1").servers(&list);
        service.asking("postgres", &ca)
    };
    let same = before("same").starting_tls("postgres", "required");
    site.leaf(&["localhost"]).write(&site.directory, "other.pem");
    let other = before("other").certificates(&format!("[{:?}]", site.path("other.pem")));
    let other = other.starting_tls("postgres", "required");
    let plain = before("plain").mode("off");
    let lariat = lariat([&same, &other, &plain]);
    // Defaults, with the server's name verified; and without TLS, before a server that wants it.
    for driver in DRIVERS {
        for (service, ca) in [(&same, Some(ca.as_path())), (&plain, None)] {
            let (actions, lines) = all(driver, "who ann true");
            assert_says(driver, login(service, ca), &actions, &lines);
        }
    }
    for (driver, bound) in
        [("psycopg", "channel_binding=require"), ("postgresql", "-channelBinding=require")]
    {
        let verified = login(&same, Some(&ca));
        assert_says(driver, verified, &[bound, "who"], &["who ann true"]);
    }
    // Binding to the certificate holds only where Lariat and the server have the same.
    let verified = login(&other, Some(&ca));
    for (driver, unbound) in BINDING {
        assert_refused(driver, verified, &["who"], "channel binding is impossible");
        lariat.wait_for_line(&["\"service\":\"other\"", "channel-binding"]);
        if let Some(unbound) = unbound {
            assert_says(driver, verified, &[unbound, "who"], &["who ann true"]);
        }
    }
    assert_says("asyncpg", verified, &["who"], &["who ann true"]);
}
