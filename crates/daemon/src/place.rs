//! Where the daemon's own files are when nobody says.

use std::path::PathBuf;

use config::ControlOptions;

/// The status socket: as configured, or `/run/lariat/status.sock` for root and
/// `$XDG_RUNTIME_DIR/lariat/status.sock` for others, who may have none and then get one beside
/// the temporary files.
pub(crate) fn status_socket(control: &ControlOptions) -> PathBuf {
    match &control.status_socket {
        Some(path) => path.clone(),
        None => status_socket_default(),
    }
}

/// The usual place, where `lariat status` looks.
pub(crate) fn status_socket_default() -> PathBuf {
    let directory = if sys::process::is_root() {
        PathBuf::from("/run/lariat")
    } else if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR") {
        PathBuf::from(runtime).join("lariat")
    } else {
        let user = sys::process::identity().user;
        std::env::temp_dir().join(format!("lariat-{user}"))
    };
    directory.join("status.sock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_configured_is_where_it_is() {
        let mut control = ControlOptions {
            status_socket: Some("/a/b.sock".into()),
            listen: None,
            log: config::LogOutput::Stdout,
        };
        assert_eq!(status_socket(&control), PathBuf::from("/a/b.sock"));
        control.status_socket = None;
        assert!(status_socket(&control).ends_with("status.sock"));
    }
}
