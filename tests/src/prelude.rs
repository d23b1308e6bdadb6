//! The items that most tests need: `use suite::prelude::*`.

pub use std::fs;
pub use std::io::{ErrorKind, Read, Write};
pub use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
pub use std::path::{Path, PathBuf};
pub use std::process::Command;
pub use std::thread;
pub use std::time::Duration;

pub use rustix::process::{Signal, geteuid, kill_process};
pub use rustls::HandshakeKind;
pub use serde_json::Value;
pub use testkit::authority::Authority;
pub use testkit::directory::Directory;
pub use testkit::leaf::{Key, Leaf};
pub use testkit::server::{Behaviour, Server, free_address};

pub use crate::client::{Client, Connection, tcp};
pub use crate::configuration::Service;
pub use crate::curl::{curl, curl_tls, curl_tls_for};
pub use crate::fixture::{http, serve, serve_as, serve_with, set_up};
pub use crate::lab::{self, Origin};
pub use crate::lariat::{self, Lariat};
pub use crate::load::Load;
pub use crate::openssl::{SServer, Talk, s_client};
pub use crate::patience::{PATIENCE, now_seconds, until, until_true};
pub use crate::program::{Finished, Running, assert_has, run};
pub use crate::site::Site;
