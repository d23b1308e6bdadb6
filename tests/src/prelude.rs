//! What most tests need: `use suite::prelude::*`.

pub use testkit::authority::Authority;
pub use testkit::directory::Directory;
pub use testkit::leaf::{Key, Leaf};
pub use testkit::server::{Behaviour, Server, free_address};

pub use crate::client::{Client, Connection};
pub use crate::configuration::Service;
pub use crate::curl::{curl, curl_tls, curl_tls_for};
pub use crate::fixture::{serve, serve_as, serve_with};
pub use crate::lariat::Lariat;
pub use crate::openssl::{SServer, s_client};
pub use crate::patience::{PATIENCE, now_seconds, until, until_true};
pub use crate::program::{Finished, Running, assert_has, run};
pub use crate::site::Site;
