//! The figures of a load for Prometheus, while it runs: its text format over HTTP/1.1.
//!
//! Each request has a thread of its own, so that a silent client holds up nobody; it is cut off.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::view::LoadProgress;

/// A scraper has so long for its request, and for our answer: Prometheus's own `scrape_timeout`.
const PATIENCE: Duration = Duration::from_secs(10);

/// Requests that are answered at once; another connection is closed, because a scraper asks again.
const REQUESTS_MAX: usize = 16;

/// The accept loop rests so long without a descriptor, because the next try would fail at once.
const DESCRIPTOR_PAUSE: Duration = Duration::from_secs(1);

/// The least that a socket can be told to wait.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// Heads of requests are as long at most; Prometheus sends a tenth of it.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Upper ends of the buckets of response times, in seconds.
const BUCKETS_S: [f64; 16] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];

/// Serves the figures that it was shown last, until the program ends.
#[derive(Debug)]
pub(crate) struct MetricsPage {
    pub(crate) address: SocketAddr,
    shown: Arc<Mutex<LoadProgress>>,
}

impl MetricsPage {
    pub(crate) fn open(address: SocketAddr, url: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shown = Arc::<Mutex<LoadProgress>>::default();
        let (seen, url) = (Arc::clone(&shown), url.to_owned());
        named_thread().spawn(move || {
            let running = Arc::new((seen, url));
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    thread::sleep(DESCRIPTOR_PAUSE);
                    continue;
                };
                let page = Arc::clone(&running);
                if Arc::strong_count(&running) <= REQUESTS_MAX + 1 {
                    // A scraper that goes away without an answer, or without a thread, reports it.
                    drop(named_thread().spawn(move || answer(stream, &page.0, &page.1)));
                }
            }
        })?;
        Ok(Self { address, shown })
    }

    pub(crate) fn show(&self, progress: &LoadProgress) {
        let shown = progress.clone();
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }
}

fn named_thread() -> thread::Builder {
    thread::Builder::new().name("metrics".to_owned())
}

fn answer(mut stream: TcpStream, shown: &Mutex<LoadProgress>, url: &str) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let left = || Some(until.saturating_duration_since(Instant::now()).max(LEAST_WAIT));
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if Instant::now() >= until {
            return Ok(());
        }
        stream.set_read_timeout(left())?;
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            _ if head.len() > HEAD_BYTES_MAX => return Ok(()),
            read => head.extend_from_slice(&piece[..read]),
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let (status, body) = match line {
        b"GET /metrics HTTP/1.1" | b"GET /metrics HTTP/1.0" => {
            let progress = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
            ("200 OK", page(&progress, url))
        }
        _ => ("404 Not Found", "The figures are at /metrics.\n".to_owned()),
    };
    // The socket takes a page of this size whole.
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The page (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
fn page(progress: &LoadProgress, url: &str) -> String {
    let mut page = String::new();
    let counts = progress.counts;
    let info = [format!("{{url=\"{}\"}} 1", escaped(url))];
    family(&mut page, "info", "gauge", "The server under load", info);
    for (name, help, count) in [
        ("seconds", "Seconds of load that have been counted", progress.seconds),
        ("attempted", "Transactions that were due", counts.attempted),
        ("succeeded", "Transactions with all that was wanted", counts.succeeded),
    ] {
        family(&mut page, &format!("{name}_total"), "counter", help, [format!(" {count}")]);
    }
    let failed = labelled("reason", &progress.failures);
    family(&mut page, "failed_total", "counter", "Transactions that failed", failed);
    let kinds = progress.handshakes.iter().map(|(kind, count)| (kind.name().to_owned(), *count));
    let made = labelled("kind", &kinds.collect());
    family(&mut page, "handshakes_total", "counter", "Handshakes that were finished", made);
    let open = [format!(" {}", progress.last.open)];
    family(&mut page, "connections", "gauge", "Connections at the last second's end", open);
    let help = "Time from the planned instant to the reply's end, of those that succeeded";
    family(&mut page, "response_seconds", "histogram", help, buckets(progress));
    page
}

fn family(
    page: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    rows: impl IntoIterator<Item = String>,
) {
    // Writing to a string does not fail.
    let _ = write!(page, "# HELP lariat_load_{name} {help}\n# TYPE lariat_load_{name} {kind}\n");
    for row in rows {
        let _ = writeln!(page, "lariat_load_{name}{row}");
    }
}

fn labelled(label: &str, counts: &BTreeMap<String, u64>) -> Vec<String> {
    let row =
        |(value, count): (&String, &u64)| format!("{{{label}=\"{}\"}} {count}", escaped(value));
    counts.iter().map(row).collect()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn buckets(progress: &LoadProgress) -> Vec<String> {
    let (mut below, mut counted) = ([0; BUCKETS_S.len()], progress.total.buckets().peekable());
    let mut sum = 0;
    for (below, end_s) in below.iter_mut().zip(BUCKETS_S) {
        while let Some((_, count)) = counted.next_if(|(ns, _)| *ns as f64 <= end_s * 1.001e9) {
            sum += count;
        }
        *below = sum;
    }
    let all = progress.total.count();
    let ends = BUCKETS_S.map(|end| end.to_string()).into_iter().zip(below);
    let rows = ends.chain([("+Inf".to_owned(), all)]);
    let rows = rows.map(|(end, count)| format!("_bucket{{le=\"{end}\"}} {count}"));
    let sum_s = progress.total.mean_ns() * all as f64 / 1e9;
    rows.chain([format!("_sum {sum_s}"), format!("_count {all}")]).collect()
}

#[cfg(test)]
mod tests {
    use load::run::SecondProgress;
    use measure::choice::Kind;
    use measure::histogram::Histogram;
    use measure::record::LoadSecond;

    use super::*;

    #[test]
    fn a_page_has_the_sums_of_all_seconds() {
        let mut total = Histogram::default();
        [1, 3, 3, 700].into_iter().for_each(|ms| total.record(Duration::from_millis(ms)));
        let second = SecondProgress {
            second: LoadSecond { attempted: 5, succeeded: 4, failed: 1, ..LoadSecond::default() },
            late: 2,
            failures: [("not-tls".to_owned(), 1)].into(),
            handshakes: [(Kind::Full, 1), (Kind::Psk, 3)].into(),
            total,
        };
        let mut progress = LoadProgress::default();
        progress.add(&second);
        progress.add(&second);
        let page = page(&progress, "https://a/\"\\");
        for line in [
            "lariat_load_info{url=\"https://a/\\\"\\\\\"} 1",
            "lariat_load_attempted_total 14",
            "lariat_load_failed_total{reason=\"not-tls\"} 2",
            "lariat_load_handshakes_total{kind=\"psk\"} 6",
            "lariat_load_response_seconds_bucket{le=\"0.0005\"} 0",
            "lariat_load_response_seconds_bucket{le=\"0.001\"} 2",
            "lariat_load_response_seconds_bucket{le=\"0.005\"} 6",
            "lariat_load_response_seconds_bucket{le=\"+Inf\"} 8",
            "lariat_load_response_seconds_count 8",
        ] {
            assert!(page.lines().any(|it| it == line), "{line} in {page}");
        }
    }
}
