//! Programs by configurations of a table, and Lariat by the import of these, answer alike.

use std::collections::BTreeSet;

use suite::haproxy::Haproxy;
use suite::hitch::Hitch;
use suite::nginx::Nginx;
use suite::prelude::*;
use suite::proxy_header::ProxyHeader;
use suite::stunnel::Stunnel;

use super::import_pairs::{import, is_root, seen, two_certificates};

const TABLE: &str = include_str!("pairs.txt");

const HAPROXY: &str =
    "defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s";

/// The certificates and the servers behind, which all pairs of a kind share.
struct Scene {
    site: Site,
    servers: [Server; 3],
    http: Nginx,
    secure: (SocketAddr, Lariat),
}

impl Scene {
    fn new() -> Self {
        let site = Site::new();
        two_certificates(&site);
        site.authority.client("member").write(&site.directory, "member.pem");
        Authority::root("stranger").client("stranger").write(&site.directory, "stranger.pem");
        let behaviours =
            [Behaviour::Greet(b"A".into()), Behaviour::Greet(b"B".into()), Behaviour::Swallow];
        let servers = behaviours.map(Server::start);
        let address = free_address();
        let secure = Lariat::start(&format!(
            "[[service]]\nfront = {{ listen = ['{address}'], tls = {{ certificates = [{:?}] }} }}\n\
             back.servers = ['{}']\n",
            site.path("a.pem"),
            servers[0].address()
        ));
        Self {
            site,
            servers,
            http: Nginx::start("", "local $http_x_forwarded_for"),
            secure: (address, secure),
        }
    }

    /// Returns a text of the table with the names of places replaced.
    fn place(&self, kind: &str, text: &str) -> String {
        let [alpha, beta, swallow] = self.servers.each_ref().map(|one| one.address().to_owned());
        let (dead, http) = (free_address(), self.http.address);
        let spelt = |address: &str| match address.rsplit_once(':') {
            Some((host, port)) if kind == "hitch" => format!("[{host}]:{port}"),
            _ => address.to_owned(),
        };
        let directory = self.site.directory.path().display().to_string();
        let pem = self.site.path("a.pem");
        let certificate = format!(
            "ssl_certificate {pem:?}; ssl_certificate_key {pem:?}; ssl_protocols TLSv1.2 TLSv1.3;"
        );
        [
            ("DEFAULTS", HAPROXY.to_owned()),
            ("ALPHA", spelt(&alpha)),
            ("BETA", spelt(&beta)),
            ("SWALLOW", spelt(&swallow)),
            ("SECURE", spelt(&self.secure.0.to_string())),
            ("HTTPPORT", http.port().to_string()),
            ("HTTP", http.to_string()),
            ("DEADPORT", dead.port().to_string()),
            ("DEAD", dead.to_string()),
            ("DIR", directory),
            ("CERTIFICATE", certificate),
        ]
        .iter()
        .fold(text.to_owned(), |text, (name, place)| text.replace(name, place))
    }

    /// Runs a block of the table; returns the differences from it.
    fn pair(&self, kind: &str, block: &str) -> Vec<String> {
        let (name, lines) = block.split_once("]\n").unwrap();
        let (text, clients) = lines.split_once("\n- ").expect("a client");
        let text = self.place(kind, text);
        let text = |first: SocketAddr, second: SocketAddr| {
            let listen = if kind == "hitch" {
                format!("[{}]:{}", first.ip(), first.port())
            } else {
                first.to_string()
            };
            let text = text.replace("LISTEN", &listen).replace("SECOND", &second.to_string());
            let text = text.replace("PORT", &first.port().to_string());
            match kind {
                "hitch" if is_root() => text + "\nocsp-dir = \"\"\nuser = \"nobody\"\n",
                "hitch" => text + "\nocsp-dir = \"\"\n",
                "stunnel" => format!("foreground = yes\npid =\n[test]\n{text}\n"),
                _ => text + "\n",
            }
        };
        let second = free_address();
        let (peer, first, file) = Peer::start(kind, &|first| text(first, second));
        let own = [free_address(), free_address()];
        let written = fs::read_to_string(file).unwrap();
        let replaced = written
            .replace(&text(first, second), &text(own[0], own[1]))
            .replace(&first.to_string(), &own[0].to_string());
        let file = self.site.write(name.replace(' ', "-"), replaced);
        let (toml, report) = import(kind, &file);
        let lariat = Lariat::start(&toml);
        let mut wrong = Vec::new();
        for line in clients.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (client, answers) = line.split_once(" => ").expect("CLIENT => ANSWER");
            let mut answers = answers.split(" / ");
            let answer = answers.next().unwrap();
            let ours = answers.next().unwrap_or(answer);
            let client = client.trim_start_matches("- ");
            let client = self.place(kind, client);
            let got = [([first, second], answer), (own, ours)];
            let got = got.map(|(addresses, wanted)| self.answer(&client, addresses, wanted));
            if got != [answer, ours] {
                wrong.push(format!("{name}: {client}: {got:?}, not {:?}", [answer, ours]));
            }
            if let Some(words) = answers.next().filter(|words| !report.contains(words)) {
                wrong.push(format!("{name}: the report does not say {words:?}: {report}"));
            }
        }
        if !wrong.is_empty() {
            wrong.push(format!("{report}\n{toml}"));
        }
        drop((peer, lariat));
        wrong
    }

    /// Returns the answer of a program at its two addresses to a kind of client.
    fn answer(&self, client: &str, [first, second]: [SocketAddr; 2], wanted: &str) -> String {
        let words: Vec<_> = client.split(' ').collect();
        let site = &self.site;
        let tls = |words: &[&str]| match words {
            ["tls12"] => Client::tls12(site),
            _ => Client::new(site),
        };
        match (words[0], &words[1..]) {
            ("tls", arguments) => handshake(site, first, arguments),
            ("greeting", version) => greeting(tls(version).try_connect(first)),
            ("bare", _) => greeting(TcpStream::connect(first)),
            ("many", [count]) => {
                let greeted =
                    (0..count.parse().unwrap()).map(|_| greeting(TcpStream::connect(first)));
                greeted.collect::<BTreeSet<_>>().into_iter().collect()
            }
            ("until", client) => {
                let client = client.join(" ");
                let is_wanted = || self.answer(&client, [first, second], wanted) == wanted;
                until_true(wanted, || (0..4).all(|_| is_wanted()));
                wanted.to_owned()
            }
            ("half", version) => {
                let half = || half(tls(version).connect(first));
                // A program that drops the echo does so only where the end overtakes it.
                if wanted == "cut" {
                    until_true("a lost echo", || half() == "cut");
                    return wanted.to_owned();
                }
                half()
            }
            ("resumed", version) => {
                let client = tls(version);
                let visit = || {
                    let mut connection = client.connect(first);
                    connection.send(b"x");
                    connection.receive(2);
                    connection.kind()
                };
                visit();
                format!("{:?}", visit())
            }
            ("plain", _) => plain(tcp(first)),
            ("idle", _) => {
                let mut connection = Client::tls12(site).connect(first);
                connection.receive(1);
                greeting(Ok(connection))
            }
            ("limit", _) => limit(first),
            ("header", _) => self.header(first, "").version.to_string(),
            ("proxied", _) => {
                let said = "PROXY TCP4 192.0.2.7 192.0.2.8 1234 443\r\n";
                let client = self.header(first, said).addresses.map(|(client, _)| client);
                client.map(|client| client.to_string()).unwrap_or_default()
            }
            ("get", _) => {
                curl_tls(site, first).args(&["--write-out", " %{http_code}"]).run().stdout
            }
            ("redirect", [path]) => {
                let curl = curl().args(&["--write-out", "%{http_code} %{redirect_url}"]);
                let curl = curl.args(&["--output", "/dev/null", "--header", "Host: localhost"]);
                curl.url(&format!("http://{second}{path}")).run().stdout
            }
            _ => panic!("no such client: {client}"),
        }
    }

    /// Returns the PROXY header of a client that sends this before its handshake.
    fn header(&self, address: SocketAddr, said: &str) -> ProxyHeader {
        let mut socket = tcp(address);
        socket.write_all(said.as_bytes()).unwrap();
        let mark = socket.local_addr().unwrap().to_string() + &address.to_string();
        let mut connection = Client::new(&self.site).over(socket).unwrap();
        connection.send(mark.as_bytes());
        connection.end();
        until("the bytes behind a header", || {
            let seen = self.servers[2].connections();
            let mut headers = seen.iter().filter_map(|one| ProxyHeader::read(&one.bytes));
            headers.find(|header| header.rest == mark.as_bytes())
        })
    }
}

/// The peers, which end when they are dropped.
enum Peer {
    Hitch(#[expect(dead_code, reason = "it runs")] Hitch),
    Stunnel(#[expect(dead_code, reason = "it runs")] Stunnel),
    Haproxy(#[expect(dead_code, reason = "it runs")] Haproxy),
    Nginx(#[expect(dead_code, reason = "it runs")] Nginx),
}

impl Peer {
    fn start(kind: &str, text: &dyn Fn(SocketAddr) -> String) -> (Self, SocketAddr, PathBuf) {
        match kind {
            "hitch" => {
                let one = Hitch::configured(text);
                let (address, file) = (one.address, one.configuration.clone());
                (Self::Hitch(one), address, file)
            }
            "haproxy" => {
                let one = Haproxy::configured(text);
                let (address, file) = (one.address, one.configuration.clone());
                (Self::Haproxy(one), address, file)
            }
            "stunnel" => {
                let one = Stunnel::by_file(text);
                let (address, file) = (one.address, one.configuration.clone());
                (Self::Stunnel(one), address, file)
            }
            _ => {
                let address = free_address();
                let one = Nginx::configured(&text(address), "", address);
                let file = one.configuration.clone();
                (Self::Nginx(one), address, file)
            }
        }
    }
}

/// Returns the version, the name of the certificate and the protocol of a handshake, or `refused`.
fn handshake(site: &Site, address: SocketAddr, arguments: &[&str]) -> String {
    let seen = seen(site, address, arguments);
    let words: Vec<_> = seen.split('|').collect();
    let name = words[1].rsplit(" = ").next().unwrap_or_default();
    if words[1].is_empty() || words[3] == "refused" {
        return "refused".to_owned();
    }
    let protocol = words[2].strip_prefix("ALPN protocol: ").unwrap_or_default();
    format!("{} {name} {protocol}", words[0].trim()).trim_end().to_owned()
}

/// Returns the first byte that comes, `ended` when none does, `silent` when nothing happens.
fn greeting(connection: std::io::Result<impl Read>) -> String {
    let mut byte = [0];
    match connection.and_then(|mut connection| connection.read_exact(&mut byte)) {
        Ok(()) => char::from(byte[0]).to_string(),
        Err(error) if error.kind() == ErrorKind::WouldBlock => "silent".to_owned(),
        Err(_) => "ended".to_owned(),
    }
}

/// Reports whether the echo comes behind a client's half-close.
fn half(mut connection: Connection) -> String {
    connection.send(b"x");
    connection.end();
    let echo = connection.read_to_end();
    if echo.is_ok_and(|echo| echo == b"Ax") { "clean" } else { "cut" }.to_owned()
}

/// Reports whether a client without TLS gets an answer.
fn plain(mut socket: TcpStream) -> String {
    socket.write_all(b"QUIT\r\n").unwrap();
    let got = greeting(Ok(socket));
    // An alert of TLS may come before the end (RFC 8446, section 5.1).
    if got == "\u{15}" { "ended".to_owned() } else { got }
}

/// Returns the answer to a second connection while a first is open, and when it has ended.
fn limit(address: SocketAddr) -> String {
    let mut byte = [0];
    let mut one = tcp(address);
    one.read_exact(&mut byte).unwrap();
    let mut other = tcp(address);
    other.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let waits = other.read(&mut byte).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    other.set_read_timeout(Some(PATIENCE)).unwrap();
    drop(one);
    format!("{}, then {}", if waits { "waits" } else { "goes" }, greeting(Ok(other)))
}

/// Runs all pairs of a kind at once.
fn assert_pairs(kind: &str, count: usize) {
    let begin = format!("\n[{kind} ");
    let scene = &Scene::new();
    let blocks: Vec<_> = TABLE.split(&begin).skip(1).collect();
    // A block ends where one of another kind begins.
    let blocks = blocks.iter().map(|block| block.split("\n\n[").next().unwrap());
    let blocks: Vec<_> = blocks.collect();
    assert_eq!(blocks.len(), count, "{kind}");
    let wrong = thread::scope(|scope| {
        let (mut pairs, mut wrong) = (Vec::new(), Vec::new());
        for block in blocks {
            pairs.push(scope.spawn(move || scene.pair(kind, block)));
        }
        for pair in pairs {
            wrong.extend(pair.join().unwrap_or_else(|_| vec!["a panic".to_owned()]));
        }
        wrong
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn as_hitch() {
    assert_pairs("hitch", 4);
}

#[test]
fn as_stunnel() {
    assert_pairs("stunnel", 5);
}

#[test]
fn as_haproxy() {
    assert_pairs("haproxy", 15);
}

#[test]
fn as_nginx() {
    assert_pairs("nginx", 6);
}
