//! A session that cannot be resumed costs the client a full handshake, and is counted by reason.

use suite::openssl::bytes_of;
use suite::prelude::*;

/// A service whose ticket keys come from a file, and a session by ticket that openssl keeps.
struct Kept {
    site: Site,
    service: Service,
    lariat: Lariat,
    _server: Server,
}

impl Kept {
    fn new(tickets: &str) -> Self {
        let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
        fs::write(site.path("tickets.key"), [1; 80]).unwrap();
        let service = Service::new(&site, &server);
        let lariat = Lariat::start(&format!("{}{}", tickets_of(&site, tickets), service.toml()));
        let kept = Self { site, service, lariat, _server: server };
        let session = kept.session();
        let first = kept.connect(&["-sess_out", session.to_str().unwrap()]);
        assert_has(&first, "New, TLSv1.2");
        kept
    }

    fn session(&self) -> PathBuf {
        self.site.path("session")
    }

    fn connect(&self, options: &[&str]) -> String {
        let options = [&["-tls1_2"], options].concat();
        s_client(&self.site, self.service.address, &options).success()
    }

    /// Reports whether the session is resumed, with these options beside it.
    fn resumes(&self, options: &[&str]) -> bool {
        let session = self.session();
        let answer = self.connect(&[&["-sess_in", session.to_str().unwrap()], options].concat());
        assert!(answer.contains("New, TLSv1.2") || answer.contains("Reused, TLSv1.2"), "{answer}");
        answer.contains("Reused")
    }

    fn wait_for_miss(&self, reason: &str) {
        let labels = [("service", "web"), ("reason", reason)];
        self.lariat.wait_for_metric("lariat_resumption_misses_total", &labels, 1.0);
    }

    /// Changes a byte of the kept ticket, counted from its beginning.
    fn change_ticket(&self, offset: usize) {
        let der = self.convert("DER");
        let mut bytes = fs::read(&der).unwrap();
        // A ticket begins with a byte for its format and the name of its key.
        let name = bytes_of(&self.lariat.ticket_key());
        let at = bytes.windows(name.len()).position(|part| part == name);
        bytes[at.expect("a ticket of that key") - 1 + offset] ^= 1;
        fs::write(der, bytes).unwrap();
        self.convert("PEM");
    }

    /// Converts the session to another form, in the place of the PEM one or beside it.
    fn convert(&self, form: &str) -> PathBuf {
        let (pem, der) = (self.session(), self.site.path("session.der"));
        let (from, to, other) = match form {
            "DER" => (pem, der, "PEM"),
            _ => (der, pem, "DER"),
        };
        let mut command = Command::new("openssl");
        command.args(["sess_id", "-inform", other, "-outform", form, "-in"]);
        run(command.arg(&from).arg("-out").arg(&to)).success();
        to
    }
}

fn tickets_of(site: &Site, tickets: &str) -> String {
    let key = site.path("tickets.key");
    format!("[resumption]\ntickets = {{ keys = [{key:?}], {tickets} }}\n")
}

#[test]
fn a_ticket_that_was_changed_is_altered_or_foreign() {
    let kept = Kept::new("");
    assert!(kept.resumes(&[]));
    kept.lariat.wait_for_metric("lariat_handshakes_total", &[("kind", "ticket")], 1.0);
    assert_eq!(kept.lariat.sum("lariat_resumption_misses_total", &[]), 0.0);
    kept.change_ticket(40);
    assert!(!kept.resumes(&[]));
    kept.wait_for_miss("altered");
    kept.lariat.wait_for_line(&["\"resumption_miss\":\"altered\"", "\"handshake\":\"full\""]);
    kept.change_ticket(40);
    assert!(kept.resumes(&[]), "the change was taken back");
    kept.change_ticket(6);
    assert!(!kept.resumes(&[]));
    kept.wait_for_miss("foreign");
}

#[test]
fn a_ticket_of_a_key_that_is_gone_is_too_old() {
    let kept = Kept::new("");
    let file = kept.site.path("tickets.key");
    fs::write(&file, [2; 80]).unwrap();
    assert!(kept.resumes(&[]), "files are read again at a reload alone");
    kept.lariat.reload().success();
    assert!(!kept.resumes(&[]));
    kept.wait_for_miss("key-too-old");
    fs::write(&file, [1; 80]).unwrap();
    kept.lariat.reload().success();
    assert!(kept.resumes(&[]));
}

#[test]
fn a_ticket_past_its_lifetime_is_expired() {
    let kept = Kept::new("lifetime = '1s'");
    until_true("the ticket to expire", || !kept.resumes(&[]));
    kept.wait_for_miss("expired");
}

#[test]
fn a_session_for_another_name_does_not_fit() {
    let kept = Kept::new("");
    assert!(!kept.resumes(&["-servername", "other.example"]));
    kept.wait_for_miss("mismatch");
}

#[test]
fn a_session_of_another_service_is_told_as_such() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let one = Service::new(&site, &server).named("one");
    let other = Service::new(&site, &server).named("other");
    let lariat = Lariat::start(&format!("{}{}", one.toml(), other.toml()));
    let file = site.path("session");
    let file = file.to_str().unwrap();
    for more in [&["-no_ticket"][..], &[]] {
        let options = [&["-tls1_2", "-sess_out", file], more].concat();
        s_client(&site, one.address, &options).success();
        let options = [&["-tls1_2", "-sess_in", file], more].concat();
        let second = s_client(&site, other.address, &options).success();
        assert_has(&second, "New, TLSv1.2");
    }
    // A client of TLS 1.3 as well; it takes both for one host.
    let client = Client::new(&site);
    for service in [&one, &other] {
        let mut connection = client.connect(service.address);
        connection.end();
        connection.read_to_end().unwrap();
    }
    let labels = [("service", "other"), ("reason", "wrong-service")];
    lariat.wait_for_metric("lariat_resumption_misses_total", &labels, 3.0);
}

#[test]
fn a_session_id_that_is_not_held_is_unknown() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (one, other) = (Service::new(&site, &server), Service::new(&site, &server));
    let first = one.start();
    let second = other.start();
    let file = site.path("session");
    let file = file.to_str().unwrap();
    let options = ["-tls1_2", "-no_ticket", "-sess_out", file];
    s_client(&site, one.address, &options).success();
    let options = ["-tls1_2", "-no_ticket", "-sess_in", file];
    let answer = s_client(&site, other.address, &options).success();
    assert_has(&answer, "New, TLSv1.2");
    let unknown = [("reason", "unknown")];
    let name = "lariat_resumption_misses_total";
    second.wait_for_metric(name, &unknown, 1.0);
    first.wait_for_metric(name, &[], 0.0);
    let looked_up = [("result", "unknown")];
    second.wait_for_metric("lariat_session_cache_lookups_total", &looked_up, 1.0);
}
