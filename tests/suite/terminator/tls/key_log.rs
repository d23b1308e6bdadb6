//! `process.key-log`: the secrets of connections, as `openssl` knows them on the other side.

use std::os::unix::fs::{PermissionsExt, symlink};

use suite::prelude::*;

/// Returns the lines of a key log, without comments.
fn lines_of(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn key_log(path: &Path, more: &str) -> String {
    format!("[process.key-log]\npath = {path:?}\n{more}\n")
}

/// Waits until all lines that `openssl` has written are in ours.
fn wait_for_lines(ours: &Path, wanted: &[String]) {
    assert!(!wanted.is_empty());
    until_true("the key log", || {
        let written = lines_of(ours);
        wanted.iter().all(|line| written.iter().any(|one| one == line))
    });
}

/// Makes a connection, whose secrets `openssl` writes to a new file of this name.
fn connect(site: &Site, service: &Service, name: &str, version: &str) -> PathBuf {
    let path = site.path(name);
    let keys = path.display().to_string();
    let talk = s_client(site, service.address, &["-keylogfile", &keys, version]);
    assert_has(&talk.stdout, "CONNECTED");
    path
}

#[test]
fn secrets_of_both_sides_are_those_of_the_peers() {
    let site = Site::new();
    let ours = site.path("ours.log");
    for (number, version) in ["-tls1_2", "-tls1_3"].into_iter().enumerate() {
        let of_server = site.path(&format!("server-{number}.log"));
        let keys = of_server.display().to_string();
        let server = SServer::start(&site, "site.pem", &["-www", version, "-keylogfile", &keys]);
        let back = format!("tls = {{ ca = [{:?}] }}", site.ca());
        let web = Service::new(&site, server.address).back(&back);
        let other = Service::new(&site, server.address).named("other").back(&back);
        let more = "services = ['web']";
        let lariat =
            Lariat::start(&format!("{}{}{}", key_log(&ours, more), web.toml(), other.toml()));
        lariat.wait_for_stderr("decrypts what was captured");
        // A connection of another service comes before the awaited ones, in the log too.
        let others = connect(&site, &other, &format!("other-{number}.log"), version);
        let others_of_server = lines_of(&of_server);
        let of_client = connect(&site, &web, &format!("client-{number}.log"), version);
        wait_for_lines(&ours, &lines_of(&of_client));
        let of_server = lines_of(&of_server);
        wait_for_lines(&ours, &of_server[others_of_server.len()..]);
        let written = lines_of(&ours);
        let others = [lines_of(&others), others_of_server].concat();
        assert!(others.iter().all(|line| !written.contains(line)), "of a service not named");
        let status = lariat.status()["key_log"].clone();
        assert_eq!((&status["services"][0], &status["dropped"]), (&"web".into(), &0.into()));
        assert_has(lariat.ask("status").stdout, "KEY LOG: secrets of web go to");
        assert_eq!(fs::metadata(&ours).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let checked = lariat::check(&format!("{}{}", key_log(&ours, ""), {
        Service::new(&site, "127.0.0.1:1").toml()
    }));
    checked.assert_stderr("writes the secrets of all connections of web");
    let open_to_all = site.write("all.log", "");
    for path in [site.path("nowhere/keys.log"), site.path("."), open_to_all] {
        let service = Service::new(&site, "127.0.0.1:1").toml();
        let checked = lariat::check(&format!("{}{service}", key_log(&path, "")));
        checked.assert_stderr("and no secret will be there: ");
    }
}

#[test]
fn a_key_log_follows_reloads_and_upgrades_and_is_never_written_through_a_link() {
    let site = Site::new();
    let server = Server::start(Behaviour::Http(b"ok".to_vec()));
    let service = Service::new(&site, server.address());
    let (first, second) = (site.path("first.log"), site.path("second.log"));
    let with = |path: &Path| format!("{}{}", key_log(path, ""), service.toml());
    let lariat = Lariat::start(&with(&first));
    wait_for_lines(&first, &lines_of(&connect(&site, &service, "a", "-tls1_3")));
    lariat.reload_with(&with(&second));
    wait_for_lines(&second, &lines_of(&connect(&site, &service, "b", "-tls1_3")));
    let _draining = lariat.upgrade();
    wait_for_lines(&second, &lines_of(&connect(&site, &service, "c", "-tls1_3")));
    // A file that is moved away is made again at a reload.
    fs::rename(&second, site.path("moved.log")).unwrap();
    lariat.reload_with(&with(&second));
    wait_for_lines(&second, &lines_of(&connect(&site, &service, "d", "-tls1_3")));
    let (link, open, target) = (site.path("link"), site.path("open"), site.path("target"));
    symlink(&target, &link).unwrap();
    fs::write(&open, "").unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    for (path, why) in [
        (&*link, "a symbolic link"),
        (&open, "may be used by others"),
        (Path::new("/dev/full"), "a device"),
        (Path::new("/nowhere/keys.log"), "No such file"),
    ] {
        lariat.reload_with(&with(path));
        lariat.wait_for_stderr(why);
        connect(&site, &service, "e", "-tls1_3");
    }
    assert!(!target.exists() && lines_of(&open).is_empty());
    lariat.reload_with(&service.toml());
    assert_eq!(lariat.status()["key_log"], Value::Null);
}
