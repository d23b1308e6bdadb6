//! The texts of `lariat help`.

use crate::args::Topic;
use crate::exit::Exit;

const PROGRAM: &str = "\
lariat: terminates TLS in front of any TCP service, on all cores

  lariat demo              see it work: no files, no arguments
  lariat serve FILE        serve what a TOML file says
  lariat serve FLAGS       serve one service, from flags alone
  lariat check FILE        check a file, and report all errors in it at once
  lariat status            show connections, handshakes and servers [--json]
  lariat reload            make it read its configuration again
  lariat upgrade           put another process in its place, of the program as installed now
  lariat drain             accept no more, let connections finish, end
  lariat server            take a server out of use for maintenance, or back in
  lariat help COMMAND      more about one of these
  lariat help KEY          what a key of the file, or a flag, means
  lariat completion        complete commands in bash, zsh or fish
  lariat manual            pages for man
  lariat version

Begin with: lariat demo
";

const DEMO: &str = "\
lariat demo: see it work

  lariat demo [--listen ADDRESS] [--admin ADDRESS]

Makes a certificate authority with an ECDSA and an RSA certificate for localhost in a temporary
directory, starts a small server, terminates TLS in front of it, and prints the curl lines that
prove it and the address of the status page. Ctrl-C stops it and removes the directory.

  --listen ADDRESS
      Where TLS is terminated [default: 127.0.0.1:8443]; port 0 takes a free one
  --admin ADDRESS
      Where the status page is [default: 127.0.0.1:8444, or a free port if that is taken]
";

const SERVE: &str = "\
lariat serve: terminate TLS

  lariat serve FILE
  lariat serve --listen ADDRESS --certificate PATH --backend ADDRESS [FLAGS]
  lariat serve --listen ADDRESS --certificate PATH --files PATH [FLAGS]

Every flag stands for a key of the file; docs/reference/configuration.md lists flags and keys.
Lines about connections go to the standard output. SIGHUP or `lariat reload` reads the
configuration again; SIGTERM or `lariat drain` ends it when connections have finished; SIGUSR1
opens the log file again; SIGUSR2 or `lariat upgrade` starts the program again, to take over.

Beside a running one with the same configuration and status socket it takes over: it gets the
listening sockets, the sessions and the keys of tickets, and the other one ends when its
connections have. If it cannot serve, the other one goes on.
";

const CHECK: &str = "\
lariat check: check a configuration

  lariat check FILE [--strict] [--bind] [--host] [--json]
  lariat check -           the same of the standard input
  lariat check FLAGS       those of `lariat serve`

Reports all errors at once, each with its place: reads every file that is named, builds every
certificate with its key, follows chains, and looks at addresses, names, rights of files and
limits. Ends with 0 if `lariat serve` would serve it, else with 2.

  --strict
      Warnings are errors too
  --bind
      Try the addresses as well: whether they are free, and this user may listen there. If that
      alone fails, it ends with 3
  --host
      Show the limits of this host beside what the configuration may come to need, and what to set
  --json
      One JSON document on the standard output: `good`, and `diagnostics` with `severity` (error,
      warning or note), `file`, `line`, `column`, `key`, `message` and `hint`
";

const STATUS: &str = "\
lariat status: show what the running lariat does

  lariat status [--json] [FILE | --status-socket PATH]

Prints tables for people, or with --json the status document, which docs/reference/status.md
describes.
";

const RELOAD: &str = "\
lariat reload: make the running lariat read its configuration again

  lariat reload [--strict] [FILE | --status-socket PATH]

Applies the whole new configuration or keeps the old one; open connections continue either way.
Waits for the outcome: exits with 0 if the new one is served, and prints the warnings about it;
with 5 and the reason if it was refused.

  --strict
      Exit with 6 if there are warnings; the new one is served all the same
";

const UPGRADE: &str = "\
lariat upgrade: put another process in the place of the running lariat

  lariat upgrade [FILE | --status-socket PATH]

The running one starts the program again, by the path and with the arguments that it was started
with: so the version that is installed there now, and the whole configuration. Nobody is refused:
the new process gets the listening sockets, the sessions and the keys of tickets, and the old one
ends when its connections have. Waits for the outcome: exits with 0 if the new one serves; with 5
and the reason if it cannot, and then the old one goes on.
";

const DRAIN: &str = "\
lariat drain: stop the running lariat without cutting connections

  lariat drain [FILE | --status-socket PATH]

It goes on accepting connections for `process.drain-delay`, while /ready answers 503; then it
accepts no more and lets those there are finish, for as long as `process.drain` allows. Waits until
it has ended.
";

const SERVER: &str = "\
lariat server: take a server out of use for maintenance, or back in

  lariat server disable SERVICE/ADDRESS [FILE | --status-socket PATH]
  lariat server enable SERVICE/ADDRESS [FILE | --status-socket PATH]

A disabled server gets no new connections; open ones go on. It stays disabled when the
configuration is read again and when the worker process dies, until it is enabled, leaves the
configuration, or lariat ends; `lariat upgrade` keeps it. `lariat status` lists the servers.

For example: lariat server disable web/10.0.0.3:80
";

const COMPLETION: &str = "\
lariat completion: print the script by which a shell completes commands

  lariat completion bash|zsh|fish

Packages bring them along. Without one, for the user who types this:

  lariat completion bash > ~/.local/share/bash-completion/completions/lariat
  lariat completion zsh > ~/.zfunc/_lariat             # a folder of zsh's $fpath
  lariat completion fish > ~/.config/fish/completions/lariat.fish
";

const MANUAL: &str = "\
lariat manual: print a page of the manual, as man reads it

  lariat manual                    lariat(1), about the commands
  lariat manual lariat.toml        lariat.toml(5), about the configuration file

For example: lariat manual lariat.toml | man -l -
";

const SOCKET: &str = "
FILE is the configuration of the running lariat, which says where its status socket is. Without
it, that is /run/lariat/status.sock for root, else in $XDG_RUNTIME_DIR/lariat/.
";

pub(super) fn text(topic: Topic) -> String {
    match topic {
        Topic::Program => format!("{PROGRAM}\nExit codes:\n{}", exit_codes()),
        Topic::Demo => DEMO.to_owned(),
        Topic::Serve => format!("{SERVE}{}", config::TABLE.flags()),
        Topic::Check => CHECK.to_owned(),
        Topic::Status => format!("{STATUS}{SOCKET}"),
        Topic::Reload => format!("{RELOAD}{SOCKET}"),
        Topic::Upgrade => format!("{UPGRADE}{SOCKET}"),
        Topic::Drain => format!("{DRAIN}{SOCKET}"),
        Topic::Server => format!("{SERVER}{SOCKET}"),
        Topic::Completion => COMPLETION.to_owned(),
        Topic::Manual => MANUAL.to_owned(),
    }
}

/// What each exit code means, a line each.
pub(super) fn exit_codes() -> String {
    let codes = Exit::ALL.map(|exit| format!("  {}  {}\n", exit as u8, exit.help()));
    codes.concat()
}
