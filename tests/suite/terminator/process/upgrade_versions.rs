//! An upgrade to another version: the program is replaced by one with another version number and
//! other formats of the handed-over state, as in an upgrade or its way back; and the rights that a
//! program has by its file.

use std::net::Ipv4Addr;

use rustix::fs::XattrFlags;
use suite::lariat::command;
use suite::prelude::*;

/// Makes a copy of the program that claims, in its own bytes, to be another release.
const COPY: &str = r#"
import os, sys
program, place, version, formats = sys.argv[1:]
text = b" hands over in the formats "
with open(program, "rb") as file:
    content = file.read()
if version:
    begin, end = content.index(text) - len(version), content.index(text) + len(text)
    assert content[end:end + 6] == b"1 to 1", content[end:end + 6]
    release = version.encode() + text + formats.encode()
    content = content[:begin] + release + content[begin + len(release):]
with open(place + ".new", "wb") as file:
    file.write(content)
os.chmod(place + ".new", 0o755)
os.rename(place + ".new", place)
"#;

/// Installs a copy of the program, with this version and these formats; `None` = with its own.
fn install(place: &Path, release: Option<(&str, [u32; 2])>) {
    let (version, [oldest, newest]) = release.unwrap_or_default();
    let mut copy = Command::new("python3");
    copy.args(["-c", COPY]).arg(command().get_program()).arg(place);
    run(copy.args([version, &format!("{oldest} to {newest}")])).success();
}

struct Stage {
    site: Site,
    _server: Server,
    service: Service,
    program: PathBuf,
    lariat: Lariat,
    client: Client,
}

fn running(release: Option<(&str, [u32; 2])>) -> Stage {
    let (site, server, service) = set_up(Behaviour::Echo);
    let program = site.path("lariat");
    install(&program, release);
    let lariat = Lariat::start_by(Command::new(&program), &service.toml());
    let client = Client::without_tickets(&site);
    client.visit(service.address);
    Stage { site, _server: server, service, program, lariat, client }
}

#[test]
fn a_newer_one_takes_over_and_the_older_one_takes_over_again() {
    let stage = running(None);
    for release in [Some(("7.8.9", [1, 2])), None, Some(("0.0.1", [0, 1])), None] {
        install(&stage.program, release);
        let said = stage.lariat.ask("upgrade").success();
        let version = release.map_or("", |(version, _)| version);
        assert_has(&said, &format!("lariat {version}"));
        let resumed = stage.client.visit(stage.service.address);
        assert_eq!(resumed, HandshakeKind::Resumed);
    }
    stage.lariat.ask("drain").success();
}

#[test]
fn one_without_a_common_format_is_refused_and_says_both() {
    for release in [("7.8.9", [2, 3]), ("0.0.1", [0, 0])] {
        let stage = running(None);
        install(&stage.program, Some(release));
        let refused = stage.lariat.ask("upgrade");
        assert_eq!(refused.code(), 5, "{refused:?}");
        let (version, [oldest, newest]) = release;
        let theirs = format!("lariat {version} takes over in the formats {oldest} to {newest}");
        refused.assert_stderr(&theirs);
        refused.assert_stderr("hands over in 1 to 1");
        assert_eq!(stage.lariat.serving(), stage.lariat.supervisor());
        Client::new(&stage.site).visit(stage.service.address);
    }
}

/// Grants `cap_net_bind_service=ep` as `setcap` writes it (linux/capability.h, revision 2).
fn may_listen_below_1024(program: &Path) {
    let words: [u32; 5] = [0x0200_0001, 1 << 10, 0, 0, 0];
    let value = words.map(u32::to_le_bytes);
    let flags = XattrFlags::empty();
    rustix::fs::setxattr(program, "security.capability", value.as_flattened(), flags).unwrap();
}

#[test]
fn a_right_that_the_file_has_stays() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let program = site.path("lariat");
    install(&program, None);
    may_listen_below_1024(&program);
    // Free a moment ago, as all ports of tests are.
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let mut ports = (200..1000).rev().filter(is_free);
    let mut at = |name: &str| {
        let port = ports.next().expect("one of eight hundred");
        let service = Service::new(&site, &server).named(name);
        service.at((Ipv4Addr::LOCALHOST, port).into())
    };
    let (first, second) = (at("first"), at("second"));
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"].join(" ");
    let script = format!("chown -R 65534 \"${{2%/*}}\" && exec setpriv {user} \"$0\" \"$@\"");
    let mut as_nobody = Command::new("sh");
    as_nobody.args(["-c", &script]).arg(&program);
    let lariat = Lariat::start_by(as_nobody, &first.toml());
    // The supervisor may gain no rights any more, and the new program opens another such port.
    lariat.configure(&format!("{}{}", first.toml(), second.toml()));
    for _ in 0..2 {
        lariat.ask("upgrade").success();
        for service in [&first, &second] {
            Client::new(&site).visit(service.address);
        }
    }
    lariat.ask("drain").success();
}
