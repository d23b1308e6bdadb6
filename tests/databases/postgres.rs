//! Drivers of PostgreSQL.

use std::path::Path;

use suite::prelude::*;
use suite::starttls::{lariat, postgres};

use super::{Login, assert_refused, assert_says, service};

const DRIVERS: [&str; 3] = ["psycopg", "asyncpg", "postgresql"];

fn login<'a>(service: &Service, ca: Option<&'a Path>) -> Login<'a> {
    Login {
        address: service.address,
        user: "ann",
        password: "secret",
        ca,
    }
}

/// How a driver is told to begin with TLS.
fn direct(driver: &str) -> &'static str {
    match driver {
        "psycopg" => "sslnegotiation=direct",
        "asyncpg" => "direct",
        _ => "-sslNegotiation=direct",
    }
}

/// How a statement ends that a driver has canceled.
fn canceled(driver: &str) -> &'static str {
    match driver {
        "postgresql" => "cancel 57014",
        _ => "cancel canceled",
    }
}

#[test]
fn a_server_without_tls_serves_every_driver() {
    let site = Site::new();
    let hba = "local all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256";
    let server = postgres(hba, &[], &site);
    let socket = format!(".s.PGSQL.{}", server.address.port());
    let socket = format!("unix:{}", server.directory.join(socket).display());
    let ca = site.ca();
    let tcp = service(&site, "tcp", &server.address.to_string());
    let tcp = tcp.starting_tls("postgres", "required");
    let unix = service(&site, "unix", &socket).starting_tls("postgres", "required");
    let pair = service(&site, "pair", &tcp.address.to_string());
    let pair = pair.asking("postgres", &ca).mode("off");
    let lariat = lariat([&tcp, &unix, &pair]);
    for driver in DRIVERS {
        for (service, ca) in [
            (&tcp, Some(ca.as_path())),
            (&unix, Some(&ca)),
            (&pair, None),
        ] {
            let login = login(service, ca);
            let actions = ["who", "prepared", "large", "cancel", "who"];
            let lines = [
                "who ann false",
                "prepared 42",
                "large 3000000",
                canceled(driver),
            ];
            let lines = [&lines[..], &["who ann false"]].concat();
            assert_says(driver, login, &actions, &lines);
            if ca.is_some() {
                let actions = [&[direct(driver)], &actions[..]].concat();
                assert_says(driver, login, &actions, &lines);
            }
            for (user, password) in [("ann", "wrong"), ("nobody", "secret")] {
                let wrong = Login {
                    user,
                    password,
                    ..login
                };
                assert_refused(driver, wrong, &["who"], "password authentication failed");
            }
        }
        let plain = login(&tcp, None);
        assert_refused(driver, plain, &["who"], "this server requires TLS");
    }
    lariat.wait_for_line(&["starttls-required"]);
    let verified = login(&tcp, Some(&ca));
    assert_says("psycopg", verified, &["copy"], &["copy 6"]);
    // libpq of before version 17 cancels in plaintext.
    assert_says(
        "psycopg",
        verified,
        &["old-cancel"],
        &["old-cancel canceled"],
    );
    // The server has no TLS, and so offers no SCRAM-SHA-256-PLUS.
    let bound = ["channel_binding=require", "who"];
    assert_refused("psycopg", verified, &bound, "channel binding");
    let bound = ["-channelBinding=require", "who"];
    assert_refused("postgresql", verified, &bound, "hannel");
    // GSSAPI encryption is declined: a driver that insists says so, another one asks for TLS.
    let insisting = ["-gssEncMode=require", "who"];
    assert_refused("postgresql", verified, &insisting, "does not support GSS");
}

#[test]
fn a_server_with_tls_offers_channel_binding() {
    let site = Site::new();
    let hba = "hostssl all all 127.0.0.1/32 scram-sha-256";
    let server = postgres(hba, &["-c", "ssl=on"], &site);
    let (ca, address) = (site.ca(), server.address.to_string());
    let before = |name| {
        let service = service(&site, name, &address).asking("postgres", &ca);
        service.starting_tls("postgres", "required")
    };
    let same = before("same");
    site.leaf(&["localhost"])
        .write(&site.directory, "other.pem");
    let other = before("other").certificates(&format!("[{:?}]", site.path("other.pem")));
    let _lariat = lariat([&same, &other]);
    for driver in DRIVERS {
        assert_says(driver, login(&same, Some(&ca)), &["who"], &["who ann true"]);
    }
    for (driver, bound, unbound) in [
        (
            "psycopg",
            "channel_binding=require",
            "channel_binding=disable",
        ),
        (
            "postgresql",
            "-channelBinding=require",
            "-channelBinding=disable",
        ),
    ] {
        let verified = login(&same, Some(&ca));
        assert_says(driver, verified, &[bound, "who"], &["who ann true"]);
        // Binding to the certificate holds only where Lariat and the server have the same.
        let verified = login(&other, Some(&ca));
        assert_refused(driver, verified, &["who"], "channel binding check failed");
        assert_says(driver, verified, &[unbound, "who"], &["who ann true"]);
    }
}
