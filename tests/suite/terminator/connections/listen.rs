//! A service listens on several addresses of every kind, and there may be many services.

use suite::prelude::*;

#[test]
fn ipv4_ipv6_and_unix_addresses_reach_one_service() {
    let (site, server) = (Site::new(), Server::start(http()));
    let (four, six) = (free_address(), free_address().port());
    let unix = site.path("front.sock");
    let service = Service::new(&site, &server)
        .listen(&format!("['{four}', '[::1]:{six}', 'unix:{}']", unix.display()));
    let _lariat = service.start();
    assert_eq!(curl_tls(&site, four).run().success(), "hello");
    let six = format!("[::1]:{six}").parse().unwrap();
    assert_eq!(curl_tls(&site, six).run().success(), "hello");
    let ca = site.ca();
    let through_unix = ["--unix-socket", unix.to_str().unwrap(), "--cacert", ca.to_str().unwrap()];
    let answer = curl().args(&through_unix).url("https://localhost/").run();
    assert_eq!(answer.success(), "hello");
}

#[test]
fn fast_open_and_backlog_are_taken() {
    let (site, server) = (Site::new(), Server::start(http()));
    let service = Service::new(&site, &server);
    let workers = "[workers]\nthreads = 2\nbacklog = 64\nfast-open = 64\n";
    let _lariat = service.start_with(workers);
    let curl = curl_tls(&site, service.address).args(&["--tcp-fastopen"]);
    assert_eq!(curl.run().success(), "hello");
}

#[test]
fn a_narrower_address_gets_its_own_clients_beside_the_wide_one() {
    let site = Site::new();
    let port = free_address().port();
    let server = |word: &str| Server::start(Behaviour::Http(word.into()));
    let (wide, narrow) = (server("wide"), server("narrow"));
    let service = |server: &Server, name: &str, listen: &str| {
        Service::new(&site, server).named(name).listen(listen).toml()
    };
    let all = service(&wide, "all", &format!("['[::]:{port}']"));
    let own = service(&narrow, "own", &format!("['[::1]:{port}', '127.0.0.2:{port}']"));
    let page = |host: &str| {
        let address = format!("{host}:{port}").parse().unwrap();
        curl_tls(&site, address).run().success()
    };
    let are_apart = || {
        until_true("each its own", || page("[::1]") == "narrow" && page("127.0.0.2") == "narrow");
        assert_eq!(page("127.0.0.1"), "wide");
    };
    for both in [format!("{all}{own}"), format!("{own}{all}")] {
        let _lariat = Lariat::start(&both);
        are_apart();
    }
    let lariat = Lariat::start(&all);
    assert_eq!((page("[::1]"), page("127.0.0.2")), ("wide".to_owned(), "wide".to_owned()));
    lariat.reload_with(&format!("{all}{own}"));
    are_apart();
    lariat.reload_with(&own);
    assert_eq!(page("[::1]"), "narrow");
    lariat.reload_with(&format!("{own}{all}"));
    are_apart();
}

#[test]
fn all_addresses_of_ipv6_alone_leave_those_of_ipv4_to_another() {
    let site = Site::new();
    let port = free_address().port();
    let server = |word: &str| Server::start(Behaviour::Http(word.into()));
    let (six, four) = (server("six"), server("four"));
    let service = |server: &Server, name: &str, address: &str| {
        let listen = format!("['{address}:{port}']");
        Service::new(&site, server).named(name).listen(&listen)
    };
    let both = service(&six, "six", "[::]").toml();
    let six = service(&six, "six", "[::]").front("ipv6-only = true").toml();
    let four = service(&four, "four", "0.0.0.0").toml();
    let page = |host: &str| {
        let address = format!("{host}:{port}").parse().unwrap();
        curl_tls(&site, address).run()
    };
    let lariat = Lariat::start(&six);
    assert_eq!(page("[::1]").success(), "six");
    assert!(!page("127.0.0.1").status.success());
    lariat.reload_with(&both);
    until_true("IPv4 too", || page("127.0.0.1").stdout == "six");
    lariat.reload_with(&format!("{six}{four}"));
    until_true("IPv4 is another's", || page("127.0.0.1").stdout == "four");
    assert_eq!(page("[::1]").success(), "six");
    // A different program may listen there as well.
    lariat.reload_with(&six);
    until_true("IPv4 is nobody's", || !page("127.0.0.1").status.success());
    TcpListener::bind(("0.0.0.0", port)).unwrap();
}
