//! Lariat in front of one server, as most tests have it.

use testkit::server::{Behaviour, Server};

use crate::configuration::Service;
use crate::lariat::Lariat;
use crate::site::Site;

/// Bound in this order, they end in the other one: Lariat first.
pub type Fixture = (Site, Server, Service, Lariat);

/// A running Lariat with one service.
pub fn serve(behaviour: Behaviour) -> Fixture {
    serve_as(behaviour, |service| service)
}

/// The same with more in the configuration of the service.
pub fn serve_as(behaviour: Behaviour, adjust: impl FnOnce(Service) -> Service) -> Fixture {
    start("", behaviour, adjust)
}

/// The same with keys of `[log]`, then tables of their own, before the service.
pub fn serve_with(tables: &str, behaviour: Behaviour) -> Fixture {
    start(tables, behaviour, |service| service)
}

fn start(tables: &str, behaviour: Behaviour, adjust: impl FnOnce(Service) -> Service) -> Fixture {
    let (site, server) = (Site::new(), Server::start(behaviour));
    let service = adjust(Service::new(&site, &server));
    let lariat = Lariat::start(&format!("{tables}\n{}", service.toml()));
    (site, server, service, lariat)
}
