//! Debian's packages for the targets.
//!
//! Servers that a package brings are not started: they would take ports and CPUs.

use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitStatus, Stdio};

#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallFault {
    #[error("{0} cannot be run: {1}")]
    NoCommand(String, io::Error),
    #[error("the command failed ({0})")]
    Failed(ExitStatus),
}

/// While it runs, a policy says that no server is to be started (101; invoke-rc.d(8)). One that
/// the administrator wrote stays as it is.
const SCRIPT: &str = r#"set -e
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -o Dpkg::Use-Pty=0 -qq update
apt-get -o Dpkg::Use-Pty=0 -qq install -y --no-install-recommends "$@"
"#;

/// Installs packages by apt-get, through sudo where we are not root.
pub(crate) fn install(packages: &[String]) -> Result<(), InstallFault> {
    let packages: Vec<_> = packages.iter().map(OsString::from).collect();
    as_root(SCRIPT, &packages)
}

/// Runs a shell script with these arguments, through sudo where we are not root.
pub(crate) fn as_root(script: &str, arguments: &[OsString]) -> Result<(), InstallFault> {
    let shell = ["sudo", "sh", "-c", script, "lariat-lab"];
    let shell = &shell[usize::from(sys::process::is_root())..];
    let mut command = Command::new(shell[0]);
    command
        .args(&shell[1..])
        .args(arguments)
        .stdin(Stdio::null());
    // Ours is for data.
    command.stdout(io::stderr());
    let status = command
        .status()
        .map_err(|error| InstallFault::NoCommand(shell[0].to_owned(), error))?;
    if status.success() {
        Ok(())
    } else {
        Err(InstallFault::Failed(status))
    }
}
