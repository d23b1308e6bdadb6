//! The machine that a run is made on, and what a run takes from it: cores, descriptors, a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use super::arguments::Options;
use super::process;

/// The cores of a run: one for the server under test, one for client and backend.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Cores {
    /// All servers run here; only one works at a time.
    pub(crate) server: usize,
    /// Client and backend run here.
    pub(crate) client: usize,
}

impl Cores {
    /// As told, else the last and the first core allowed.
    pub(crate) fn choose(options: &Options) -> Result<Self> {
        let allowed = process::allowed_cores()?;
        let first = allowed.first().copied().context("no core is allowed")?;
        let last = allowed.last().copied().context("no core is allowed")?;
        let server = options.server_core.unwrap_or(last);
        let client = options.client_core.unwrap_or(first);
        if server == client {
            bail!("server and client need a core each; allowed are {allowed:?}");
        }
        Ok(Self { server, client })
    }
}

/// Lifts this process's limit of open files, which children inherit, as far as it may go.
pub(crate) fn raise_descriptor_limit() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).context("cannot raise the limit of open files")
}

/// A folder for the time of a run; it goes on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes one that others may read: servers give up rights.
    pub(crate) fn create() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("lariat-bench-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("warning: {} stays: {error}", self.0.display());
        }
    }
}

/// What a reader of the record must know of the machine.
pub(crate) fn describe(cores: Cores) -> Value {
    json!({
        "cpu": cpu_model(),
        "cores_allowed": process::allowed_cores().unwrap_or_default(),
        "server_core": cores.server,
        "client_core": cores.client,
        "server_core_siblings": cpu_file(cores.server, "topology/thread_siblings_list"),
        "server_core_governor": cpu_file(cores.server, "cpufreq/scaling_governor"),
        "kernel": read_line("/proc/sys/kernel/osrelease"),
        "memory": memory_total(),
        "load_before": read_line("/proc/loadavg"),
        "client_build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "revision": revision(),
    })
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':')
        .map(|(_, model)| model.trim().to_owned())
}

fn cpu_file(core: usize, name: &str) -> Option<String> {
    read_line(&format!("/sys/devices/system/cpu/cpu{core}/{name}"))
}

fn memory_total() -> Option<String> {
    let line = read_line("/proc/meminfo")?;
    line.strip_prefix("MemTotal:")
        .map(|rest| rest.trim().to_owned())
}

/// The first line of a file.
fn read_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().map(str::to_owned)
}

fn revision() -> Option<String> {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned())
}
