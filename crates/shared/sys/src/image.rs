//! Replaces this process's program by another one (execve(2)), at once, or when this one crashes or
//! hangs.

use std::ffi::{CString, OsString, c_char, c_int};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};

use crate::checked;

/// A program with its arguments and environment, and one descriptor that stays open in it, like all
/// that are not close-on-exec.
///
/// The process keeps its pid, children, working directory, signal mask and pending signals.
#[derive(Debug)]
pub struct NextImage {
    program: OwnedFd,
    kept: OwnedFd,
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl NextImage {
    /// # Errors
    /// Fails if a text contains a NUL.
    pub fn new(
        program: OwnedFd,
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        kept: OwnedFd,
    ) -> io::Result<Self> {
        let text = |text: OsString| CString::new(text.into_vec());
        let environment = environment.into_iter().map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            text(name)
        });
        Ok(Self {
            path: CString::new(format!("/proc/self/fd/{}", program.as_raw_fd()))?,
            arguments: arguments.into_iter().map(text).collect::<Result<_, _>>()?,
            environment: environment.collect::<Result<_, _>>()?,
            program,
            kept,
        })
    }

    /// Executes the program. Returns only on failure, with the reason; then nothing has changed.
    ///
    /// Must be called by the process's first thread: all other threads end.
    pub fn start(&self) -> io::Error {
        let (argv, envp) = (pointers(&self.arguments), pointers(&self.environment));
        if let Err(error) = fcntl_setfd(&self.kept, FdFlags::empty()) {
            return error.into();
        }
        // SAFETY: the path and each text end with a NUL and live during the call, and each list
        // ends with a null pointer.
        unsafe { libc::execve(self.path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
        let error = io::Error::last_os_error();
        // Programs started later must not inherit it. It was open a moment ago.
        let _ = fcntl_setfd(&self.kept, FdFlags::CLOEXEC);
        error
    }
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|one| one.as_ptr()).chain([null()]).collect()
}

/// Signals of a crash, and SIGALRM, which marks a hang.
const CRASHES: [c_int; 7] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGALRM,
];

/// Everything that the handler reads. It is never freed, because a thread may crash at any time.
struct CrashReturn {
    path: *const c_char,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    kept: RawFd,
    /// The first thread: if another one executed the program, the kernel would kill children whose
    /// parent is the first thread (`PR_SET_PDEATHSIG`).
    thread: libc::pid_t,
    mask: libc::sigset_t,
}

static ARMED: AtomicPtr<CrashReturn> = AtomicPtr::new(null_mut());

/// Guard: while it lives, the process executes another program when it crashes or hangs.
#[derive(Debug)]
pub struct Fallback {
    _handlers: Handlers,
    kept: OwnedFd,
    _program: OwnedFd,
}

/// Previous actions for those signals.
struct Handlers(Vec<libc::sigaction>);

impl Fallback {
    /// Must be called by the process's first thread, with the signal mask that the other program
    /// needs. A process that still holds the guard after `time_max` counts as hanging.
    ///
    /// # Errors
    /// Fails if a signal cannot be handled.
    pub fn new(image: NextImage, time_max: Duration) -> io::Result<Self> {
        let NextImage { program, kept, path, arguments, environment } = image;
        // Leaked: a process does this once or twice in its life.
        let texts = |texts: Vec<CString>| pointers(Vec::leak(texts));
        let mut mask = MaybeUninit::uninit();
        // SAFETY: it writes the mask that is in force, and changes none.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, null(), mask.as_mut_ptr()) };
        let armed = CrashReturn {
            path: path.into_raw(),
            argv: texts(arguments),
            envp: texts(environment),
            kept: kept.as_raw_fd(),
            // SAFETY: it reads a number.
            thread: unsafe { libc::gettid() },
            // SAFETY: the call above has written it, and cannot fail.
            mask: unsafe { mask.assume_init() },
        };
        ARMED.store(Box::leak(Box::new(armed)), Ordering::Release);
        let mut handlers = Handlers(Vec::new());
        for signal in CRASHES {
            // SAFETY: all zeros is an action without flags and with an empty mask.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            let handler: extern "C" fn(c_int) = fall_back;
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_NODEFER | libc::SA_ONSTACK;
            let mut before = action;
            // SAFETY: both live during the call, and the handler does only what one may do.
            checked(unsafe { libc::sigaction(signal, &action, &mut before) })?;
            handlers.0.push(before);
        }
        let seconds = u32::try_from(time_max.as_secs()).unwrap_or(u32::MAX);
        // SAFETY: the signal that comes of it is handled.
        unsafe { libc::alarm(seconds) };
        Ok(Self { _handlers: handlers, kept, _program: program })
    }

    /// Disarms it, and returns the descriptor that the other program would have kept open.
    pub fn into_kept(self) -> OwnedFd {
        self.kept
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        // SAFETY: no signal comes of it.
        unsafe { libc::alarm(0) };
        for (signal, before) in CRASHES.iter().zip(&self.0) {
            // SAFETY: this action was in force before ours.
            unsafe { libc::sigaction(*signal, before, null_mut()) };
        }
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handlers")
    }
}

/// Executes the other program. All calls here are async-signal-safe (signal-safety(7)).
extern "C" fn fall_back(signal: c_int) {
    // SAFETY: what is armed is never freed, and lives before the handler is installed. The calls
    // read nothing else: the path and the lists are as execve(2) wants them.
    unsafe {
        let armed = &*ARMED.load(Ordering::Acquire);
        if libc::gettid() == armed.thread {
            libc::alarm(0);
            // A pending alarm would kill the other program.
            libc::signal(libc::SIGALRM, libc::SIG_IGN);
            libc::fcntl(armed.kept, libc::F_SETFD, 0);
            libc::pthread_sigmask(libc::SIG_SETMASK, &armed.mask, null_mut());
            libc::execve(armed.path, armed.argv.as_ptr(), armed.envp.as_ptr());
        } else {
            // The first thread does it, unless this is a forked child before its exec.
            let (own, first) = (libc::getpid(), armed.thread);
            while libc::syscall(libc::SYS_tgkill, own, first, libc::SIGALRM) == 0 {
                libc::pause();
            }
        }
        // The process dies of the signal, as it would have without the handler.
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
