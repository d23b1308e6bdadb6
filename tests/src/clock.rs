//! A wall clock for Lariat alone, which can be set while it runs.
//!
//! A library that replaces the C library's clock is loaded into both processes, also into the
//! worker process, whose environment is empty: a file system of their own, in a mount namespace,
//! has an `/etc/ld.so.preload`. The host's clock and files are not touched.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

use testkit::directory::Directory;

use crate::program::run;

const SOURCE: &str = r#"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *seconds;

/* Before main, and so before the sandbox, in which no file can be opened. */
__attribute__((constructor)) static void begin(void) {
    int file = open(CLOCK, O_RDONLY | O_CLOEXEC);
    void *map = mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) seconds = map;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (result == 0 && is_wall && seconds) time->tv_sec += *seconds;
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}
"#;

/// Begins a program with that `/etc`, whose upper folder is `$0`.
const SHELL: &str = "mount -t overlay overlay -o lowerdir=\"$0\":/etc /etc && exec \"$@\"";

#[derive(Debug)]
pub struct Clock {
    folder: Directory,
    seconds: File,
}

impl Clock {
    /// Makes a clock that shows the host's time. The error says why this host cannot have one.
    pub fn prepare() -> Result<Self, String> {
        let folder = Directory::new();
        let path = folder.write("clock", [0; 8]);
        let source = folder.write("clock.c", SOURCE);
        let library = folder.join("clock.so");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]);
        let built = run(compiler.arg(&library).arg(format!("-DCLOCK={path:?}")).arg(source));
        if !built.status.success() {
            return Err(built.stderr);
        }
        folder.write("etc/ld.so.preload", format!("{}\n", library.display()));
        let seconds = File::options().write(true).open(path);
        let clock = Self { folder, seconds: seconds.expect("our own file") };
        clock.set(86_400 * 400);
        let words = clock.words();
        let shown = run(Command::new(&words[0]).args(&words[1..]).args(["date", "+%s"]));
        clock.set(0);
        let host = run(Command::new("date").arg("+%s")).success();
        let second = |text: &str| text.trim().parse::<i64>().unwrap_or(0);
        if second(&shown.stdout) - second(&host) > 86_400 * 399 {
            Ok(clock)
        } else {
            Err(shown.stderr.trim().to_owned())
        }
    }

    /// Returns a command whose program sees this clock; arguments may follow.
    pub fn command(&self, program: &Command) -> Command {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program.get_program());
        command
    }

    /// Returns the first words of a command whose programs see this clock.
    pub fn words(&self) -> Vec<OsString> {
        let words = ["unshare", "--mount", "--propagation", "private"];
        let words = words.iter().chain(&["sh", "-c", SHELL]);
        let mut words: Vec<OsString> = words.map(OsString::from).collect();
        words.push(self.folder.join("etc").into());
        words
    }

    /// Sets the clock to the host's time plus this number of seconds.
    pub fn set(&self, seconds: i64) {
        let written = self.seconds.write_all_at(&seconds.to_ne_bytes(), 0);
        written.expect("our own file");
    }
}
