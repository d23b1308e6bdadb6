//! What is said of experiments: as text, compared with files (`BLESS=1` writes them anew), and by
//! what must be in it.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

mod experiments;
mod tags;

use measure::experiment::{Event, Experiment, Figure, Reading};
use measure::ratio::Ratio;
use report::experiment::compared::{self, Named};
use report::experiment::{csv, drawings, page, summary};
use tags::{assert_numbers, assert_whole};

/// The text of a file beside the tests, written anew if that is asked for.
fn kept(name: &str, text: &str) -> String {
    let path = format!("{}/tests/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    std::fs::read_to_string(&path).unwrap()
}

fn compare(name: &str, text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
        assert_eq!(line, line.trim_end());
    }
    assert_eq!(text, kept(&format!("text/{name}.txt"), text), "{name}");
}

fn named<'e>(name: &'e str, experiment: &'e Experiment) -> Named<'e> {
    Named { name, experiment }
}

/// The record that is kept: a file of an older day that this build must still read.
fn stored() -> Experiment {
    let lines: Vec<String> = experiments::events().iter().map(Event::to_line).collect();
    let text = kept("records/experiment.jsonl", &(lines.join("\n") + "\n"));
    Experiment::parse(&text).unwrap()
}

#[test]
fn a_stored_record_is_told() {
    assert_eq!(stored(), experiments::whole());
    compare("experiment", &summary::text(&stored(), 80, false));
}

#[test]
fn a_record_that_was_joined_to_itself_counts_once() {
    let whole = experiments::whole();
    let path = format!(
        "{}/tests/records/experiment.jsonl",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    let joined = Experiment::parse(&(text.clone() + &text)).unwrap();
    let told = summary::text(&joined, 80, false);
    assert!(
        told.contains("143 of 150 readings, 7 missed; 143"),
        "{told}"
    );
    let once = Experiment {
        doubled: 0,
        ..joined
    };
    assert_eq!(once, whole);
}

#[test]
fn a_run_that_was_stopped_at_once_is_told() {
    let text = summary::text(&experiments::unread(), 80, false);
    assert!(text.starts_with("Nothing can be compared"), "{text}");
    assert!(text.contains("0 of 150 readings"), "{text}");
    assert!(text.contains("not complete: it was stopped"), "{text}");
}

#[test]
fn one_round_proves_nothing() {
    let text = summary::text(&experiments::one_round(), 80, false);
    assert!(
        text.starts_with("Nobody is ahead: every comparison (27) has"),
        "{text}"
    );
    assert!(text.contains("? 2.3") && !text.contains("▲ 0.9"), "{text}");
}

/// Two rounds have an interval, but so wide that what it leaves open is no finding.
#[test]
fn two_rounds_are_not_level() {
    let mut experiment = experiments::whole();
    experiment.readings.retain(|reading| reading.repeat < 2);
    let text = summary::text(&experiment, 80, false);
    assert!(
        text.starts_with("Nobody is ahead: every comparison (27)"),
        "{text}"
    );
    assert!(!text.contains("≈ 1."), "{text}");
    assert!(!text.contains("Level: no difference"), "{text}");
}

/// Of a scenario alone, with its readings changed.
fn only(name: &str, change: impl Fn(&mut Reading)) -> Experiment {
    let mut experiment = experiments::whole();
    experiment.plan.scenarios.retain(|it| it.name == name);
    experiment.readings.retain(|it| it.scenario == name);
    experiment.misses.retain(|it| it.scenario == name);
    experiment.readings.iter_mut().for_each(change);
    experiment
}

fn told(experiment: &Experiment) -> String {
    let text = summary::text(experiment, 80, false);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Nothing is a multiple of no loss at all, which is as far ahead as can be.
#[test]
fn no_loss_against_some_is_told_in_points() {
    let mut experiment = only("ciphers", |reading| {
        let is_ours = reading.cell.contains("lariat");
        let failed = if is_ours {
            0
        } else {
            400 + u64::from(reading.repeat)
        };
        reading.counts.attempted = 1000;
        reading.counts.failed = failed;
        reading.counts.succeeded = 1000 - failed;
    });
    experiment.plan.scenarios[0].figures = vec![Figure::Loss];
    let text = told(&experiment);
    let all = "in 0 no difference is established; in 7 lariat is ahead";
    assert!(text.contains(all), "{text}");
    let cell = "AES-128-GCM: 40.1 % against 0 % (+40 to +40 points)";
    assert!(text.contains(cell), "{text}");
    assert!(text.contains("▽ +40 points (+40 to +40)"), "{text}");
}

#[test]
fn rates_of_idle_servers_are_not_counted() {
    let idle = only("connections", |reading| reading.noise.server_busy = 0.84);
    let text = told(&idle);
    assert!(
        text.starts_with("Nobody is ahead: every comparison (4) is of a figure"),
        "{text}"
    );
    assert!(text.contains("○ 1.12×"), "{text}");
    assert!(
        text.contains("not counted: ○ closed loads in which"),
        "{text}"
    );
    // CPU time is the server's own.
    let cpu = "Further figures: where a target is ahead connections, server CPU a request";
    assert!(text.contains(cpu), "{text}");
    let busy = only("connections", |reading| reading.noise.server_busy = 0.86);
    assert!(
        told(&busy).starts_with("Targets are ahead of lariat in 4 of 4"),
        "{text}"
    );
}

#[test]
fn rates_of_shared_cpus_are_no_gain() {
    let shared = only("connections", |reading| {
        reading.noise.server_busy = 1.0;
        reading.noise.is_shared = reading.cell.contains("resumption=off");
    });
    let text = told(&shared);
    assert!(
        text.starts_with("Targets are ahead of lariat in 2 of 2"),
        "{text}"
    );
    assert!(!text.contains("as a multiple of that at on"), "{text}");
    let apart = only("connections", |_| {});
    assert!(told(&apart).contains("as a multiple of that at on"));
}

#[test]
fn rounds_with_other_work_are_left_out() {
    let noisy = only("ciphers", |reading| {
        if reading.repeat == 0 && reading.cell.contains("haproxy") {
            reading.noise.foreign = 0.21;
            reading.server_cpu_ns *= 9;
        }
    });
    let text = told(&noisy);
    assert!(
        text.contains("Not judged, with fewer than 3 rounds: 3"),
        "{text}"
    );
    assert!(
        text.contains("3 of 30 readings are left out of all judgements"),
        "{text}"
    );
    assert!(text.contains("? 0.90×"), "{text}");
    let all = only("ciphers", |reading| reading.noise.foreign = 0.21);
    let text = told(&all);
    assert!(
        text.starts_with("Nobody is ahead: every comparison (7) has fewer"),
        "{text}"
    );
}

/// Who answers by itself does less than who relays.
#[test]
fn who_relays_nothing_is_no_rival() {
    let mut experiment = only("ciphers", |_| {});
    let haproxy = experiment.plan.targets.iter_mut();
    for target in haproxy.filter(|target| target.name == "haproxy-tcp") {
        target.serves = "itself".to_owned();
    }
    let text = told(&experiment);
    assert!(
        text.contains("haproxy-tcp answers itself, and relays nothing"),
        "{text}"
    );
    assert!(
        !text.contains("▲") || text.find('▲') > text.find("signs"),
        "{text}"
    );
    assert!(text.contains("0.90× (0.88 to 0.92)"), "{text}");
}

/// As its source printed it: kB of 1000 bytes a second, though it is not the main figure.
#[test]
fn a_large_file_has_its_speed_in_the_source_s_form() {
    let mut experiment = only("big-file", |_| {});
    experiment.plan.scenarios[0].figures = vec![Figure::ServerCpuPerGib, Figure::Bandwidth];
    let heads = "N min max median mean stddev";
    let text = told(&experiment);
    assert!(text.contains("Bandwidth, kB/s, as ministat(1)"), "{text}");
    assert!(text.contains(heads) && text.contains("1246859"), "{text}");
    let page = page::html(&[experiment]);
    assert!(page.contains("Bandwidth, kB/s, as ministat(1)") && page.contains("1246859"));
}

#[test]
fn two_runs_are_compared() {
    let (a, b) = (stored(), experiments::elsewhere());
    let text = compared::text(named("kvm", &a), named("xen", &b), 80, false);
    compare("experiments-compared", &text);
}

#[test]
fn a_run_compared_with_itself_has_not_changed() {
    let a = stored();
    let text = compared::text(named("a", &a), named("a", &a), 80, false);
    assert!(text.contains("B is better in 0 and worse in 0"), "{text}");
    let unread = experiments::unread();
    assert_eq!(
        compared::cells_in_common(named("a", &a), named("b", &unread)),
        0
    );
    let other = experiments::elsewhere();
    assert!(compared::cells_in_common(named("a", &a), named("b", &other)) > 30);
}

#[test]
fn every_page_is_whole_and_needs_nothing_else() {
    let (whole, hostile) = (stored(), experiments::hostile());
    let pages = [
        ("whole", page::html(std::slice::from_ref(&whole))),
        ("unread", page::html(&[experiments::unread()])),
        ("hostile", page::html(std::slice::from_ref(&hostile))),
        ("two", page::html(&[stored(), experiments::elsewhere()])),
        ("none", page::html(&[])),
        (
            "compared",
            compared::html(named("a", &whole), named("<b>", &hostile)),
        ),
    ];
    for (name, page) in pages {
        assert_whole(name, &page);
        assert_numbers(name, &page);
        assert!(!page.contains("<script"), "{name}");
        assert!(
            !page.contains(|c: char| c.is_control() && c != '\n'),
            "{name}"
        );
        assert!(!page.contains('\u{202e}'), "{name}");
    }
}

#[test]
fn terminals_take_no_orders_from_a_record() {
    let hostile = experiments::hostile();
    let is_order = |c: char| c.is_control() && c != '\n';
    let text = summary::text(&hostile, 80, false);
    assert!(
        !text.contains(is_order) && !text.contains('\u{202e}'),
        "{text}"
    );
    let text = compared::text(named("a\u{1b}", &hostile), named("b", &hostile), 80, false);
    assert!(
        !text.contains(is_order) && !text.contains('\u{202e}'),
        "{text}"
    );
}

fn value(page: &str, id: &str) -> f64 {
    let mark = format!("id=\"{id}\" data-value=\"");
    let (_, after) = page.split_once(&mark).unwrap_or_else(|| panic!("no {id}"));
    after.split_once('"').unwrap().0.parse().unwrap()
}

/// The figures of a cell, by repeat.
fn figures(experiment: &Experiment, cell: &str, figure: Figure) -> Vec<f64> {
    let readings = experiment.readings_of("implementations", cell);
    readings
        .map(|reading| figure.of(reading).unwrap())
        .collect()
}

#[test]
fn the_page_has_the_record_s_numbers() {
    let experiment = stored();
    let page = page::html(std::slice::from_ref(&experiment));
    let mut ours = figures(&experiment, "target=lariat", Figure::ServerCpu);
    let theirs = figures(&experiment, "target=stunnel", Figure::ServerCpu);
    let pairs: Vec<_> = theirs.iter().copied().zip(ours.iter().copied()).collect();
    let ratio = Ratio::of_pairs(&pairs).unwrap().ratio;
    let shown = value(&page, "e1-implementations-stunnel-server-cpu-ratio");
    assert!((shown - ratio).abs() < 1e-12, "{shown} {ratio}");
    ours.sort_by(f64::total_cmp);
    assert_eq!(
        value(&page, "e1-implementations-lariat-server-cpu"),
        ours[1]
    );
}

#[test]
fn a_page_begins_with_where_a_target_is_ahead() {
    let page = page::html(&[stored()]);
    let (_, body) = page.split_once("</head>").unwrap();
    let place = |text: &str| body.find(text).unwrap_or_else(|| panic!("no {text}"));
    let ahead = place("Where a target is ahead");
    let alone = place("Where a target is ahead by its own interval alone");
    assert!(place("A target is ahead of lariat in 1 of 26") < ahead && ahead < alone);
    assert!(alone < place("Level: no difference"));
    assert!(ahead < place("Level: no difference"));
    assert!(place("Level: no difference") < place("Where lariat is ahead"));
    assert!(place("Where lariat is ahead") < place("<article"));
    assert!(ahead < place("What lariat has no figure for"));
    // Who does no TLS is no rival.
    assert!(place("Not counted: who does other work: plain does no TLS") < place("<article"));
    assert!(!body[..place("<article")].contains("<b>plain</b>"));
}

#[test]
fn every_reason_stands_in_its_cell() {
    let page = page::html(&[stored()]);
    let cells = [
        ("cannot", "it cannot be told to use one suite"),
        ("void", "negotiated TLS_AES_128_GCM_SHA256 instead"),
        ("missing", "is not installed"),
        ("cannot", "the kernel has no module"),
    ];
    for (way, why) in cells {
        let mut found = page.split("<td class=\"gap\"").skip(1);
        let has = |cell: &str| {
            let (cell, _) = cell.split_once("</td>").unwrap();
            cell.contains(&format!("<i>{way}</i>")) && cell.contains(why)
        };
        assert!(found.any(has), "{way}: {why}");
    }
    assert!(page.contains("1 of 3 repeats failed: it ended by signal 9"));
    assert!(page.contains("<b>Left out: RC4</b>, prohibited by RFC 7465"));
    assert!(page.contains("With RSA 1024, four requests a session."));
}

#[test]
fn figures_fit_what_was_varied() {
    let drawings = drawings::of_experiment(&stored());
    let svg = |name: &str| {
        let mut found = drawings.iter().filter(|drawing| drawing.name == name);
        let drawing = found.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(drawing.svg.starts_with("<svg ") && drawing.svg.contains("prefers-color-scheme"));
        drawing.svg.as_str()
    };
    // Names are bars, numbers lines, a rising load a course.
    let bars = svg("implementations-server-cpu");
    assert_eq!(bars.matches("class=\"bar ").count(), 5, "hitch has none");
    assert!(bars.contains("missing: `hitch` is not installed"));
    assert_eq!(
        svg("ciphers-server-cpu").matches("class=\"bar ").count(),
        10
    );
    let lines = svg("object-sizes-rate");
    assert!(!lines.contains("class=\"bar ") && lines.contains(">64 KiB</text>"));
    assert!(svg("ramp-course-lariat").contains("attempted"));
    assert!(
        !drawings
            .iter()
            .any(|drawing| drawing.name.contains("course-plain"))
    );
}

#[test]
fn sheets_have_a_row_a_figure() {
    let experiment = stored();
    let [cells, readings] = csv::of_experiment(&experiment);
    let rows = |text: &str| text.lines().count() - 1;
    // Cells times figures: 6 × 3, 12 × 2, 20 × 3, 8 × 2, 2 × 5, 4 × 1.
    assert_eq!(rows(&cells.csv), 18 + 24 + 60 + 16 + 10 + 4);
    let columns = cells.csv.lines().next().unwrap().split(',').count();
    let row = cells.csv.lines().nth(1).unwrap();
    assert_eq!(row.split(',').count(), columns, "{row}");
    assert!(
        row.starts_with("implementations,target=lariat,lariat,,server-cpu,3,"),
        "{row}"
    );
    assert!(cells.csv.contains(",ahead,\n") && cells.csv.contains(",behind,\n"));
    assert!(rows(&readings.csv) > experiment.readings.len());
}
