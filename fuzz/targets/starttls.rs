//! Any bytes from a client and a server to the dialog of any dialect: no panic, and the size of the
//! output is bounded by that of the input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::starttls::{
    Dialect, Dialog, DialogAction, HostNames, Output, PasswordTask, Policy, StarttlsSides,
};

/// Maximum bytes that a dialog sends by itself for one piece: refusals of all lines in it are
/// counted by their bytes.
const OWN_BYTES_MAX: usize = 4096;

/// The longest refusal for the shortest command, a lone line end.
const FACTOR: usize = 64;

const NAMES: HostNames<'static> = HostNames { own: "own.example", server: Some("localhost") };

/// Beginnings of the output to a client once its server's TLS is up, after any earlier input.
const GREETINGS: &[&[u8]] = &[
    b"220 localhost ESMTP\r\n",
    b"220 localhost LMTP\r\n",
    b"* OK Ready\r\n",
    b"+OK Ready\r\n",
    b"220 Ready\r\n",
    b"200 Ready\r\n",
];

fuzz_target!(|bytes: &[u8]| {
    let [dialect, is_set, pieces @ ..] = bytes else { return };
    let (_, dialect) = Dialect::ALL[usize::from(*dialect) % Dialect::ALL.len()];
    let sides = StarttlsSides {
        front: [None, Some(Policy::Required), Some(Policy::Optional)][usize::from(is_set & 3) % 3],
        back: is_set & 4 != 0,
    };
    let mut dialog = Dialog::new(dialect, sides, NAMES);
    if is_set & 8 != 0 {
        dialog.server_is_secured();
    }
    if is_set & 16 != 0 {
        dialog.server_has_other_certificate();
    }
    // The beginning of a database protocol is a part of the login.
    let is_database = matches!(dialect, Dialect::Mysql | Dialect::Postgres);
    let (mut came, mut went) = (0, OWN_BYTES_MAX);
    went += follow(&mut dialog, Dialog::server_connected, came, 0, is_database).unwrap_or(0);
    let mut rest = pieces;
    while let [head, more @ ..] = rest {
        let (piece, behind) = more.split_at(usize::from(head >> 1).min(more.len()));
        rest = behind;
        came += piece.len();
        let is_of_client = head & 1 == 0;
        let take = |dialog: &mut Dialog| match is_of_client {
            true => dialog.client_sent(piece),
            false => dialog.server_sent(piece),
        };
        let Some(more) = follow(&mut dialog, take, came, went, is_database) else { return };
        went += more;
    }
});

/// Returns the bytes sent in a step and in those that it asks for; `None` if the dialog is over.
fn follow(
    dialog: &mut Dialog,
    step: impl FnOnce(&mut Dialog) -> Output,
    came: usize,
    went: usize,
    is_database: bool,
) -> Option<usize> {
    let mut out = step(dialog);
    let mut bytes = 0;
    loop {
        bytes += out.to_client.len() + out.to_server.len();
        assert!(went + bytes <= 2 * OWN_BYTES_MAX + came * FACTOR, "{came} bytes, {bytes} more");
        assert!(dialog.unavailable().len() < OWN_BYTES_MAX);
        out = match out.next {
            DialogAction::More => return Some(bytes),
            DialogAction::Relay | DialogAction::Broadcast(_) | DialogAction::Fail(_) => {
                return None;
            }
            DialogAction::StartClientTls | DialogAction::ClientTlsBegun(_) => {
                dialog.client_tls_up()
            }
            DialogAction::StartServerTls => {
                let up = dialog.server_tls_up();
                let is_own = GREETINGS.iter().any(|one| up.to_client.starts_with(one));
                assert!(up.to_client.is_empty() || is_own || is_database, "{up:?}");
                up
            }
            DialogAction::Password(PasswordTask::OwnKey) => {
                dialog.password_done(Some(b"key".to_vec()))
            }
            DialogAction::Password(_) => dialog.password_done(None),
        };
    }
}
