//! Load balancers ask whether the process lives (`/healthz`), and whether it takes clients
//! (`/ready`), which it goes on doing for a while when a drain is asked for.

use suite::prelude::*;

/// Returns the status code and the body at that path.
fn asked(admin: SocketAddr, path: &str) -> (String, String) {
    let url = format!("http://{admin}{path}");
    let format = ["--no-fail", "--write-out", "%{http_code}"];
    let answer = curl().args(&format).url(&url).run();
    let body = answer.stdout.trim_end().to_owned();
    let code = body.len().saturating_sub(3);
    let (body, code) = body.split_at(code);
    (code.to_owned(), body.trim_end().to_owned())
}

fn answer(code: &str, body: &str) -> (String, String) {
    (code.to_owned(), body.to_owned())
}

#[test]
fn a_drain_is_announced_before_connections_are_refused() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    // Long enough for a loaded host; nothing waits for its end.
    let text = |delay| format!("[process]\ndrain-delay = '{delay}'\n{}", service.toml());
    let mut lariat = Lariat::start(&text("1h"));
    let admin = lariat.admin();
    assert_eq!(asked(admin, "/healthz"), answer("200", "healthy"));
    assert_eq!(asked(admin, "/ready"), answer("200", "ready"));
    lariat.signal(Signal::TERM);
    until_true("/ready to say no", || asked(admin, "/ready") == answer("503", "draining"));
    assert_eq!(asked(admin, "/healthz"), answer("200", "healthy"));
    assert_eq!(lariat.status()["process"]["state"], "draining");
    let mut connection = Client::new(&site).connect(service.address);
    connection.send(b"a");
    assert_eq!(connection.receive(1), b"a", "it still serves");
    assert_eq!(lariat.reload().code(), 5, "and takes no configuration");
    // An operator who cannot wait asks again.
    lariat.stop();
}

#[test]
fn connections_are_refused_when_the_delay_is_over() {
    let (site, _server, service, mut lariat) =
        serve_with("[process]\ndrain-delay = '300ms'", Behaviour::Echo);
    let mut connection = Client::new(&site).echo(service.address);
    lariat.signal(Signal::TERM);
    lariat.wait_for_stderr(
        "notice: a drain begins in 300ms: /ready answers 503, ports stay open until then",
    );
    until("the listener to close", || TcpStream::connect(service.address).err());
    assert_eq!(asked(lariat.admin(), "/ready"), answer("503", "draining"));
    connection.echo();
    connection.end();
    lariat.assert_ends();
}

/// Returns how many worker threads the worker process has.
fn worker_threads(lariat: &Lariat) -> usize {
    let tasks = format!("/proc/{}/task", lariat.worker_process().as_raw_nonzero());
    let tasks = fs::read_dir(tasks).unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("worker-")).count()
}

#[test]
fn a_worker_thread_that_has_drained_is_not_missed() {
    let (site, _server, service, mut lariat) =
        serve_with("[workers]\nthreads = 2\n[process]\ndrain = '1h'", Behaviour::Echo);
    let mut connection = Client::new(&site).echo(service.address);
    assert_eq!(worker_threads(&lariat), 2);
    lariat.signal(Signal::TERM);
    until_true("the thread without a connection to end", || worker_threads(&lariat) == 1);
    for _ in 0..2 {
        let healthy = answer("200", "healthy");
        assert_eq!(asked(lariat.admin(), "/healthz"), healthy);
    }
    connection.end();
    lariat.assert_ends();
}

#[test]
fn a_worker_process_that_stands_still_gives_no_answer() {
    let (_site, _server, _service, lariat) = serve(Behaviour::Echo);
    let url = format!("http://{}/healthz", lariat.admin());
    kill_process(lariat.worker_process(), Signal::STOP).unwrap();
    let asked = curl().args(&["--max-time", "1"]).url(&url).run();
    assert_eq!(asked.code(), 28, "curl's time was over: {asked:?}");
    let status = lariat.ask("status");
    assert_eq!(status.code(), 1, "{status:?}");
    let supervisor = lariat.supervisor().as_raw_nonzero();
    status.assert_stderr(&format!("its supervisor is process {supervisor}, "));
    let pid = lariat.worker_process().as_raw_nonzero();
    let missed = format!("error: the worker process (pid {pid}) has not answered for ");
    lariat.wait_for_stderr(&missed);
    kill_process(lariat.worker_process(), Signal::CONT).unwrap();
    assert_eq!(curl().url(&url).run().success(), "healthy\n");
    let again = format!("notice: the worker process (pid {pid}) answers again, after ");
    lariat.wait_for_stderr(&again);
    assert_eq!(lariat.stderr().matches(&missed).count(), 1);
}

#[test]
fn balancers_without_a_token_or_a_host_are_answered_and_see_nothing_else() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let token = site.write("token", "correct-horse-battery");
    let service = Service::new(&site, &server);
    let lariat = service.start();
    let text = fs_text(&lariat).replace("[log]", &format!("token = {token:?}\n[log]"));
    fs::write(lariat.configuration(), text).unwrap();
    lariat.reload().success();
    let admin = lariat.admin();
    let get = |path: &str, more: &[&str]| {
        let url = format!("http://{admin}{path}");
        curl().args(more).url(&url).run()
    };
    assert_eq!(get("/status", &[]).code(), 22, "401");
    for path in ["/healthz", "/ready"] {
        get(path, &[]).success();
        get(path, &["--http1.0", "--header", "Host:"]).success();
        get(path, &["--head"]).success();
        assert_eq!(get(path, &["--data", "x"]).code(), 22, "405");
    }
}

fn fs_text(lariat: &Lariat) -> String {
    fs::read_to_string(lariat.configuration()).unwrap()
}

#[test]
fn a_worker_process_that_dies_again_and_again_is_started_later_and_later_and_not_given_up() {
    let (site, _server, service, lariat) = serve(Behaviour::Echo);
    let ready = || asked(lariat.admin(), "/ready");
    assert_eq!(ready(), answer("200", "ready"));
    // More than ten deaths within a minute.
    for deaths in 1..=11 {
        lariat.kill_worker_process();
        let restarts = f64::from(deaths);
        lariat.wait_for_metric("lariat_worker_process_restarts_total", &[], restarts);
    }
    for pause in ["50ms", "100ms", "1.6s", "5s"] {
        lariat.wait_for_stderr_times(&format!("the next one is started in {pause}\n"), 1);
    }
    lariat.wait_for_stderr("8 worker processes died one after the other, the last so: signal: 9");
    let words = "worker processes died one after the other until a minute ago";
    assert_eq!(ready(), answer("503", words));
    assert_has(lariat.ask("status").success(), "NOT READY: 11 worker");
    // The host serves nevertheless, because there is no other process.
    Client::new(&site).visit(service.address);
}
