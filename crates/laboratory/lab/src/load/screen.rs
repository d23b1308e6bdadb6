//! The other screen of a terminal (ECMA-48, and xterm's private mode 1049), which a view fills
//! anew, and which leaves what stood before as it was: at the end, and while a shell has us stopped
//! or in the background.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use sys::process::is_in_foreground;
use terminal_size::{Height, Width};

/// One for the program, since the threads that hear signals and panics give it back.
static SHOWN: Mutex<ShownFrame> =
    Mutex::new(ShownFrame { is_wanted: false, is_taken: false, frame: String::new() });

/// To the other screen, without a cursor; and back.
const TAKE: &str = "\x1b[?1049h\x1b[?25l";
const GIVE: &str = "\x1b[?25h\x1b[?1049l";

/// Columns and rows of a terminal that does not say its size.
const SIZE: (usize, usize) = (80, 24);

#[derive(Debug)]
pub(crate) struct Screen(());

struct ShownFrame {
    is_wanted: bool,
    /// Whether the terminal shows the other screen.
    is_taken: bool,
    frame: String,
}

impl ShownFrame {
    fn draw(&mut self) {
        if !self.is_wanted || !is_in_foreground(io::stderr()) {
            return;
        }
        if !std::mem::replace(&mut self.is_taken, true) {
            put(TAKE);
        }
        put(&self.frame);
    }

    fn give_back(&mut self) {
        if std::mem::take(&mut self.is_taken) {
            put(GIVE);
        }
    }
}

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
        let mut shown = shown();
        *shown = ShownFrame { is_wanted: true, is_taken: false, frame: String::new() };
        shown.draw();
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
        let mut shown = shown();
        shown.frame = format!("\x1b[H{}\x1b[J", rows.concat());
        shown.draw();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back for good, if it was taken: to be called before the program ends.
pub(crate) fn give_back() {
    let mut shown = shown();
    shown.is_wanted = false;
    shown.give_back();
}

/// Gives the terminal back while this is done, and draws the last frame anew.
pub(crate) fn give_back_during(act: impl FnOnce()) {
    let mut shown = shown();
    shown.give_back();
    act();
    shown.draw();
}

fn shown() -> MutexGuard<'static, ShownFrame> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In one piece, so that no half of it is seen. A terminal that is gone is no failure.
fn put(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
