//! The plan of the architecture: the layer of each crate, and what a crate may name.
//!
//! docs/architecture.md says why.

/// A package of the workspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crate {
    pub(super) name: &'static str,
    /// Imports run only to lower layers.
    pub(super) layer: u8,
    /// No socket, file, clock, environment or async.
    pub(super) pure: bool,
    /// Of the product, as against the tools that build and test it.
    pub(super) product: bool,
}

const fn plain(name: &'static str, layer: u8) -> Crate {
    Crate {
        name,
        layer,
        pure: false,
        product: true,
    }
}

const fn pure(name: &'static str, layer: u8) -> Crate {
    Crate {
        pure: true,
        ..plain(name, layer)
    }
}

const fn tool(name: &'static str, layer: u8) -> Crate {
    Crate {
        product: false,
        ..plain(name, layer)
    }
}

/// Every package; one that is missing here is a violation.
pub(super) const CRATES: &[Crate] = &[
    pure("wire", 0),
    pure("options", 1),
    pure("telemetry", 1),
    plain("sys", 2),
    plain("session", 2),
    pure("backend", 2),
    pure("static-files", 2),
    plain("tls", 3),
    pure("flow", 4),
    plain("proxy", 5),
    plain("config", 6),
    plain("daemon", 7),
    pure("measure", 1),
    pure("report", 2),
    plain("load", 3),
    plain("probe", 4),
    plain("lab", 5),
    tool("testkit", 0),
    tool("suite", 8),
    tool("xtask", 8),
];

/// The only crate with `unsafe`.
pub(super) const UNSAFE: &str = "sys";

/// Dependencies, and the only crates that may have them, tests apart.
pub(super) type Restriction = (&'static str, &'static str);

/// All of them, each with names between blanks.
pub(super) const RESTRICTIONS: &[Restriction] = &[
    // The TLS library: one crate of the terminator, and the clients that test and measure it from
    // outside.
    (
        "rustls rustls-pki-types rustls-webpki tokio-rustls",
        "tls load testkit suite",
    ),
    // Cryptography: the daemon hashes the scripts of its page, the laboratory's load measures how
    // fast the library is on a CPU, and a client of the tests makes records by hand.
    ("aws-lc-rs ring sha2", "tls daemon load testkit"),
    // The laboratory: the terminator carries no measuring code.
    (
        "measure load report probe lab",
        "measure load report probe lab xtask",
    ),
    // The terminator: what measures does not know what it measures.
    (
        "telemetry session backend static-files tls flow proxy daemon",
        "telemetry session backend static-files tls flow proxy config daemon xtask",
    ),
    // The product's configuration is read by the program alone.
    ("config", "daemon xtask"),
    // The text of configurations and plans.
    ("toml toml_edit", "options daemon lab xtask"),
    // Async runtimes and their servers: the control side.
    ("tokio hyper hyper-util futures", "daemon"),
    // System calls.
    (
        "libc rustix nix mio socket2 landlock seccompiler",
        "sys daemon suite",
    ),
    // Errors as text, only where a person reads them.
    ("anyhow eyre", "daemon lab xtask"),
];

/// The crate of that name.
pub(super) fn find(name: &str) -> Option<&'static Crate> {
    CRATES.iter().find(|one| one.name == name)
}
