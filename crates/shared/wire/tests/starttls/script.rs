//! Conversations as text, played against a dialog.
//!
//! `C>` and `S>` are bytes that client and server send, `C<` and `S<` bytes that they must get for
//! them, and `=` the step that must follow, after which its TLS is up. Successive lines of one kind
//! are one piece of bytes.

use wire::starttls::{Dialect, Dialog, DialogAction, HostNames, Output, StarttlsSides};

/// Names without a known server.
pub(crate) const NAMES: HostNames<'static> = HostNames { own: "own.example", server: None };

/// Plays a script with pieces as they stand, byte by byte, and in threes.
pub(crate) fn play(dialect: Dialect, sides: StarttlsSides, script: &str) {
    for size in [usize::MAX, 1, 3] {
        DialogScript::new(dialect, sides, size).run(script);
    }
}

struct DialogScript {
    dialog: Dialog,
    size: usize,
    got: Output,
    context: String,
}

impl DialogScript {
    fn new(dialect: Dialect, sides: StarttlsSides, size: usize) -> Self {
        Self {
            dialog: Dialog::new(dialect, sides, NAMES),
            size,
            got: Output::default(),
            context: format!("{dialect:?} {sides:?} in pieces of {size}"),
        }
    }

    fn run(mut self, script: &str) {
        let lines = script.lines().map(str::trim_start).filter(|line| !line.is_empty());
        let lines: Vec<_> = lines.map(|line| line.split_at(line.len().min(2))).collect();
        for group in lines.chunk_by(|one, other| one.0 == other.0 && one.0 != "= ") {
            let (kind, first) = group[0];
            let texts =
                group.iter().map(|(_, text)| unescaped(text.strip_prefix(' ').unwrap_or(text)));
            let bytes = texts.collect::<Vec<_>>().concat();
            match kind {
                "C>" | "S>" => self.feed(kind, &bytes),
                "C<" => self.expect(&bytes, |got| &mut got.to_client),
                "S<" => self.expect(&bytes, |got| &mut got.to_server),
                "= " => self.follow(first),
                other => panic!("{other} is not of a script"),
            }
        }
        assert_eq!(self.got.to_client.escape_ascii().to_string(), "", "{}", self.context);
        assert_eq!(self.got.to_server.escape_ascii().to_string(), "", "{}", self.context);
        assert_eq!(self.got.next, DialogAction::More, "{}", self.context);
    }

    fn feed(&mut self, kind: &str, bytes: &[u8]) {
        for piece in bytes.chunks(self.size.min(bytes.len()).max(1)) {
            let out = if self.got.next == DialogAction::Relay && kind == "C>" {
                Output { to_server: piece.to_vec(), ..Output::default() }
            } else if self.got.next == DialogAction::Relay {
                Output { to_client: piece.to_vec(), ..Output::default() }
            } else if kind == "C>" {
                self.dialog.client_sent(piece)
            } else {
                self.dialog.server_sent(piece)
            };
            self.take(out);
        }
    }

    fn take(&mut self, out: Output) {
        self.got.to_client.extend(out.to_client);
        self.got.to_server.extend(out.to_server);
        if out.next != DialogAction::More {
            self.got.next = out.next;
        }
    }

    fn expect(&mut self, bytes: &[u8], side: fn(&mut Output) -> &mut Vec<u8>) {
        let got = std::mem::take(side(&mut self.got));
        let (got, wanted) = (got.escape_ascii().to_string(), bytes.escape_ascii().to_string());
        assert_eq!(got, wanted, "{}", self.context);
    }

    fn follow(&mut self, step: &str) {
        let next = std::mem::take(&mut self.got.next);
        let said = match &next {
            DialogAction::Fail(fault) => format!("fail: {fault}"),
            other => format!("{other:?}"),
        };
        assert_eq!(said, step.trim(), "{}", self.context);
        let out = match next {
            DialogAction::StartClientTls | DialogAction::ClientTlsBegun(_) => {
                self.dialog.client_tls_up()
            }
            DialogAction::StartServerTls => self.dialog.server_tls_up(),
            _ => Output::default(),
        };
        self.take(out);
    }
}

/// Returns a line's bytes: with CR LF, unless it ends with `\`; `\xNN` is a byte.
pub(crate) fn unescaped(text: &str) -> Vec<u8> {
    let (text, end): (_, &[u8]) = match text.strip_suffix('\\') {
        Some(text) => (text, b""),
        None => (text, b"\r\n"),
    };
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two hexadecimal digits"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes.extend_from_slice(end);
    bytes
}
