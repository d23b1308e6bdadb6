//! Lariat in front of one server, as most tests need it.

use testkit::server::{Behaviour, Server};

use crate::configuration::Service;
use crate::lariat::Lariat;
use crate::site::Site;

/// Bound in this order, the parts are dropped in reverse: Lariat first.
pub type Fixture = (Site, Server, Service, Lariat);

/// Returns the behaviour of an HTTP server that answers `hello`.
pub fn http() -> Behaviour {
    Behaviour::Http(b"hello".to_vec())
}

/// Makes a service before a server, without starting Lariat.
pub fn set_up(behaviour: Behaviour) -> (Site, Server, Service) {
    let (site, server) = (Site::new(), Server::start(behaviour));
    let service = Service::new(&site, &server);
    (site, server, service)
}

/// Starts Lariat with one service.
pub fn serve(behaviour: Behaviour) -> Fixture {
    serve_with("", behaviour)
}

/// Starts Lariat with one service that `adjust` changes.
pub fn serve_as(behaviour: Behaviour, adjust: impl FnOnce(Service) -> Service) -> Fixture {
    let (site, server, service) = set_up(behaviour);
    let service = adjust(service);
    let lariat = service.start();
    (site, server, service, lariat)
}

/// Starts Lariat with keys of `[log]`, then tables of their own, before the service.
pub fn serve_with(tables: &str, behaviour: Behaviour) -> Fixture {
    let (site, server, service) = set_up(behaviour);
    let lariat = service.start_with(tables);
    (site, server, service, lariat)
}
