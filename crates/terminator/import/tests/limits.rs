//! Files that no person wrote take no more time or memory than others; a fault is reported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use import::{Import, Predecessor, SourceFiles, import};
use options::Table;

/// Files in memory, and how many were read.
#[derive(Debug, Default)]
struct CountedFiles {
    texts: BTreeMap<PathBuf, String>,
    read: usize,
}

impl SourceFiles for CountedFiles {
    fn read(&mut self, path: &Path) -> Result<String, String> {
        self.read += 1;
        self.texts.get(path).cloned().ok_or_else(|| "no such file".to_owned())
    }

    fn list(&mut self, directory: &Path) -> Result<Vec<PathBuf>, String> {
        let within = self.texts.keys().filter(|path| path.parent() == Some(directory));
        Ok(within.cloned().collect())
    }

    fn exists(&mut self, _: &Path) -> bool {
        true
    }

    fn variable(&mut self, _: &str) -> Option<String> {
        None
    }
}

static NO_KEYS: Table = Table { keys: &[], foreign: || &[], later: &[], help: "" };

fn imported(of: Predecessor, text: &str) -> Import {
    let texts = BTreeMap::from([(PathBuf::from("/f"), text.to_owned())]);
    import(of, &["/f".into()], &mut CountedFiles { texts, read: 0 }, &NO_KEYS)
}

/// Returns the report, which must be short and show a fault.
fn fault(import: &Import) -> String {
    assert!(import.is_faulty());
    import.report().lines().filter(|line| line.contains(": error: ")).collect()
}

#[test]
fn variables_that_double_fill_no_memory() {
    let line = |number| format!(" setenv A{} \"${{A{number}}}${{A{number}}}\"\n", number + 1);
    let lines: String = (0..22).map(line).collect();
    let import = imported(Predecessor::Haproxy, &format!("global\n setenv A0 12345678\n{lines}"));
    // The bytes double in each line from 3 on: 16, 32, and so on up to 8 MiB together.
    let words = "/f:22: syntax: error: variables make more than 8 MiB";
    assert!(fault(&import).starts_with(words), "{}", fault(&import));
}

#[test]
fn a_line_has_as_many_words_as_haproxy_takes() {
    let text = |words| format!("frontend f\n bind :1\n acl{}\n", " a".repeat(words));
    assert!(!imported(Predecessor::Haproxy, &text(63)).report().contains("more than 64 words"));
    let import = imported(Predecessor::Haproxy, &text(64));
    assert!(fault(&import).contains("/f:3: syntax: error: a line has more than 64 words"));
}

#[test]
fn files_that_include_their_folder_are_counted() {
    for (of, text) in
        [(Predecessor::Stunnel, "include = /d\n"), (Predecessor::Nginx, "include /d/*;\n")]
    {
        // Including an open file fails at once; the paths through eight files are 109,600.
        let names = (0..8).map(|number| PathBuf::from(format!("/d/{number}.conf")));
        let texts = names.map(|name| (name, text.to_owned())).collect();
        let mut files = CountedFiles { texts, read: 0 };
        let import = import(of, &["/d/0.conf".into()], &mut files, &NO_KEYS);
        assert!(files.read <= 4096, "{of}: {}", files.read);
        assert!(fault(&import).contains("more than 4096 files"), "{of}");
    }
}

/// Returns a file of HAProxy with that many sections and these lines in `defaults`.
fn with_defaults(sections: usize, defaults: &str) -> String {
    let section = |number| format!("listen s{number}\n bind :{}\n server a h:1\n", number + 1);
    format!("defaults\n{defaults}{}", (0..sections).map(section).collect::<String>())
}

#[test]
fn an_option_that_defaults_repeat_counts_once() {
    let import = imported(
        Predecessor::Haproxy,
        &with_defaults(200, &" timeout client 9s\n option tcplog\n".repeat(5000)),
    );
    assert!(!import.is_faulty(), "{}", fault(&import));
    let report = import.report();
    assert!(report.contains("/f:2: timeout: mapped: without effect: another option is used"));
    assert!(report.contains("/f:10000: timeout client: mapped: service.timeouts.idle"));
    assert_eq!(import.toml().matches("# /f:10000").count(), 400);
}

#[test]
fn lines_of_a_frontend_are_no_options_of_each_service() {
    let rule = |n| format!(" acl a{n} ssl_fc_sni n{n}.example\n use_backend b{n} if a{n}\n");
    let section = |n| format!("backend b{n}\n server a h:1\n");
    let rules: String = (0..800).map(rule).collect();
    let sections: String = (0..800).map(section).collect();
    let text = format!("frontend f\n bind :1 ssl crt /a\n{rules}{sections}");
    let import = imported(Predecessor::Haproxy, &text);
    assert!(!import.is_faulty(), "{}", fault(&import));
    assert_eq!(import.toml().matches("[[service]]").count(), 800);
}

#[test]
fn options_are_counted_for_each_service() {
    let import =
        imported(Predecessor::Haproxy, &with_defaults(300, &" tcp-check send x\n".repeat(5000)));
    assert!(fault(&import).contains("more than 1048576 options"), "{}", fault(&import));
    let defaults = "options = NO_SSLv3\n".repeat(5000);
    let section = |number| format!("[{number}]\naccept = 1\nconnect = 2\ncert = /a\n");
    let sections: String = (0..300).map(section).collect();
    let import = imported(Predecessor::Stunnel, &(defaults + &sections));
    assert!(fault(&import).contains("more than 1048576 options"), "{}", fault(&import));
    let server = "server { listen 1; proxy_pass a:1; }\n".repeat(300);
    let text = format!("stream {{ {} {server} }}", "access_log /a;\n".repeat(5000));
    let import = imported(Predecessor::Nginx, &text);
    assert!(fault(&import).contains("more than 1048576 options"), "{}", fault(&import));
    let frontends = "frontend = \"[*]:1\"\n".repeat(300);
    let text = format!("pem-file = \"/a\"\n{}{frontends}", "backend = \"[a]:1\"\n".repeat(5000));
    let import = imported(Predecessor::Hitch, &text);
    assert!(fault(&import).contains("more than 1048576 options"), "{}", fault(&import));
}

#[test]
fn services_of_one_name_are_numbered() {
    let section = |_| "[a]\naccept = 1\nconnect = 2\ncert = /a\n";
    let import = imported(Predecessor::Stunnel, &(0..500).map(section).collect::<String>());
    let toml = import.toml();
    assert!(toml.contains("\"a\"") && toml.contains("\"a-2\"") && toml.contains("\"a-500\""));
    assert!(!toml.contains("\"a-501\""));
}
