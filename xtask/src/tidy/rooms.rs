//! The plan of the house: which room stands on which floor, and what it may name.
//!
//! docs/architecture.md says why.

/// A package of the workspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) name: &'static str,
    /// Imports run only to lower floors.
    pub(super) floor: u8,
    /// No socket, file, clock, environment or async.
    pub(super) pure: bool,
    /// Of the product, as against the tools that build and test it.
    pub(super) product: bool,
}

const fn room(name: &'static str, floor: u8) -> Room {
    Room {
        name,
        floor,
        pure: false,
        product: true,
    }
}

const fn pure(name: &'static str, floor: u8) -> Room {
    Room {
        name,
        floor,
        pure: true,
        product: true,
    }
}

const fn tool(name: &'static str, floor: u8) -> Room {
    Room {
        name,
        floor,
        pure: false,
        product: false,
    }
}

/// Every package; one that is missing here is a breach.
pub(super) const ROOMS: &[Room] = &[
    pure("wire", 1),
    pure("telemetry", 1),
    room("sys", 2),
    room("session", 2),
    pure("backend", 2),
    pure("static-files", 2),
    room("tls", 3),
    pure("flow", 4),
    room("proxy", 5),
    room("config", 6),
    room("daemon", 7),
    pure("measure", 1),
    pure("report", 2),
    room("load", 3),
    room("lab", 4),
    tool("testkit", 0),
    tool("suite", 8),
    tool("xtask", 8),
];

/// The only room with `unsafe`.
pub(super) const UNSAFE: &str = "sys";

/// Crates of the TLS library, and who may name them outside of tests: the data plane's one room
/// for them, and the clients that test and measure it from outside.
pub(super) const TLS_LIBRARY: Wall = Wall {
    crates: &[
        "rustls",
        "rustls-pki-types",
        "rustls-webpki",
        "tokio-rustls",
    ],
    open_to: &["tls", "load", "testkit", "suite", "xtask"],
};

/// The laboratory: what serves carries no measuring code.
pub(super) const LABORATORY: Wall = Wall {
    crates: &["measure", "load", "report", "lab"],
    open_to: &["measure", "load", "report", "lab", "xtask"],
};

/// The data plane: what measures does not know what it measures.
pub(super) const DATA_PLANE: Wall = Wall {
    crates: &[
        "telemetry",
        "session",
        "backend",
        "static-files",
        "tls",
        "flow",
        "proxy",
        "daemon",
    ],
    open_to: &[
        "telemetry",
        "session",
        "backend",
        "static-files",
        "tls",
        "flow",
        "proxy",
        "config",
        "daemon",
        "xtask",
    ],
};

/// Cryptography; the daemon hashes the scripts of its page, the lab's load tells how fast the
/// library is on a CPU, and a client of the tests makes records by hand.
pub(super) const CRYPTOGRAPHY: Wall = Wall {
    crates: &["aws-lc-rs", "ring", "sha2"],
    open_to: &["tls", "daemon", "load", "testkit"],
};

/// The product's configuration is read by the program alone.
pub(super) const CONFIGURATION: Wall = Wall {
    crates: &["config"],
    open_to: &["daemon", "xtask"],
};

/// The text of configurations and plans stops at the door.
pub(super) const TEXT: Wall = Wall {
    crates: &["toml", "toml_edit"],
    open_to: &["config", "daemon", "lab", "xtask"],
};

/// Async runtimes and their servers live on the control side.
pub(super) const ASYNC: Wall = Wall {
    crates: &["tokio", "hyper", "hyper-util", "futures"],
    open_to: &["daemon"],
};

/// Doors to the kernel.
pub(super) const KERNEL: Wall = Wall {
    crates: &[
        "libc",
        "rustix",
        "nix",
        "mio",
        "socket2",
        "landlock",
        "seccompiler",
    ],
    open_to: &["sys", "daemon", "suite", "xtask"],
};

/// Text for errors only where a person reads them.
pub(super) const PROSE_ERRORS: Wall = Wall {
    crates: &["anyhow", "eyre"],
    open_to: &["daemon", "lab", "xtask"],
};

/// All of them.
pub(super) const WALLS: &[Wall] = &[
    TLS_LIBRARY,
    CRYPTOGRAPHY,
    LABORATORY,
    DATA_PLANE,
    CONFIGURATION,
    TEXT,
    ASYNC,
    KERNEL,
    PROSE_ERRORS,
];

/// Crates that only these rooms may depend on, tests apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wall {
    pub(super) crates: &'static [&'static str],
    pub(super) open_to: &'static [&'static str],
}

/// The room of that name.
pub(super) fn find(name: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.name == name)
}
