//! The other screen of a terminal (ECMA-48, and xterm's private mode 1049), which a view fills
//! anew, and which leaves what stood before as it was.

use std::io::{self, IsTerminal, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use terminal_size::{Height, Width};

/// Whether the terminal shows the other screen.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// To the other screen, without a cursor; and back.
const TAKE: &str = "\x1b[?1049h\x1b[?25l";
const GIVE: &str = "\x1b[?25h\x1b[?1049l";

/// Columns and rows of a terminal that does not say its size.
const SIZE: (usize, usize) = (80, 24);

#[derive(Debug)]
pub(crate) struct Screen(());

impl Screen {
    /// Takes the terminal of the standard error; `None` = it is none, or one without a cursor.
    pub(crate) fn take() -> Option<Self> {
        static HOOK: Once = Once::new();
        let is_dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
        if is_dumb || !io::stderr().is_terminal() {
            return None;
        }
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        IS_TAKEN.store(true, Relaxed);
        put(TAKE);
        Some(Self(()))
    }

    /// Columns and rows; the last row is left to messages.
    pub(crate) fn room(&self) -> (usize, usize) {
        let size = terminal_size::terminal_size_of(io::stderr());
        let size = size.map(|(Width(width), Height(height))| (width.into(), height.into()));
        let (width, height) = size.filter(|(width, height)| width * height > 0).unwrap_or(SIZE);
        (width, height - 1)
    }

    /// Shows lines that fit, and nothing else.
    pub(crate) fn show(&self, lines: &[String]) {
        let rows: Vec<_> = lines.iter().map(|line| format!("{line}\x1b[K\r\n")).collect();
        put(&format!("\x1b[H{}\x1b[J", rows.concat()));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back, if it was taken: to be called before the program ends.
pub(crate) fn give_back() {
    if IS_TAKEN.swap(false, Relaxed) {
        put(GIVE);
    }
}

/// In one piece, so that no half of it is seen. A terminal that is gone is no failure.
fn put(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
