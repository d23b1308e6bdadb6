//! `lariat-lab load --requests`: several requests by their weights, each counted.

use std::collections::BTreeMap;

use suite::nginx::Nginx;
use suite::prelude::*;

const MIXTURE: &str = "
[[request]]
path = \"/a\"
weight = 6
[[request]]
path = \"/b?c=d\"
method = \"HEAD\"
weight = 3
header = [\"X-B: c\"]
[[request]]
path = \"/order\"
body-file = \"order.json\"
";

#[test]
fn nginx_has_logged_each_request_as_often_as_the_record_tells() {
    let (site, directory) = (Site::new(), Directory::new());
    directory.write("order.json", "{\"a\": 1}");
    let file = directory.write("mixture.toml", MIXTURE);
    for more in ["--connections 2", "--connections 2 --requests-per-connection 7", "--rate 400"] {
        let nginx = Nginx::terminate(&site.path("site.pem"), "error_page 405 =200 /;");
        let load = Load::alone(nginx.address).args(more).args("--count 400 --requests").arg(&file);
        let loaded = load.run();
        assert_eq!(loaded.finished.code(), 0, "{:?}", loaded.finished);
        loaded.finished.assert_stdout("POST /order");
        let record = loaded.record();
        let mut logged = BTreeMap::<(String, String), u64>::new();
        for line in nginx.end() {
            let request = ["request_method", "request_uri"].map(|name| line.field(name).to_owned());
            *logged.entry(request.into()).or_default() += 1;
        }
        let (mut sum, mut shares) = (0, Vec::new());
        for place in 0..3 {
            let at = |name: &str| record.at(&format!("/plan/requests/{place}/{name}"));
            let text = |name: &str| at(name).as_str().unwrap().to_owned();
            let count = record.number(&format!("/requests/{place}/counts/attempted"));
            assert_eq!(logged.get(&(text("method"), text("path"))), Some(&count), "{more}");
            sum += count;
            shares.push(count);
        }
        assert_eq!(sum, 400, "{more}: {logged:?}");
        // Expected: 240, 120 and 40; four deviations of chance, which the seed repeats.
        let near = |count: u64, wanted: u64| count.abs_diff(wanted) < 40;
        assert!(near(shares[0], 240) && near(shares[1], 120) && near(shares[2], 40), "{shares:?}");
    }
}

#[test]
fn a_list_that_is_wrong_is_refused_line_by_line() {
    let directory = Directory::new();
    let refused = |name: &str, text: &str, words: &[&str]| {
        let file = directory.write(name, text);
        let flags = ["load", "https://127.0.0.1:1/", "--record", "none", "--requests"];
        let answer = run(lab::command().args(flags).arg(file));
        answer.assert_fails(2, words);
    };
    refused("urls.txt", "/a\nhttp//x\n\nhttps://other/\n", &["urls.txt:2: ", "urls.txt:4: "]);
    refused("none.txt", "# nothing\n", &["there is no request in "]);
    let text = "[[request]]\npath = \"/\"\nweight = 0\n";
    refused("zero.toml", text, &["zero.toml:3: request.weight: "]);
    refused("cut.toml", "[[request]]\npath = \"/\n", &["cut.toml:2: "]);
    let beside = directory.write("a.txt", "/a\n");
    let flags = ["load", "https://127.0.0.1:1/b", "--size", "1k", "--requests"];
    let answer = run(lab::command().args(flags).arg(beside));
    answer.assert_fails(2, &["--requests: cannot stand beside --size"]);
}
