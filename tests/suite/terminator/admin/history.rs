//! `/history`: the counts of each of the last seconds.

use suite::prelude::*;

fn history(lariat: &Lariat, question: &str) -> Vec<Value> {
    let url = format!("http://{}/history{question}", lariat.admin());
    let answer: Value = serde_json::from_str(&curl().url(&url).run().success()).unwrap();
    answer["intervals"].as_array().unwrap().clone()
}

/// Adds a count over the intervals; the pointer names it with its labels.
fn sum(intervals: &[Value], pointer: &str) -> u64 {
    let counts = intervals.iter().filter_map(|one| one["metrics"].pointer(pointer)?.as_u64());
    counts.sum()
}

#[test]
fn it_adds_up_to_what_was_counted_and_keeps_each_peak() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let web = Service::new(&site, &server);
    let other = Service::new(&site, &server).named("other");
    let lariat = Lariat::start(&[web.toml(), other.toml()].join("\n"));
    // Events before the first interval belong to none.
    until("an interval", || history(&lariat, "").pop());
    let held: Vec<_> = (0..7).map(|_| Client::new(&site).echo(web.address)).collect();
    drop(held);
    drop(Client::new(&site).echo(other.address));
    lariat.wait_for_metric("lariat_connections_ended_total", &[], 8.0);
    let all = until("all connections", || {
        let all = history(&lariat, "");
        (sum(&all, "/connections_accepted") == 8 && sum(&all, "/handshakes/full/TLSv1.3") == 8)
            .then_some(all)
    });
    assert!(sum(&all, "/relayed_bytes/client-to-backend") >= 8);
    let ends: Vec<_> = all.iter().map(|one| one["end_ms"].as_u64().unwrap()).collect();
    assert!(ends.is_sorted(), "{ends:?}");
    let of_web = history(&lariat, "?service=web");
    assert_eq!(sum(&of_web, "/connections_accepted"), 7);
    let peaks = of_web.iter().filter_map(|one| one["metrics"]["connections_open"].as_u64());
    assert_eq!(peaks.max(), Some(7));
    let of_other = history(&lariat, "?service=other");
    assert_eq!(sum(&of_other, "/connections_accepted"), 1);
    assert_eq!(sum(&history(&lariat, "?service=nobody"), "/connections_accepted"), 0);
    let last = ends[ends.len() - 2];
    let later = history(&lariat, &format!("?service=web&after={last}"));
    assert!(later.iter().all(|one| one["end_ms"].as_u64() > Some(last)));
    assert!(later.len() < history(&lariat, "").len());
}

#[test]
fn a_question_that_cannot_be_read_is_refused() {
    let (_site, _server, _service, lariat) = serve(Behaviour::Echo);
    for wrong in ["after=yesterday", "after=-1"] {
        let url = format!("http://{}/history?{wrong}", lariat.admin());
        let answer = curl().url(&url).args(&["--include"]).run();
        assert_has(&answer.stdout, "HTTP/1.1 400 ");
    }
}

#[test]
fn the_document_says_since_when_a_server_is_as_it_is() {
    let (_site, server, _service, lariat) = serve(Behaviour::Echo);
    let state = || {
        let status = lariat.status();
        let server = &status["services"][0]["servers"][0];
        let since = server["since_ms"].as_u64()?;
        Some((server["state"].as_str().unwrap().to_owned(), since))
    };
    let (up, at_start) = until("the time", state);
    assert_eq!(up, "up");
    let name = format!("web/{}", server.address());
    lariat.ask_with("server", &["disable", &name]).success();
    let down = until("the change", || state().filter(|(state, _)| state == "down"));
    until("the time of the change", || state().filter(|(_, since)| *since > at_start));
    assert_eq!(down.0, "down");
}
