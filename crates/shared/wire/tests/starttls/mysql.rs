//! Logins of MySQL, byte by byte: each side's packets, and refusals.

use wire::starttls::{
    Dialect, Dialog, DialogAction, Fault, Output, PasswordTask, Policy, StarttlsSides,
};
use wire::starttls::{MysqlCheck as Check, MysqlCheckStep as CheckStep};

const TLS: u32 = 1 << 11;
/// `PROTOCOL_41`, `SECURE_CONNECTION`, `PLUGIN_AUTH`, and a database.
const CAPABILITIES: u32 = 1 << 3 | 1 << 9 | 1 << 15 | 1 << 19;
const NATIVE: &str = "mysql_native_password";
const CACHING: &str = "caching_sha2_password";
const SHA256: &str = "sha256_password";
const SCRAMBLE: &[u8; 20] = b"abcdefghijklmnopqrst";
const KEY: &[u8] = b"-----BEGIN PUBLIC KEY-----";

const CLIENT_PACKET: Fault = Fault::ClientMalformed("a login that does not parse");
const SERVER_PACKET: Fault = Fault::ServerMalformed("a packet that does not parse");

const TERMINATE: StarttlsSides = sides(Some(Policy::Required), false);
const ORIGINATE: StarttlsSides = sides(None, true);
const BOTH: StarttlsSides = sides(Some(Policy::Required), true);
const OPTIONAL: StarttlsSides = sides(Some(Policy::Optional), false);

const fn sides(front: Option<Policy>, back: bool) -> StarttlsSides {
    StarttlsSides { front, back }
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is short").to_le_bytes();
    [&length[..3], &[sequence], payload].concat()
}

fn greeting(capabilities: u32) -> Vec<u8> {
    let capabilities = capabilities.to_le_bytes();
    let fields: [&[u8]; 11] = [
        b"\x0a8.0.36\0",
        &[9, 0, 0, 0],
        &SCRAMBLE[..8],
        &[0],
        &capabilities[..2],
        &[45, 2, 0],
        &capabilities[2..],
        &[21],
        &[0; 10],
        &SCRAMBLE[8..],
        b"\0caching_sha2_password\0",
    ];
    packet(0, &fields.concat())
}

fn request(capabilities: u32) -> Vec<u8> {
    let mut payload = capabilities.to_le_bytes().to_vec();
    payload.extend([0, 0, 0, 1, 45]);
    payload.resize(32, 0);
    payload
}

fn login(capabilities: u32, answer: &[u8], plugin: &str) -> Vec<u8> {
    let length = u8::try_from(answer.len()).expect("it is short");
    let head = request(capabilities);
    let plugin = plugin.as_bytes();
    [&head, b"tom\0".as_slice(), &[length], answer, b"db\0", plugin, b"\0attributes"].concat()
}

fn switch(plugin: &str) -> Vec<u8> {
    [b"\xfe", plugin.as_bytes(), b"\0", b"ABCDEFGHIJKLMNOPQRST\0"].concat()
}

/// Returns the exclusive or with the scramble of `switch` or of the greeting.
fn mixed(password: &[u8], scramble: &[u8]) -> Vec<u8> {
    let bytes = password.iter().zip(scramble.iter().cycle());
    bytes.map(|(byte, scramble)| byte ^ scramble).collect()
}

/// A step of a login: an event, or an expected result.
enum Step {
    Client(Vec<u8>),
    Server(Vec<u8>),
    /// The server is on a Unix socket.
    Local,
    ClientTls,
    ServerTls,
    Password(&'static [u8]),
    /// All bytes sent to the client since the last such step.
    ToClient(Vec<u8>),
    ToServer(Vec<u8>),
    Then(DialogAction),
}
use Step::{Client, ClientTls, Local, Password, Server, ServerTls, Then, ToClient, ToServer};

/// Runs the steps with pieces of `piece` bytes.
fn run(sides: StarttlsSides, steps: &[Step], piece: usize) {
    let mut dialog = Dialog::new(Dialect::Mysql, sides, crate::NAMES);
    let (mut to_client, mut to_server, mut next) = (Vec::new(), Vec::new(), DialogAction::More);
    for (index, step) in steps.iter().enumerate() {
        let mut note = |output: Output| {
            to_client.extend(output.to_client);
            to_server.extend(output.to_server);
            // Bytes of the client's hello may come with its request, or later.
            match (&mut next, output.next) {
                (DialogAction::ClientTlsBegun(_), DialogAction::More) => {}
                (next, new) => *next = new,
            }
        };
        match step {
            Client(bytes) => bytes.chunks(piece).for_each(|part| note(dialog.client_sent(part))),
            Server(bytes) => bytes.chunks(piece).for_each(|part| note(dialog.server_sent(part))),
            Local => dialog.server_is_local(true),
            ClientTls => note(dialog.client_tls_up()),
            ServerTls => note(dialog.server_tls_up()),
            Password(bytes) => note(dialog.password_done(Some(bytes.to_vec()))),
            ToClient(bytes) => assert_eq!(&std::mem::take(&mut to_client), bytes, "step {index}"),
            ToServer(bytes) => assert_eq!(&std::mem::take(&mut to_server), bytes, "step {index}"),
            Then(wanted) => assert_eq!(&next, wanted, "step {index}"),
        }
    }
    assert_eq!((to_client, to_server), (Vec::new(), Vec::new()), "left over");
}

fn check(sides: StarttlsSides, steps: impl IntoIterator<Item = Step>) {
    let steps: Vec<_> = steps.into_iter().collect();
    [usize::MAX, 1, 7].into_iter().for_each(|piece| run(sides, &steps, piece));
}

/// Returns the steps until the client's TLS is up, and its login is at the server.
fn terminated(answer: &[u8], plugin: &str, at_server: &[u8]) -> Vec<Step> {
    vec![
        Server(greeting(CAPABILITIES)),
        ToClient(greeting(CAPABILITIES | TLS)),
        Client(packet(1, &request(CAPABILITIES | TLS))),
        Then(DialogAction::ClientTlsBegun(Vec::new())),
        ClientTls,
        Client(packet(2, &login(CAPABILITIES | TLS, answer, plugin))),
        ToServer(packet(1, &login(CAPABILITIES, at_server, plugin))),
    ]
}

/// Returns the steps until the server's TLS is up, and the client's plain login is there.
fn originated(plugin: &str) -> Vec<Step> {
    vec![
        Server(greeting(CAPABILITIES | TLS)),
        ToClient(greeting(CAPABILITIES)),
        Client(packet(1, &login(CAPABILITIES, b"scrambled", plugin))),
        ToServer(packet(1, &request(CAPABILITIES | TLS))),
        Then(DialogAction::StartServerTls),
        ServerTls,
        ToServer(packet(2, &login(CAPABILITIES | TLS, b"scrambled", plugin))),
    ]
}

#[test]
fn terminating_shifts_the_numbers_down() {
    let mut steps = terminated(b"scrambled", NATIVE, b"scrambled");
    steps.extend([
        Server(packet(2, &switch("client_ed25519"))),
        ToClient(packet(3, &switch("client_ed25519"))),
        Client(packet(4, b"signed")),
        ToServer(packet(3, b"signed")),
        Server([packet(4, b"\0\0\0\x02\0\0\0"), b"more".to_vec()].concat()),
        Then(DialogAction::Relay),
        ToClient([packet(5, b"\0\0\0\x02\0\0\0"), b"more".to_vec()].concat()),
    ]);
    // In one piece the bytes behind the login come with it; in many they would be relayed.
    run(TERMINATE, &steps, usize::MAX);
}

#[test]
fn originating_shifts_the_numbers_up() {
    let mut steps = originated(NATIVE);
    steps.extend([
        Server(packet(3, b"\xff\x15\x04#28000Access denied")),
        ToClient(packet(2, b"\xff\x15\x04#28000Access denied")),
        Then(DialogAction::Relay),
    ]);
    check(ORIGINATE, steps);
}

#[test]
fn tls_on_both_sides_shifts_nothing() {
    let at_client = login(CAPABILITIES | TLS, b"clear\0", SHA256);
    check(
        BOTH,
        [
            Server(greeting(CAPABILITIES | TLS)),
            ToClient(greeting(CAPABILITIES | TLS)),
            Client(packet(1, &request(CAPABILITIES | TLS))),
            ClientTls,
            Client(packet(2, &at_client)),
            ToServer(packet(1, &request(CAPABILITIES | TLS))),
            Then(DialogAction::StartServerTls),
            ServerTls,
            ToServer(packet(2, &at_client)),
            Then(DialogAction::Relay),
        ],
    );
}

#[test]
fn an_optional_plain_client_is_relayed_at_once() {
    let login = packet(1, &login(CAPABILITIES, b"scrambled", CACHING));
    check(
        OPTIONAL,
        [
            Server(greeting(CAPABILITIES)),
            ToClient(greeting(CAPABILITIES | TLS)),
            Client(login.clone()),
            ToServer(login),
            Then(DialogAction::Relay),
        ],
    );
}

#[test]
fn a_remembered_user_needs_no_key() {
    let mut steps = terminated(b"scrambled", CACHING, b"scrambled");
    steps.extend([
        Server([packet(2, &[1, 3]), packet(3, &[0, 0, 0])].concat()),
        ToClient([packet(3, &[1, 3]), packet(4, &[0, 0, 0])].concat()),
        Then(DialogAction::Relay),
    ]);
    check(TERMINATE, steps);
}

#[test]
fn a_password_is_encrypted_for_a_server_without_tls() {
    let mut steps = terminated(b"scrambled", CACHING, b"scrambled");
    steps.extend([
        Server(packet(2, &[1, 4])),
        ToClient(packet(3, &[1, 4])),
        Client(packet(4, b"secret\0")),
        ToServer(packet(3, &[2])),
        Server(packet(4, &[b"\x01", KEY].concat())),
        Then(DialogAction::Password(PasswordTask::Encrypt {
            key: KEY.to_vec(),
            password: mixed(b"secret\0", SCRAMBLE),
        })),
        Password(b"encrypted"),
        ToServer(packet(5, b"encrypted")),
        Server(packet(6, &[0])),
        ToClient(packet(5, &[0])),
        Then(DialogAction::Relay),
    ]);
    check(TERMINATE, steps);
}

#[test]
fn sha256_password_asks_the_key_with_the_login_or_after_a_switch() {
    let encrypt = |scramble: &[u8]| {
        Then(DialogAction::Password(PasswordTask::Encrypt {
            key: KEY.to_vec(),
            password: mixed(b"secret\0", scramble),
        }))
    };
    let mut steps = terminated(b"secret\0", SHA256, &[1]);
    steps.extend([
        Server(packet(2, &[b"\x01", KEY].concat())),
        encrypt(SCRAMBLE),
        Password(b"encrypted"),
        ToServer(packet(3, b"encrypted")),
        Server(packet(4, &[0])),
        ToClient(packet(3, &[0])),
    ]);
    check(TERMINATE, steps);

    let mut steps = terminated(b"scrambled", NATIVE, b"scrambled");
    steps.extend([
        Server(packet(2, &switch(SHA256))),
        ToClient(packet(3, &switch(SHA256))),
        Client(packet(4, b"secret\0")),
        ToServer(packet(3, &[1])),
        Server(packet(4, &[b"\x01", KEY].concat())),
        encrypt(b"ABCDEFGHIJKLMNOPQRST"),
    ]);
    check(TERMINATE, steps);

    // The account uses another plugin, so that the password is not sent.
    let mut steps = terminated(b"secret\0", SHA256, &[1]);
    steps.extend([
        Server(packet(2, &switch(NATIVE))),
        ToClient(packet(3, &switch(NATIVE))),
        Client(packet(4, b"scrambled")),
        ToServer(packet(3, b"scrambled")),
        Server(packet(4, &[0])),
        ToClient(packet(5, &[0])),
    ]);
    check(TERMINATE, steps);
}

#[test]
fn what_is_no_password_passes() {
    let cases: [(Option<Step>, &[u8]); 3] = [
        // To a server a Unix socket is as good as TLS.
        (Some(Local), b"secret\0"),
        // The client encrypts by itself: another Lariat, whose client has no TLS.
        (None, &[2]),
        (None, &[0]),
    ];
    for (local, answer) in cases {
        let mut steps = terminated(b"scrambled", CACHING, b"scrambled");
        steps.extend([
            Server(packet(2, &[1, 4])),
            ToClient(packet(3, &[1, 4])),
            Client(packet(4, answer)),
            ToServer(packet(3, answer)),
            Server(packet(4, &[b"\x01", KEY].concat())),
            ToClient(packet(5, &[b"\x01", KEY].concat())),
            Client(packet(6, b"encrypted")),
            ToServer(packet(5, b"encrypted")),
        ]);
        check(TERMINATE, local.into_iter().chain(steps));
    }
}

#[test]
fn a_client_without_tls_gets_our_key() {
    let mut steps = originated(CACHING);
    steps.extend([
        Server(packet(3, &[1, 4])),
        ToClient(packet(2, &[1, 4])),
        Client(packet(3, &[2])),
        Then(DialogAction::Password(PasswordTask::OwnKey)),
        Password(KEY),
        ToClient(packet(4, &[b"\x01", KEY].concat())),
        Client(packet(5, b"encrypted")),
        Then(DialogAction::Password(PasswordTask::Decrypt(b"encrypted".to_vec()))),
        Password(b"2"),
        ToServer(packet(4, &mixed(b"2", SCRAMBLE))),
        Server(packet(5, &[0])),
        ToClient(packet(6, &[0])),
        Then(DialogAction::Relay),
    ]);
    check(ORIGINATE, steps);
}

#[test]
fn what_follows_a_request_begins_the_handshake() {
    let mut dialog = Dialog::new(Dialect::Mysql, TERMINATE, crate::NAMES);
    dialog.server_sent(&greeting(CAPABILITIES));
    let request = packet(1, &request(CAPABILITIES | TLS));
    let output = dialog.client_sent(&[&request, b"\x16\x03\x01".as_slice()].concat());
    assert_eq!(output.next, DialogAction::ClientTlsBegun(b"\x16\x03\x01".to_vec()));
    assert!(dialog.client_tls_up().to_server.is_empty());
}

/// Returns the beginning of an error packet.
fn error(sequence: u8, number: u16, state: &str) -> Vec<u8> {
    let number = number.to_le_bytes();
    [&[sequence, 0xff], number.as_slice(), state.as_bytes()].concat()
}

/// Checks a login that ends with a fault, and the beginning of the error packet behind its length.
fn refused(sides: StarttlsSides, steps: Vec<Step>, fault: Fault, begins: &[u8]) {
    for piece in [usize::MAX, 1] {
        let mut dialog = Dialog::new(Dialect::Mysql, sides, crate::NAMES);
        let mut output = None;
        for step in &steps {
            let (bytes, is_client) = match step {
                Client(bytes) => (bytes, true),
                Server(bytes) => (bytes, false),
                ClientTls => {
                    dialog.client_tls_up();
                    continue;
                }
                _ => continue,
            };
            for part in bytes.chunks(piece) {
                let new =
                    if is_client { dialog.client_sent(part) } else { dialog.server_sent(part) };
                output = output.filter(|old: &Output| old.next != DialogAction::More).or(Some(new));
                if matches!(output, Some(Output { next: DialogAction::ClientTlsBegun(_), .. })) {
                    output = None;
                }
            }
        }
        let output = output.expect("bytes were fed");
        assert_eq!(output.next, DialogAction::Fail(fault.clone()));
        assert_eq!(output.to_client.get(3..3 + begins.len()), Some(begins), "{fault:?}");
        assert_eq!(output.to_server, b"", "{fault:?}");
    }
}

#[test]
fn faults_of_clients_are_told_in_words_of_mysql() {
    let opened = |bytes| vec![Server(greeting(CAPABILITIES)), Client(bytes)];
    let request = |tail: &[u8]| [&request(CAPABILITIES | TLS), tail].concat();
    let plain = login(CAPABILITIES, b"scrambled", NATIVE);
    let large = [&[0xff, 0xff, 0xff, 1][..], &request(b"")].concat();
    let state = "#08S01";
    let refused = |bytes, fault, begins: &[u8]| refused(TERMINATE, opened(bytes), fault, begins);
    refused(packet(1, &plain), Fault::TlsRequired, &error(2, 3159, "#HY000"));
    refused(packet(1, &request(b"x")), CLIENT_PACKET, &error(2, 1043, state));
    refused(packet(1, b""), CLIENT_PACKET, &error(2, 1043, state));
    refused(packet(1, &plain[..31]), CLIENT_PACKET, &error(2, 1043, state));
    refused(
        packet(2, &request(b"")),
        Fault::ClientMalformed("a packet out of order"),
        &error(1, 1156, state),
    );
    refused(large, Fault::ClientMalformed("a login of more than 64 KiB"), &error(1, 1153, state));
    let hello = b"\x16\x03\x01\x01\xfc".to_vec();
    refused(hello, Fault::TlsUnasked, &error(1, 1153, state));
}

#[test]
fn a_second_request_is_no_login() {
    let request = request(CAPABILITIES | TLS);
    let steps = vec![
        Server(greeting(CAPABILITIES)),
        Client(packet(1, &request)),
        ClientTls,
        Client(packet(2, &request)),
    ];
    refused(TERMINATE, steps, CLIENT_PACKET, &error(3, 1043, "#08S01"));
}

#[test]
fn faults_of_servers_are_told_in_words_of_mysql() {
    let malformed = error(0, 1835, "Malformed");
    let words = "error 1129: Host 'a' is blocked";
    let blocked_fault = Fault::ServerRefused(words.to_owned());
    let blocked = b"\xff\x69\x04Host 'a' is blocked";
    let cases = [
        (TERMINATE, packet(0, blocked), blocked_fault, error(0, 1129, "Host 'a'")),
        (
            TERMINATE,
            packet(0, b"\x095.0\0"),
            Fault::ServerMalformed("a greeting of another version than 10"),
            error(0, 1043, "Bad h"),
        ),
        (TERMINATE, packet(0, b""), SERVER_PACKET, malformed.clone()),
        (TERMINATE, packet(0, b"\x0a8.0.36"), SERVER_PACKET, malformed.clone()),
        (TERMINATE, packet(1, b"\x0a"), SERVER_PACKET, malformed.clone()),
        (TERMINATE, b"HTTP/1.1 400".to_vec(), SERVER_PACKET, malformed),
    ];
    for (sides, bytes, fault, begins) in cases {
        refused(sides, vec![Server(bytes)], fault, &begins);
    }
}

#[test]
fn a_server_that_speaks_before_its_handshake_is_refused() {
    let early = [greeting(CAPABILITIES | TLS), b"\x01".to_vec()].concat();
    let login = packet(1, &login(CAPABILITIES, b"scrambled", NATIVE));
    let steps = vec![Server(early), Client(login)];
    refused(ORIGINATE, steps, SERVER_PACKET, &error(2, 1835, "#HY000"));
}

#[test]
fn a_client_that_says_nothing_asks_at_once() {
    let mut dialog = Dialog::asking(Dialect::Mysql, crate::NAMES);
    assert_eq!(dialog.server_connected(), Output::default());
    let output = dialog.server_sent(&greeting(CAPABILITIES | TLS));
    assert_eq!(output.next, DialogAction::StartServerTls);
    // The request has 32 bytes, is the connection's second packet, and has TLS in its bits.
    let head = (&output.to_server[..4], output.to_server.len());
    assert_eq!(head, (&[32, 0, 0, 1][..], 36));
    assert_ne!(output.to_server[5] & (TLS >> 8) as u8, 0);
}

#[test]
fn another_server_may_greet_while_the_client_was_not_greeted() {
    let mut dialog = Dialog::new(Dialect::Mysql, ORIGINATE, crate::NAMES);
    let full = packet(0, b"\xff\x10\x04Too many connections");
    let output = dialog.server_sent(&full);
    assert!(matches!(output.next, DialogAction::Fail(Fault::ServerRefused(_))));
    assert_eq!((output.to_client, dialog.unavailable()), (Vec::new(), full));
    assert_eq!(dialog.server_connected(), Output::default());
    let output = dialog.server_sent(&greeting(CAPABILITIES));
    assert_eq!(output.next, DialogAction::Fail(Fault::ServerWithoutTls("TLS (CLIENT_SSL)")));
    assert_eq!(dialog.unavailable()[3..][..7], error(0, 3159, "Con"));
    assert_eq!(dialog.server_connected(), Output::default());
    let output = dialog.server_sent(&greeting(CAPABILITIES | TLS));
    assert_eq!(output.to_client, greeting(CAPABILITIES));
    let output = dialog.server_connected();
    assert_eq!(output.to_client[3..][..10], error(1, 1158, "#08S01"));
}

#[test]
fn a_client_without_a_server_is_told_in_words_of_mysql() {
    let mut dialog = Dialog::new(Dialect::Mysql, ORIGINATE, crate::NAMES);
    assert_eq!(dialog.unavailable()[3..][..8], error(0, 1429, "Unab"));
    dialog.server_sent(&greeting(CAPABILITIES | TLS));
    let login = login(CAPABILITIES, b"scrambled", NATIVE);
    dialog.client_sent(&packet(1, &login));
    assert_eq!(dialog.unavailable()[3..][..10], error(2, 1429, "#08S01"));
}

#[test]
fn a_check_logs_in_and_leaves() {
    let mut check = Check::new(false);
    let CheckStep::Send(login) = check.from_server(&greeting(CAPABILITIES)) else {
        panic!("a greeting is answered");
    };
    assert_eq!(login[3], 1);
    let CheckStep::Send(empty) = check.from_server(&packet(2, &switch(CACHING))) else {
        panic!("an empty password");
    };
    assert_eq!(empty, packet(3, b""));
    let accepted = check.from_server(&packet(4, &[0, 0, 0]));
    assert_eq!(accepted, CheckStep::Up(packet(0, &[1])));
}

#[test]
fn a_check_knows_which_errors_are_of_the_server() {
    let down = |words: &str| CheckStep::Down(words.to_owned());
    let full = b"\xff\x10\x04Too many connections";
    let full = Check::new(false).from_server(&packet(0, full));
    assert_eq!(full, down("error 1040: Too many connections"));
    let plain = Check::new(true).from_server(&greeting(CAPABILITIES));
    assert_eq!(plain, down("the server offers no TLS (CLIENT_SSL)"));
    let cases: [(&[u8], CheckStep); 2] = [
        (b"\xff\x15\x04#28000Access denied", CheckStep::Up(Vec::new())),
        (b"\xff\x1d\x04#08S01Shutdown", down("error 1053: Shutdown")),
    ];
    for (reply, step) in cases {
        let mut check = Check::new(true);
        let started = check.from_server(&greeting(CAPABILITIES | TLS));
        assert!(matches!(started, CheckStep::StartTls(_)));
        assert_eq!(check.tls_up()[3], 2);
        assert_eq!(check.from_server(&packet(3, reply)), step);
    }
}

#[test]
fn a_login_has_as_many_packets_as_their_numbers_tell_apart() {
    let mut dialog = Dialog::new(Dialect::Mysql, ORIGINATE, crate::NAMES);
    dialog.server_sent(&greeting(CAPABILITIES | TLS));
    dialog.client_sent(&packet(1, &login(CAPABILITIES, b"scrambled", NATIVE)));
    dialog.server_tls_up();
    let numbers = (0..256_usize).map(|number| (number + 3) as u8);
    let flood: Vec<_> = numbers.flat_map(|number| packet(number, b"")).collect();
    let (most, last) = flood.split_at(flood.len() - 4);
    let out = dialog.server_sent(most);
    assert_eq!((out.next, out.to_client.len()), (DialogAction::More, most.len()));
    let too_many = "a login of more than 256 packets";
    assert_eq!(dialog.server_sent(last).next, DialogAction::Fail(Fault::ServerMalformed(too_many)));

    let mut dialog = Dialog::new(Dialect::Mysql, TERMINATE, crate::NAMES);
    dialog.server_sent(&greeting(CAPABILITIES));
    dialog.client_sent(&packet(1, &request(CAPABILITIES | TLS)));
    dialog.client_tls_up();
    dialog.client_sent(&packet(2, &login(CAPABILITIES | TLS, b"scrambled", NATIVE)));
    let turns = (0..255_usize).map(|turn| (turn * 2) as u8);
    let last = turns.fold(DialogAction::More, |before, turn| {
        assert_eq!(before, DialogAction::More, "{turn}");
        assert_eq!(dialog.server_sent(&packet(turn.wrapping_add(2), b"")).next, DialogAction::More);
        dialog.client_sent(&packet(turn.wrapping_add(4), b"")).next
    });
    assert_eq!(last, DialogAction::Fail(Fault::ClientMalformed(too_many)));
}

#[test]
fn the_part_of_a_packet_of_a_server_that_ends_has_the_client_s_number() {
    let mut dialog = Dialog::new(Dialect::Mysql, ORIGINATE, crate::NAMES);
    dialog.server_sent(&greeting(CAPABILITIES | TLS));
    dialog.client_sent(&packet(1, &login(CAPABILITIES, b"scrambled", NATIVE)));
    assert_eq!(dialog.server_ended(), b"");
    dialog.server_tls_up();
    assert_eq!(dialog.server_sent(b"\x07\0\0\x03\xff\x15").to_client, b"");
    assert_eq!(dialog.server_ended(), b"\x07\0\0\x02\xff\x15");
}
