//! Hosts on a network of their own: namespaces, joined by a bridge in one more. No packet leaves
//! it, and it ends with the test, even if that is killed: each namespace lives as long as a `cat`
//! whose input we hold.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use rustix::process::geteuid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::patience::until;
use crate::program::{Running, run};

/// A network of hosts, numbered from 1.
#[derive(Debug)]
pub struct Network {
    bridge: Namespace,
    hosts: u8,
}

/// A host, with an address of each family and nothing running.
#[derive(Debug)]
pub struct Host {
    namespace: Namespace,
    number: u8,
}

/// A namespace, kept by a process in it.
#[derive(Debug)]
struct Namespace(Running);

impl Network {
    /// Makes a network without hosts; `None` if we are not root, because only root may.
    pub fn new() -> Option<Self> {
        geteuid().is_root().then(|| {
            let bridge = Namespace::new();
            bridge.ip("link add bridge type bridge");
            bridge.ip("link set bridge up");
            Self { bridge, hosts: 0 }
        })
    }

    /// Returns a program to run at the bridge, where everything passes that hosts send each other;
    /// arguments may follow.
    pub fn command(&self, program: &Command) -> Command {
        with_arguments(self.bridge.command(), program)
    }

    pub fn host(&mut self) -> Host {
        self.hosts += 1;
        let (number, namespace) = (self.hosts, Namespace::new());
        let host = Host { namespace, number };
        host.ip("link set lo up");
        self.join(&host, "eth0");
        for line in [
            format!("address add {}/24 dev eth0", host.ipv4()),
            // Without duplicate address detection (RFC 4862), which takes a second.
            format!("address add {}/64 dev eth0 nodad", host.ipv6()),
            "route add 224.0.0.0/4 dev eth0".to_owned(),
        ] {
            host.ip(&line);
        }
        host
    }

    /// Adds a further way to and from a host: an interface `eth1`, with an address of its own.
    pub fn add_path(&self, host: &Host) {
        self.join(host, "eth1");
        host.ip(&format!("address add {}/24 dev eth1", host.second_ipv4()));
    }

    /// Joins an interface of a host to the bridge.
    fn join(&self, host: &Host, interface: &str) {
        let (port, holder) = (format!("{interface}-{}", host.number), host.namespace.0.id());
        self.bridge.ip(&format!("link add {port} type veth peer name {interface} netns {holder}"));
        self.bridge.ip(&format!("link set {port} master bridge up"));
        host.ip(&format!("link set {interface} up"));
    }
}

impl Host {
    pub fn ipv4(&self) -> IpAddr {
        Ipv4Addr::new(10, 77, 0, self.number).into()
    }

    /// Returns the address on a further way: [`Network::add_path`].
    pub fn second_ipv4(&self) -> IpAddr {
        Ipv4Addr::new(10, 78, 0, self.number).into()
    }

    pub fn ipv6(&self) -> IpAddr {
        Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, self.number.into()).into()
    }

    /// Returns a port of its IPv4 address. Any port is free, because nobody else is there.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ipv4(), port)
    }

    /// Returns a program to run there; arguments may follow.
    pub fn command(&self, program: &Command) -> Command {
        with_arguments(self.namespace.command(), program)
    }

    /// Acts there: sockets that `act` opens, and programs that it starts, are the host's.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(self.namespace.path()).expect("its process runs");
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), kind).expect("root may");
                act()
            });
            let result = thread.join();
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Takes the host off the network, or puts it back.
    pub fn set_connected(&self, is_connected: bool) {
        let word = if is_connected { "up" } else { "down" };
        self.ip(&format!("link set eth0 {word}"));
    }

    pub fn ip(&self, line: &str) {
        self.namespace.ip(line);
    }
}

fn with_arguments(mut within: Command, program: &Command) -> Command {
    within.arg(program.get_program()).args(program.get_args());
    within
}

impl Namespace {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        let running = Running::start_with(command.args(["--net", "cat"]), Stdio::piped());
        let namespace = Self(running);
        let ours = fs::read_link("/proc/self/ns/net").expect("a link");
        until("a network namespace", || {
            let its = fs::read_link(namespace.path()).ok()?;
            (its != ours).then_some(())
        });
        namespace
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }

    fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg("--");
        command
    }

    fn ip(&self, line: &str) {
        run(self.command().arg("ip").args(line.split_whitespace())).success();
    }
}
