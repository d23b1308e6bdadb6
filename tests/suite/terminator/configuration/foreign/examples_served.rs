//! Each example serves the usual clients of its protocols, before real servers. The example of mail
//! has a file beside the other mail servers.

use std::net::UdpSocket;

use suite::example::Example;
use suite::haproxy::Haproxy;
use suite::mariadb::{Mariadb, mariadb, mariadb_tls, values};
use suite::nginx::Nginx;
use suite::prelude::*;
use suite::redis::Redis;
use suite::starttls::{postgres, psql};

fn get(site: &Site, address: SocketAddr) -> String {
    curl_tls(site, address).run().success()
}

fn redis_cli(address: SocketAddr, arguments: &[&str]) -> String {
    let mut command = Command::new("redis-cli");
    command.args(["-h", "127.0.0.1", "-p", &address.port().to_string()]).args(arguments);
    run(&mut command).success()
}

#[test]
fn minimal_and_many_cores() {
    let (site, servers) = (Site::new(), [Nginx::start("", "one"), Nginx::start("", "two")]);
    let [one, two] = [&servers[0], &servers[1]].map(|server| server.address);
    let example = Example::new(&site, "minimal.toml").with("127.0.0.1:8080", one);
    let (example, front) = example.at_free_address("[::]:8443");
    let _minimal = example.start();
    assert_eq!(get(&site, front), "one");
    let example = Example::new(&site, "many-cores.toml")
        .with("[8080, 8081]", format!("[{}, {}]", one.port(), two.port()))
        .with("127.0.0.1:8080", one)
        .with("127.0.0.1:8081", two);
    let (example, front) = example.at_free_address("[::]:8443");
    let _many_cores = example.start();
    // A client comes to the same server each time.
    let first = get(&site, front);
    assert!(["one", "two"].contains(&first.as_str()), "{first}");
    assert_eq!(get(&site, front), first);
}

#[test]
fn two_services() {
    let (site, server, redis) = (Site::new(), Nginx::start("", "web"), Redis::start(&[]));
    let example = Example::new(&site, "two-services.toml")
        .with("127.0.0.1:8080", server.address)
        .with(", \"127.0.0.1:8081\"", "")
        .with(", \"[::1]:8443\"", "")
        .with("127.0.0.1:6379", redis.address);
    let (example, web) = example.at_free_address("0.0.0.0:8443");
    let (example, database) = example.at_free_address("127.0.0.1:6380");
    let _lariat = example.start();
    assert_eq!(get(&site, web), "web");
    let ca = site.ca().display().to_string();
    let tls = ["--tls", "--cacert", &ca, "--sni", "localhost"];
    assert_eq!(redis_cli(database, &[&tls[..], &["SET", "a", "b"]].concat()), "OK\n");
    assert_eq!(redis_cli(database, &[&tls[..], &["GET", "a"]].concat()), "b\n");
}

#[test]
fn re_encrypt_and_weighted_pool() {
    let site = Site::new();
    let example = Example::new(&site, "re-encrypt.toml");
    site.leaf(&["api.internal"]).write(&site.directory, "api.pem");
    let api = Nginx::terminate_at(free_address(), &site.path("api.pem"), "http2", "");
    let example = example.with("10.0.0.7:8443", api.address);
    let (example, front) = example.with(", \"10.0.0.8:8443\"", "").at_free_address("[::]:8443");
    let _lariat = example.start();
    let version = ["--write-out", " by HTTP/%{http_version}"];
    assert_eq!(curl_tls(&site, front).args(&version).run().success(), "ok by HTTP/2");

    let servers: Vec<_> = (0..4).map(|number| Nginx::start("", &number.to_string())).collect();
    let address = |number: usize| servers[number].address;
    let example = Example::new(&site, "weighted-pool.toml")
        .with("10.0.0.11:8080", address(0))
        .with("10.0.0.12:8080", address(1))
        .with("app.internal:8080", format!("localhost:{}", address(2).port()))
        .with("127.0.0.1:8099", address(3));
    let (example, front) = example.at_free_address("[::]:8443");
    let _pool = example.start();
    let mut shares = [0; 4];
    for _ in 0..20 {
        shares[get(&site, front).parse::<usize>().unwrap()] += 1;
    }
    // Each of two workers takes turns by itself.
    assert!(shares[0] >= 9 && shares[1] >= 1 && shares[2] >= 1 && shares[3] == 0, "{shares:?}");
}

#[test]
fn routing() {
    let site = Site::new();
    site.leaf(&["shop.example", "mail.example"]).write(&site.directory, "certs/site.pem");
    site.write("pages/index.html", "rest");
    let (shop, ledger) = (Nginx::start("", "shop"), Redis::start(&[]));
    let example = Example::new(&site, "routing.toml");
    site.leaf(&["shop.example", "localhost"]).write(&site.directory, "certs/site.pem");
    site.leaf(&["mail.example"]).write(&site.directory, "mail.pem");
    let answer = "return 200 \"mail of $proxy_protocol_addr\";";
    let mail = free_address();
    let mail = Nginx::terminate_at(mail, &site.path("mail.pem"), "proxy_protocol", answer);
    site.leaf(&["shop.example"]).write(&site.directory, "acme.pem");
    let acme = SServer::start(&site, "acme.pem", &["-alpn", "acme-tls/1", "-www"]);
    let example = example
        .with("10.0.0.7:8080", shop.address)
        .with("10.0.0.9:443", mail.address)
        .with("127.0.0.1:4443", acme.address)
        .with("10.0.0.12:6379", ledger.address)
        .with("\"pages\"", format!("{:?}", site.path("pages")));
    let (example, front) = example.at_free_address("[::]:443");
    let (example, plain) = example.at_free_address("[::]:80");
    let (example, tcp) = example.at_free_address("127.0.0.1:6380");
    let _lariat = example.start();
    let ask = |name: &str| {
        let place = format!("{name}:{}:{}", front.port(), front.ip());
        let ca = site.ca().display().to_string();
        curl()
            .args(&["--cacert", &ca, "--resolve", &place])
            .url(&format!("https://{name}:{}/", front.port()))
            .run()
            .success()
    };
    assert_eq!(ask("shop.example"), "shop");
    assert_eq!(ask("mail.example"), "mail of 127.0.0.1");
    assert_eq!(ask("localhost"), "rest");
    let told = ["-servername", "shop.example", "-alpn", "acme-tls/1"];
    s_client(&site, front, &told).assert_stdout("ALPN protocol: acme-tls/1");
    let redirect = ["--write-out", "%{http_code} %{redirect_url}"];
    let answer = curl().args(&redirect).url(&format!("http://{plain}/a")).run().success();
    assert_has(answer, "https://127.0.0.1/a");
    assert_eq!(redis_cli(tcp, &["PING"]), "PONG\n");
}

#[test]
fn databases() {
    let site = Site::new();
    let example = Example::new(&site, "databases.toml");
    let local = "local all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256";
    let server = postgres(local, &["-c", "ssl=on"], &site);
    let mysql = Mariadb::start(&[
        &format!("--ssl-cert={}", site.path("site.pem").display()),
        &format!("--ssl-key={}", site.path("site.pem").display()),
    ]);
    let socket = format!(".s.PGSQL.{}", server.address.port());
    let example = example
        .with("/run/postgresql/.s.PGSQL.5432", server.directory.join(socket).display())
        .with("/run/mysqld/mysqld.sock", mysql.socket.display())
        .with("db.example:5432", format!("localhost:{}", server.address.port()))
        .with("db.example:3306", format!("localhost:{}", mysql.address.port()));
    let ca = format!("tls = {{ ca = [{:?}]", site.ca());
    let example = example.with(&format!("tls = {{ ca = [{:?}]", site.path("certs/site.pem")), ca);
    let (example, front) = example.at_free_address("[::]:8432");
    let (example, mysql_front) = example.at_free_address("[::]:8306");
    let (example, before) = example.at_free_address("127.0.0.1:6432");
    let (example, mysql_before) = example.at_free_address("127.0.0.1:6306");
    let _lariat = example.start();
    let verified = format!("sslmode=verify-full sslrootcert={}", site.ca().display());
    for (address, words) in [(front, verified.as_str()), (before, "sslmode=disable")] {
        assert_eq!(run(&mut psql(address, words, "SELECT 6 * 7")).success(), "42\n");
    }
    let sum = "SELECT 6 * 7";
    assert_eq!(values(&mut mariadb_tls(&site, mysql_front, "native", sum)), "42");
    assert_eq!(values(&mut mariadb(mysql_before, "native", sum)), "42");
}

#[test]
fn patroni() {
    let site = Site::new();
    let hba = "host all all 127.0.0.0/8 scram-sha-256";
    // Patroni answers at one port of each host: an address of loopback.
    let hosts = ["127.0.0.2", "127.0.0.3"];
    let listening = hosts.map(|host| format!("listen_addresses=127.0.0.1,{host}"));
    let servers = listening.each_ref().map(|listen| postgres(hba, &["-c", listen], &site));
    let mysql = Mariadb::start(&[]);
    let (roles, synced) = (free_address(), free_address());
    let patroni = |host: &str| {
        let folder = site.path(host).display().to_string();
        let role = |name: &str| {
            format!(
                "location = /{name} {{ if (-f {folder}/{name}) {{ return 200; }} return 503; }}"
            )
        };
        let port = roles.port();
        format!("server {{ listen {host}:{port}; {} {} }}", role("primary"), role("replica"))
    };
    let http = hosts.map(patroni).concat();
    let check = format!("server {{ listen {synced}; location / {{ return 200 synced; }} }}");
    let _patroni = Nginx::configured("", &(http + &check), synced);
    let place = |role: &str, host: &str| site.path(&format!("{host}/{role}"));
    site.write(place("primary", hosts[0]), "");
    site.write(place("replica", hosts[1]), "");
    let at = |number: usize| format!("{}:{}", hosts[number], servers[number].address.port());
    let example = Example::new(&site, "patroni.toml")
        .with("10.0.0.3:5432", at(0))
        .with("10.0.0.4:5432", at(1))
        .with(", \"10.0.0.5:5432\"", "")
        .with("8008", roles.port())
        .with("10.0.1.3:3306", mysql.address)
        .with("10.0.1.4:3306", free_address())
        .with("9200", synced.port());
    let (example, primary) = example.at_free_address("[::]:5000");
    let (example, replicas) = example.at_free_address("[::]:5001");
    let (example, writer) = example.at_free_address("[::]:3306");
    let lariat = example.start();
    let verified = format!("sslmode=verify-full sslrootcert={}", site.ca().display());
    let reached = |front: SocketAddr| {
        let host = "SELECT host(inet_server_addr())";
        let done = run(&mut psql(front, &verified, host));
        done.status.success().then(|| done.stdout.trim_end().to_owned())
    };
    let until_roles = |primary_host: &str, replica_host: &str| {
        until_true("each role to have its own server", || {
            reached(primary).as_deref() == Some(primary_host)
                && reached(replicas).as_deref() == Some(replica_host)
        });
    };
    until_roles(hosts[0], hosts[1]);
    assert_eq!(values(&mut mariadb_tls(&site, writer, "native", "SELECT 6 * 7")), "42");
    // The other one is promoted.
    for (role, from, to) in [("primary", 0, 1), ("replica", 1, 0)] {
        fs::create_dir_all(site.path(hosts[to])).unwrap();
        fs::rename(place(role, hosts[from]), place(role, hosts[to])).unwrap();
    }
    until_roles(hosts[1], hosts[0]);
    lariat.wait_for_stderr("is down");
}

#[test]
fn unix_sockets() {
    let site = Site::new();
    let folder = Directory::new();
    let socket = folder.join("app.sock");
    let listen = format!("listen unix:{}; return 200 \"by a socket\";", socket.display());
    let _server = Nginx::start_at(free_address(), "", &listen);
    let name = format!("lariat-app-{}", std::process::id());
    let example = Example::new(&site, "unix-sockets.toml")
        .with("@lariat-app", format!("@{name}"))
        .with("@app-spare", format!("@{name}-spare"))
        .with("/run/app/app.sock", socket.display());
    let (example, front) = example.at_free_address("[::]:8443");
    let lariat = example.start();
    assert_eq!(get(&site, front), "by a socket");
    let by_proxy = ["--abstract-unix-socket", &name, "--haproxy-protocol"];
    assert_eq!(curl_tls(&site, front).args(&by_proxy).run().success(), "by a socket");
    // Clients without an address in a header are not served there.
    let silent = curl_tls(&site, front).args(&by_proxy[..2]).run();
    assert!(!silent.status.success(), "{silent:?}");
    lariat.wait_for_line(&["proxy-header"]);
}

#[test]
fn client_certificates_files_and_two_kinds_of_certificates() {
    let site = Site::new();
    let server = Nginx::start("proxy_protocol", "member");
    let example =
        Example::new(&site, "client-certificates.toml").with("127.0.0.1:8080", server.address);
    let (example, front) = example.at_free_address("[::]:8443");
    let clients = Authority::root("clients");
    clients.write(&site.directory, "certs/clients-ca.pem");
    let revoked = clients.leaf(&["two.batch.internal"]).for_client().issue();
    site.write("certs/clients.crl", clients.revocation_list(&[&revoked]));
    let member = clients.leaf(&["one.batch.internal"]).for_client().issue();
    let other = clients.leaf(&["one.batch.example"]).for_client().issue();
    let _members = example.start();
    for (leaf, is_let_in) in [(&member, true), (&revoked, false), (&other, false)] {
        let pem = site.write("client.pem", leaf.pem()).display().to_string();
        let done = curl_tls(&site, front).args(&["--cert", &pem]).run();
        assert_eq!(done.status.success(), is_let_in, "{done:?}");
    }

    let example = Example::new(&site, "files.toml");
    site.write("pages/index.html", "hello");
    let example = example.with("\"pages\"", format!("{:?}", site.path("pages")));
    let (example, front) = example.at_free_address("[::]:8443");
    let _files = example.start();
    assert_eq!(get(&site, front), "hello");

    let server = Nginx::start("proxy_protocol", "by either");
    let example =
        Example::new(&site, "dual-certificates.toml").with("127.0.0.1:8080", server.address);
    let (example, front) = example.at_free_address("[::]:8443");
    let rsa = site.authority.leaf(&["localhost"]).key(Key::Rsa2048).issue();
    rsa.write_apart(&site.directory, "certs/rsa");
    let _dual = example.start();
    assert_eq!(get(&site, front), "by either");
    for (algorithms, kind) in
        [("ECDSA+SHA256", "PKEY: id-ecPublicKey"), ("RSA-PSS+SHA256", "PKEY: rsaEncryption")]
    {
        let said =
            s_client(&site, front, &["-sigalgs", algorithms, "-verify_return_error"]).success();
        assert_has(said, kind);
    }
}

#[test]
fn behind_haproxy_and_before_nginx() {
    let site = Site::new();
    let server = Nginx::start("proxy_protocol", "$proxy_protocol_addr");
    let example = Example::new(&site, "proxy-to-nginx.toml").with("127.0.0.1:8080", server.address);
    let (example, front) = example.at_free_address("[::]:8443");
    let _before = example.start();
    assert_eq!(get(&site, front), "127.0.0.1");
    let example = Example::new(&site, "proxy-from-haproxy.toml")
        .with("192.0.2.0/24", "127.0.0.0/8")
        .with("127.0.0.1:8080", server.address);
    let (example, front) = example.at_free_address("[::]:8443");
    let _behind = example.start();
    let balancer = Haproxy::send_proxy(front, "send-proxy-v2");
    assert_eq!(get(&site, balancer.address), "127.0.0.1");
}

/// Checks hosts of a cluster, by the example's text and each host's own parts: a session that the
/// first has made is resumed by the last.
fn assert_shared(site: &Site, hosts: Vec<(Example, SocketAddr)>) {
    let lariats: Vec<_> = hosts.iter().map(|(example, _)| example.start()).collect();
    let [first, last] = [hosts[0].1, hosts[hosts.len() - 1].1];
    until_true("a session of another host", || {
        let client = Client::without_tickets(site);
        assert_eq!(client.visit(first), HandshakeKind::Full);
        client.visit(last) == HandshakeKind::Resumed
    });
    drop(lariats);
}

#[test]
fn cluster_and_cluster_store() {
    let (site, servers) = (Site::new(), [(); 2].map(|()| Server::start(Behaviour::Echo)));
    let secret = site.write("cluster.key", "k".repeat(64));
    let example = |name: &str| {
        let example = Example::new(&site, name)
            .with("\"cluster.key\"", format!("{secret:?}"))
            .with("10.0.1.10:80", servers[0].address())
            .with("10.0.1.11:80", servers[1].address());
        example.at_free_address("[::]:443")
    };
    let sockets = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let places = sockets.map(|socket| socket.local_addr().unwrap());
    let peer = |own: usize| {
        let (example, front) = example("cluster.toml");
        let example = example
            .with("10.0.3.20:8888", places[own])
            .with("10.0.3.21:8888", places[(own + 1) % 3])
            .with("10.0.3.22:8888", places[(own + 2) % 3]);
        (example, front)
    };
    assert_shared(&site, (0..3).map(peer).collect());

    let master = Redis::start(&[]);
    master.tell("ACL SETUSER lariat on nopass ~* +@all");
    let sentinels: Vec<_> = (0..3).map(|_| Redis::sentinel("sessions", master.address)).collect();
    let host = |_| {
        let (example, front) = example("cluster-store.toml");
        let example = example
            .with("10.0.3.5:26379", sentinels[0].address)
            .with("10.0.3.6:26379", sentinels[1].address)
            .with("10.0.3.7:26379", sentinels[2].address);
        (example, front)
    };
    assert_shared(&site, (0..2).map(host).collect());
}
