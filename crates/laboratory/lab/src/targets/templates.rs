//! Turns a spec into a target's configuration: the values that its templates may use.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

use super::certificates::TargetCertificateFiles;
use super::form::{ServerSpec, TargetFront, TestTarget};

/// Values that a template may use; `targets/README.md` describes each.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Values<'a> {
    pub(crate) program: &'a Path,
    /// Whether the user gave the program, instead of a package.
    pub(crate) is_given: bool,
    pub(crate) is_root: bool,
    /// The server's own folder, which exists and is its working directory.
    pub(crate) folder: &'a Path,
    pub(crate) listen: TemplateEndpoint,
    /// The plain HTTP server behind it; `None` if the target answers itself.
    pub(crate) origin: Option<TemplateEndpoint>,
    /// The protocol of clients: `tls`, `plain` or `passthrough`.
    pub(crate) front: TargetFront,
    /// Whether the origin speaks TLS; the server verifies its certificate.
    pub(crate) back_tls: bool,
    /// The certificate of the authority that issued the origin's, PEM.
    pub(crate) authority: &'a Path,
    /// A folder with a file for each size of object, named by the number of its bytes.
    pub(crate) objects: &'a Path,
    pub(crate) object_bytes: &'a [u64],
    /// Threads or processes that accept connections.
    pub(crate) workers: u16,
    /// CPUs of the workers; may be fewer or more than workers.
    pub(crate) cpus: &'a [u16],
    /// The CPUs as binary masks, which end with CPU 0.
    pub(crate) cpu_masks: Vec<String>,
    /// Connections that it must be able to hold.
    pub(crate) connections: u64,
    /// Files that it may have open.
    pub(crate) descriptors: u64,
    pub(crate) certificates: &'a [TargetCertificateFiles],
    /// A folder with a PEM file for each of many names, which replaces `certificates`.
    pub(crate) certificate_folder: Option<&'a Path>,
    /// Whether it logs each request into `requests.log` in its folder.
    pub(crate) request_log: bool,
    /// Nodes of a farm; 0 for a single server.
    pub(crate) nodes: u16,
    /// Whether the nodes resume each other's sessions.
    pub(crate) shared_sessions: bool,
    /// Whether the nodes share sessions through a store.
    pub(crate) session_store: bool,
    pub(crate) tls: TemplateTls<'a>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct TemplateEndpoint {
    address: SocketAddr,
    host: std::net::IpAddr,
    port: u16,
}

/// Requested TLS settings, in standard and in OpenSSL's names.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TemplateTls<'a> {
    #[serde(flatten)]
    spec: &'a ServerSpec,
    /// Suites of TLS 1.2, by OpenSSL's names.
    openssl_ciphers: Vec<String>,
    /// Suites of TLS 1.3, by OpenSSL's names, which are the standard ones.
    openssl_ciphersuites: Vec<&'a str>,
    openssl_groups: Vec<&'a str>,
}

/// Values that the template of a client may use.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClientValues<'a> {
    pub(crate) program: &'a Path,
    /// The client's own folder, which exists and is its working directory.
    pub(crate) folder: &'a Path,
    pub(crate) url: String,
    /// The path and query of `url`.
    pub(crate) path: String,
    /// Address and port of the server.
    pub(crate) address: &'a str,
    /// File with the certificates of the servers' authorities, PEM.
    pub(crate) authorities: &'a Path,
    pub(crate) is_tls: bool,
    /// Duration in whole seconds.
    pub(crate) seconds: u64,
    pub(crate) connections: u64,
    /// The kind of handshakes, as `lariat-lab load` calls it.
    pub(crate) handshake: String,
    /// Whether connections stay open for further requests.
    pub(crate) is_kept: bool,
    /// Flags of `lariat-lab load` that make the same load, without URL and CPUs.
    pub(crate) load_flags: Vec<String>,
    pub(crate) tls: TemplateTls<'a>,
}

impl From<SocketAddr> for TemplateEndpoint {
    fn from(address: SocketAddr) -> Self {
        Self { address, host: address.ip(), port: address.port() }
    }
}

impl<'a> From<&'a ServerSpec> for TemplateTls<'a> {
    fn from(spec: &'a ServerSpec) -> Self {
        let (old, new): (Vec<_>, Vec<_>) =
            spec.suites.iter().map(String::as_str).partition(|suite| suite.contains("_WITH_"));
        Self {
            spec,
            openssl_ciphers: old.into_iter().map(openssl_cipher).collect(),
            openssl_ciphersuites: new,
            openssl_groups: spec.groups.iter().map(|group| openssl_group(group)).collect(),
        }
    }
}

/// Returns OpenSSL's name of a suite of TLS 1.2 with forward secrecy (openssl-ciphers(1)):
/// `ECDHE-RSA-AES128-GCM-SHA256`, `ECDHE-RSA-CHACHA20-POLY1305`.
fn openssl_cipher(standard: &str) -> String {
    let name = standard.strip_prefix("TLS_").unwrap_or(standard);
    let name = name.replace("_WITH", "").replace("AES_", "AES");
    name.replace("POLY1305_SHA256", "POLY1305").replace('_', "-")
}

/// Returns OpenSSL's name of a group, which all its versions know.
fn openssl_group(standard: &str) -> &str {
    match standard {
        "x25519" => "X25519",
        "secp256r1" => "prime256v1",
        other => other,
    }
}

/// Formats the CPUs as masks of equal length: `01`, `10`.
pub(crate) fn masks(cpus: &[u16]) -> Vec<String> {
    let length = cpus.iter().max().map_or(1, |&last| usize::from(last) + 1);
    let mask = |cpu: &u16| {
        let bit = |place: usize| if place == usize::from(*cpu) { '1' } else { '0' };
        (0..length).rev().map(bit).collect()
    };
    cpus.iter().map(mask).collect()
}

/// Fills in the configuration files, by name.
///
/// # Errors
/// Fails if a template is malformed, or uses an unknown value.
pub(crate) fn files(
    target: &TestTarget,
    values: &impl Serialize,
) -> io::Result<Vec<(String, String)>> {
    let render = |name: &String| {
        let text = render(target, name, &target.templates[name], values)?;
        let own = name.rsplit('/').next().unwrap_or(name);
        Ok((own.to_owned(), text))
    };
    target.form.files.iter().map(render).collect()
}

/// Fills in a command. Each line of an argument becomes an argument; empty lines are dropped.
///
/// # Errors
/// Fails like [`files`].
pub(crate) fn command(
    target: &TestTarget,
    words: &[String],
    values: &impl Serialize,
) -> io::Result<Vec<String>> {
    let words = words.iter().map(|word| render(target, "command", word, values));
    let words: Vec<_> = words.collect::<Result<_, _>>()?;
    let lines = words.iter().flat_map(|word| word.lines()).filter(|line| !line.is_empty());
    Ok(lines.map(ToOwned::to_owned).collect())
}

fn render(
    target: &TestTarget,
    name: &str,
    template: &str,
    values: &impl Serialize,
) -> io::Result<String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    syntax.keep_trailing_newline(true);
    environment.set_syntax(syntax.build().expect("these are the usual delimiters"));
    let rendered = environment.render_named_str(name, template, Serde(values));
    rendered.map_err(|error| {
        let target = &target.name;
        io::Error::other(format!("the template `{name}` of {target} is wrong: {error:#}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openssl_has_names_of_its_own() {
        let names = [
            ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
            ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
            ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ];
        for (standard, wanted) in names {
            assert_eq!(openssl_cipher(standard), wanted);
        }
    }

    #[test]
    fn suites_are_told_apart_by_version() {
        let spec = ServerSpec {
            suites: ["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
                .map(str::to_owned)
                .to_vec(),
            ..ServerSpec::default()
        };
        let tls = TemplateTls::from(&spec);
        assert_eq!(tls.openssl_ciphersuites, ["TLS_AES_128_GCM_SHA256"]);
        assert_eq!(tls.openssl_ciphers, ["ECDHE-RSA-AES128-GCM-SHA256"]);
    }

    #[test]
    fn masks_end_with_the_first_cpu() {
        assert_eq!(masks(&[0, 1]), ["01", "10"]);
        assert_eq!(masks(&[2]), ["100"]);
    }
}
