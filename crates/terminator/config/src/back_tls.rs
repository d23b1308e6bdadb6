//! The keys of a service's TLS towards its servers.

use backend::options::ServerOptions;
use options::{Problem, Section, Severity};
use proxy::options::BackTlsOptions;
use tls::client::{is_server_name, parse_pin};
use tls::options::{
    CertificateSource, ClientOptions, ExpectedName, ExpiredLists, OfferedAlpn, ServerVerification,
};
use wire::address::{Address, Endpoint};

use crate::certificates::{self, Shelf, holds_key};
use crate::front;
use crate::inspection::Use;

/// The word in place of a name.
const OF_CLIENT: &str = "client";

/// Reads `service.back.tls`; `Some(None)` = servers get plaintext.
#[allow(
    clippy::option_option,
    reason = "two kinds of absence meet here and are told apart"
)]
pub(crate) fn read(
    back: &Section<'_>,
    servers: &[ServerOptions],
    shelf: &mut Shelf<'_>,
) -> Option<Option<Box<BackTlsOptions>>> {
    let header_inside = back.section("send-proxy").boolean("inside-tls");
    let Some(tls) = back.section_if_written("tls") else {
        if header_inside? {
            let problem = Problem::new("has no effect: servers get plaintext");
            let hint = "add back.tls, or take it out";
            back.section("send-proxy")
                .warn("inside-tls", problem.hint(hint));
        }
        return Some(None);
    };
    let is_on = tls.choice("mode", &[("on", true), ("off", false)]);
    if !is_on? {
        return Some(None);
    }
    let verification = verification(&tls, shelf);
    let pins = tls.read_all_as("pins", |text| {
        let problem = || Problem::new(format!("\"{}\" is no pin", text.escape_debug()));
        parse_pin(text).ok_or_else(problem)
    });
    let certificate = tls.if_written("certificate", |tls, _| certificate(tls, shelf));
    let name = tls.if_written("name", Section::text);
    let alpn = tls.if_written("alpn", |tls, _| front::alpn(tls, "alpn"));
    let versions = front::versions(&tls);
    let suites = front::suites(&tls);
    let groups = front::groups(&tls);
    let resumption = tls.boolean("resumption");
    let (versions, suites) = (versions?, suites?);
    let fit = front::suites_fit(&tls, &versions, &suites);
    let client = ClientOptions {
        verification: verification?,
        pins: pins?,
        name: match name? {
            Some(name) if name == OF_CLIENT => ExpectedName::OfClient,
            Some(name) if !is_server_name(&name) => {
                let message = format!("\"{}\" is no host name or IP address", name.escape_debug());
                let hint = "write the name that the certificate has, or \"client\"";
                tls.refuse("name", message, hint);
                return None;
            }
            Some(name) => ExpectedName::Fixed(name),
            None => ExpectedName::OfServer,
        },
        certificate: certificate?,
        version_min: *versions.iter().min()?,
        version_max: *versions.iter().max()?,
        suites,
        groups: groups?,
        alpn: alpn?.map_or(OfferedAlpn::OfClient, OfferedAlpn::Fixed),
        resumption: resumption?,
    };
    name_is_known(&tls, &client, servers)?;
    is_proved(&tls, &client);
    fit?;
    Some(Some(Box::new(BackTlsOptions {
        client,
        header_inside: header_inside?,
    })))
}

#[allow(clippy::option_option, reason = "as `read`")]
fn verification(tls: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<Option<ServerVerification>> {
    let is_on = tls.choice("verify", &[("on", true), ("off", false)]);
    if !is_on? {
        for name in ["ca", "crl"].iter().filter(|name| tls.has(name)) {
            let problem = Problem::new("has no effect: servers are not verified");
            tls.warn(name, problem.hint("take out verify = \"off\""));
        }
        return Some(None);
    }
    let authorities = certificates::authorities(tls, shelf);
    let crls = certificates::pem_files(tls, "crl", shelf);
    let expired_lists = tls.choice(
        "crl-expired",
        &[
            ("refuse", ExpiredLists::Refuse),
            ("accept", ExpiredLists::Accept),
        ],
    );
    Some(Some(ServerVerification {
        authorities: authorities?,
        are_of_host: !tls.has("ca"),
        crls: crls?,
        expired_lists: expired_lists?,
    }))
}

fn certificate(tls: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<CertificateSource> {
    let chain = shelf.base.join(tls.text("certificate")?);
    let key = tls.if_written("key", |tls, name| Some(shelf.base.join(tls.text(name)?)));
    let chain_pem = shelf.read(tls, "certificate", &chain);
    let key = key?;
    let key_pem = match &key {
        Some(path) => Some(shelf.read(tls, "key", path)?),
        None => None,
    };
    let source = CertificateSource {
        place: chain.display().to_string(),
        chain_pem: chain_pem?,
        key_pem,
        key_place: key.as_ref().map(|path| path.display().to_string()),
        ocsp_der: None,
    };
    let name = if key.is_some() { "key" } else { "certificate" };
    if holds_key(&source) {
        shelf.is_private(tls, name, key.as_ref().unwrap_or(&chain));
    }
    if let Some(inspector) = shelf.inspector {
        inspector.certificate(
            tls,
            "certificate",
            &source,
            (Use::ToServers, Severity::Error),
        );
    }
    Some(source)
}

/// A server at a Unix socket has no host that its certificate could be for. One that records name
/// has: but who can forge the records would choose it.
fn name_is_known(
    tls: &Section<'_>,
    client: &ClientOptions,
    servers: &[ServerOptions],
) -> Option<()> {
    let is_nameless = |server: &&ServerOptions| {
        matches!(
            server.endpoint,
            Endpoint::Address(Address::Unix(_)) | Endpoint::Service { .. }
        )
    };
    let Some(server) = servers.iter().find(is_nameless) else {
        return Some(());
    };
    if client.verification.is_none() || matches!(client.name, ExpectedName::Fixed(_)) {
        return Some(());
    }
    let problem = Problem::new(format!("is missing: {} has no known name", server.endpoint));
    tls.error(
        "name",
        problem.hint("write the name that its certificate has"),
    );
    None
}

fn is_proved(tls: &Section<'_>, client: &ClientOptions) {
    if client.verification.is_none() && client.pins.is_empty() {
        let problem = Problem::new("is off: anyone on the way to the servers can pose as one");
        tls.warn(
            "verify",
            problem.hint("name their authorities in `ca`, or their keys in `pins`"),
        );
    }
    if !tls.has("certificate") && tls.has("key") {
        let problem = Problem::new("has no effect: there is no `certificate`");
        tls.warn("key", problem.hint("add certificate = \"client.pem\""));
    }
    if !tls.has("crl") && tls.has("crl-expired") {
        let problem = Problem::new("has no effect: there is no `crl`");
        tls.warn("crl-expired", problem.hint("add crl = [\"servers.crl\"]"));
    }
}
