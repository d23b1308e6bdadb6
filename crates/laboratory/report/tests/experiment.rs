//! Tests reports of experiments: as text, compared with files (`BLESS=1` rewrites them), and by
//! their required content.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

mod experiments;
mod tags;

use experiments::whole;
use measure::effect::{Effect, EffectScale};
use measure::experiment::{Experiment, Measurement};
use measure::metric::Metric;
use measure::record::LoadSecond;
use report::ReportDocument;
use report::experiment::{compared, configurations_in_common, document};
use tags::{assert_numbers, assert_whole};

/// Returns the text of a file beside the tests, rewritten if requested.
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

#[track_caller]
fn has(text: &str, words: &str) {
    assert!(text.contains(words), "{words}: {text}");
}

#[track_caller]
fn begins(text: &str, words: &str) {
    assert!(text.starts_with(words), "{words}: {text}");
}

fn of(experiment: &Experiment) -> ReportDocument {
    document(&[("run", experiment)], None)
}

#[test]
fn a_stored_record_is_shown() {
    compare("experiment", &of(&whole()).text(80, false));
}

#[test]
fn a_record_that_was_joined_to_itself_counts_once() {
    let joined = Experiment::parse(&experiments::STORED.repeat(2)).unwrap();
    let shown = shown(&joined);
    has(&shown, "143 of 150 measurements, 7 failed; 143");
    let once = Experiment { duplicates: 0, ..joined };
    assert_eq!(once, whole());
}

#[test]
fn a_run_that_was_stopped_at_once_is_shown() {
    let text = of(&experiments::unmeasured()).text(80, false);
    begins(&text, "Nothing can be compared");
    has(&text, "0 of 150 measurements");
    has(&text, "arning: the record has 0 of 150 measurements");
}

#[test]
fn records_that_disagree_are_named() {
    let one = only("implementations", |_| {});
    let stunnel = |times: fn(u64) -> u64| {
        only("implementations", move |it| {
            if it.configuration == "target=stunnel" {
                it.server_cpu_ns = times(it.server_cpu_ns);
            }
        })
    };
    let other = stunnel(|cpu_ns| cpu_ns / 10);
    let text = |other: &Experiment| document(&[("a", &one), ("b", other)], None).text(200, false);
    has(&text(&other), "records disagree: one says better, another says worse of stunnel in");
    let same_sign = text(&stunnel(|cpu_ns| cpu_ns * 10));
    has(&same_sign, "records disagree: their intervals do not overlap for stunnel in");
    assert!(!text(&one).contains("disagree"));
}

#[test]
fn one_round_proves_nothing() {
    let text = of(&experiments::one_round()).text(80, false);
    begins(&text, "Nothing is ranked: every comparison (27) has");
    assert!(text.contains("? 2.3") && !text.contains("▲ 0.9"), "{text}");
}

/// Two rounds have an interval, but it is too wide for a finding.
#[test]
fn two_rounds_establish_no_equality() {
    let mut experiment = whole();
    experiment.measurements.retain(|measurement| measurement.repeat < 2);
    let text = of(&experiment).text(80, false);
    begins(&text, "Nothing is ranked: every comparison (27)");
    assert!(!text.contains("≈ 1."), "{text}");
    assert!(!text.contains("Equal within"), "{text}");
}

/// Returns an experiment of one scenario, with its measurements changed.
fn only(name: &str, change: impl Fn(&mut Measurement)) -> Experiment {
    let mut experiment = whole();
    experiment.plan.scenarios.retain(|it| it.name == name);
    experiment.measurements.retain(|it| it.scenario == name);
    experiment.failures.retain(|it| it.scenario == name);
    experiment.measurements.iter_mut().for_each(change);
    experiment
}

fn shown(experiment: &Experiment) -> String {
    let text = of(experiment).text(80, false);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An error rate of zero has no ratio to another, so the difference is shown.
#[test]
fn no_errors_against_some_are_shown_in_points() {
    let mut experiment = only("ciphers", |measurement| {
        let is_ours = measurement.configuration.contains("lariat");
        let failed = if is_ours { 0 } else { 400 + u64::from(measurement.repeat) };
        measurement.counts.attempted = 1000;
        measurement.counts.failed = failed;
        measurement.counts.succeeded = 1000 - failed;
    });
    experiment.plan.scenarios[0].metrics = vec![Metric::ErrorRate];
    let text = shown(&experiment);
    has(&text, "7 comparisons with lariat, the reference: 0 better");
    has(&text, "0 not known, 7 worse.");
    has(&text, "AES-128-GCM: +40 points (+40 to +40)");
    has(&text, "has 40 points more");
    has(&text, "error rate than lariat");
    has(&text, "▽ +40 points (+40 to +40)");
}

#[test]
fn one_comparison_has_one_target() {
    let mut one = only("implementations", |_| {});
    one.plan.targets.retain(|it| ["lariat", "stunnel"].contains(&it.name.as_str()));
    begins(
        &shown(&one),
        "stunnel needs 2.38 times (2.35 to 2.41) the server CPU per request of lariat. 1 ",
    );
}

#[test]
fn rates_of_idle_servers_are_not_counted() {
    let idle = only("connections", |measurement| measurement.noise.server_busy = 0.84);
    let text = shown(&idle);
    begins(&text, "Nothing is ranked: every comparison (4) is of a metric");
    has(&text, "○ 1.12×");
    has(&text, "○ closed loads in which");
    // CPU time is the server's own.
    let cpu = "Further metrics, compared with those of lariat connections, server CPU per request";
    has(&text, cpu);
    let busy = only("connections", |measurement| measurement.noise.server_busy = 0.86);
    has(&shown(&busy), "4 comparisons with lariat, the reference: 4 better");
    begins(&shown(&busy), "haproxy-tcp reaches 1.");
}

#[test]
fn rates_of_shared_cpus_are_no_gain() {
    let shared = only("connections", |measurement| {
        measurement.noise.server_busy = 1.0;
        measurement.noise.is_shared = measurement.configuration.contains("resumption=off");
    });
    let text = shown(&shared);
    has(&text, "2 comparisons with lariat, the reference: 2 better");
    assert!(!text.contains("as a multiple of that at on"), "{text}");
    let apart = only("connections", |_| {});
    assert!(shown(&apart).contains("as a multiple of that at on"));
}

#[test]
fn rounds_with_other_work_are_compared() {
    let noisy = only("ciphers", |measurement| measurement.noise.foreign = 0.21);
    let quiet = only("ciphers", |_| {});
    let counted = |text: &str| text.split("A comparison is").next().map(str::to_owned);
    assert_eq!(counted(&shown(&noisy)), counted(&shown(&quiet)));
    has(&shown(&noisy), "30 of 30 measurements more than 5 % of CPU time went to other work");
}

#[test]
fn targets_that_relay_nothing_are_not_ranked() {
    let mut experiment = only("ciphers", |_| {});
    let haproxy = experiment.plan.targets.iter_mut();
    for target in haproxy.filter(|target| target.name == "haproxy-tcp") {
        target.serves = "itself".to_owned();
    }
    let text = shown(&experiment);
    has(&text, "haproxy-tcp answers itself, and relays nothing");
    assert!(!text.contains("▲") || text.find('▲') > text.find("signs"), "{text}");
    has(&text, "0.90× (0.88 to 0.92)");
}

/// The source printed kB of 1000 bytes a second, though it is not the main metric.
#[test]
fn a_large_file_has_its_speed_in_the_source_s_form() {
    let mut experiment = only("big-file", |_| {});
    experiment.plan.scenarios[0].metrics = vec![Metric::ServerCpuPerGib, Metric::Bandwidth];
    let heads = "N min max median mean stddev";
    let text = shown(&experiment);
    has(&text, "Bandwidth, kB/s, as ministat(1)");
    assert!(text.contains(heads) && text.contains("1246859"), "{text}");
    let page = of(&experiment).html();
    assert!(page.contains("Bandwidth, kB/s, as ministat(1)") && page.contains("1246859"));
}

/// Servers are equal if they differ by less than a ramp's step of one second, round by round.
#[test]
fn capacities_say_how_finely_they_were_read_off() {
    let read_off_at = |per_s: u64| {
        only("ramp", move |it| {
            let second = |of: u64| LoadSecond {
                at_s: of - 1,
                attempted: of * 200,
                succeeded: if of == 3 { per_s } else { of * 200 },
                ..LoadSecond::default()
            };
            it.seconds = (1..=6).map(second).collect();
            it.read_offs.as_mut().unwrap().under_100_ms_per_s = Some(per_s as f64);
            it.noise.server_busy = 1.0;
        })
    };
    let (a, b) = (read_off_at(600), read_off_at(588));
    let whole = "equal within one step of the ramp: ±33 %";
    let text = shown(&a);
    has(&text, whole);
    has(&text, "600 ±33 %");
    has(&text, "0 better, 0 equal within 5 %");
    assert!(!text.contains("the same in each round"), "{text}");
    has(&of(&a).html(), "±33\u{a0}%, one step of the ramp");
    let changed = compared(("a", &a), ("b", &b)).text(120, false);
    let changed = changed.split_whitespace().collect::<Vec<_>>().join(" ");
    has(&changed, "600 ±33 % 588 ±34 %");
    has(&changed, "equal within one step of the ramp: ±34 %");
    has(&changed, "better in 0 and worse in 0");
}

#[test]
fn two_runs_are_compared() {
    let (a, b) = (whole(), experiments::elsewhere());
    let text = compared(("kvm", &a), ("xen", &b)).text(80, false);
    compare("experiments-compared", &text);
}

#[test]
fn a_run_compared_with_itself_has_not_changed() {
    let a = whole();
    let text = compared(("a", &a), ("a", &a)).text(80, false);
    has(&text, "B is better in 0 and worse in 0");
    let unmeasured = experiments::unmeasured();
    assert_eq!(configurations_in_common(&a, &unmeasured), 0);
    let other = experiments::elsewhere();
    assert!(configurations_in_common(&a, &other) > 30);
}

#[test]
fn every_page_is_whole_and_needs_nothing_else() {
    let (whole, hostile) = (whole(), experiments::hostile());
    let pages = [
        ("whole", of(&whole).html()),
        ("unmeasured", of(&experiments::unmeasured()).html()),
        ("hostile", of(&hostile).html()),
        ("two", document(&[("a", &whole), ("b", &experiments::elsewhere())], None).html()),
        ("none", document(&[], None).html()),
        ("compared", compared(("a", &whole), ("<b>", &hostile)).html()),
    ];
    for (name, page) in pages {
        assert_whole(name, &page);
        assert_numbers(name, &page);
        assert!(!page.contains("<script"), "{name}");
        assert!(!page.contains(|c: char| c.is_control() && c != '\n'), "{name}");
        assert!(!page.contains('\u{202e}'), "{name}");
    }
}

#[test]
fn terminals_get_no_control_characters() {
    let hostile = experiments::hostile();
    let is_order = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    let both = compared(("a\u{1b}", &hostile), ("b", &hostile));
    for document in [of(&hostile), both] {
        let text = document.text(80, false);
        assert!(!text.contains(is_order), "{text}");
    }
}

fn value(page: &str, id: &str) -> f64 {
    let mark = format!("id=\"{id}\" data-value=\"");
    let (_, after) = page.split_once(&mark).unwrap_or_else(|| panic!("no {id}"));
    after.split_once('"').unwrap().0.parse().unwrap()
}

/// Returns the metrics of a cell, by repeat.
fn metrics(experiment: &Experiment, configuration: &str, metric: Metric) -> Vec<f64> {
    let all = experiment.measurements.iter();
    all.filter(|it| it.scenario == "implementations" && it.configuration == configuration)
        .map(|measurement| metric.of(measurement).unwrap())
        .collect()
}

#[test]
fn the_page_has_the_record_s_numbers() {
    let experiment = whole();
    let page = of(&experiment).html();
    let mut ours = metrics(&experiment, "target=lariat", Metric::ServerCpu);
    let theirs = metrics(&experiment, "target=stunnel", Metric::ServerCpu);
    let pairs: Vec<_> = theirs.iter().copied().zip(ours.iter().copied()).collect();
    let ratio = Effect::of_pairs(&pairs, EffectScale::Ratio).unwrap().value;
    let shown = value(&page, "e1-implementations-stunnel-server-cpu-ratio");
    assert!((shown - ratio).abs() < 1e-12, "{shown} {ratio}");
    ours.sort_by(f64::total_cmp);
    assert_eq!(value(&page, "e1-implementations-lariat-server-cpu"), ours[1]);
}

#[test]
fn a_page_begins_with_findings_whomever_they_speak_for() {
    let page = of(&whole()).html();
    let (_, body) = page.split_once("</head>").unwrap();
    let order = [
        "<p class=\"headline\">In implementations: stunnel needs 2.38 times",
        "26 comparisons with lariat, the reference: 1 better, 3 equal",
        "Main metrics, compared with those of lariat",
        "haproxy-tcp</b> ▲",
        "What lariat has no measurement of",
        // A target without TLS is not ranked.
        "targets that do other work: plain does no TLS",
        "<dt>host</dt>",
        "<article",
    ];
    let mut rest = body;
    for words in order {
        let (before, after) = rest.split_once(words).unwrap_or_else(|| panic!("no {words}"));
        assert!(!before.contains("<b>plain</b>"));
        rest = after;
    }
}

/// Equal numbers have the same verdict with any reference.
#[test]
fn the_reader_chooses_the_reference() {
    let experiment = whole();
    let page = |reference| document(&[("run", &experiment)], reference).html();
    let (ours, theirs) = (page(None), page(Some("stunnel")));
    has(&theirs, "comparisons with stunnel, the reference");
    let ratio = value(&ours, "e1-implementations-stunnel-server-cpu-ratio");
    let inverse = value(&theirs, "e1-implementations-lariat-server-cpu-ratio");
    assert!((ratio * inverse - 1.0).abs() < 1e-9, "{ratio} {inverse}");
    // A target keeps its colour.
    let colour = |page: &str| {
        let (_, figure) = page.split_once("<div id=\"e1-implementations-plot\">").unwrap();
        let (_, bar) = figure.split_once(">stunnel</text>").unwrap();
        bar.split_once("class=\"bar ").unwrap().1.split_once('"').unwrap().0.to_owned()
    };
    assert_eq!(colour(&ours), colour(&theirs));
}

#[test]
fn a_scenario_has_one_screen_and_the_rest_is_folded() {
    let mut experiment = only("object-sizes", |_| {});
    for value in &mut experiment.plan.scenarios[0].factors[0].values {
        value.number = None;
    }
    let page = of(&experiment).html();
    let (_, article) = page.split_once("<article").unwrap();
    let (article, _) = article.split_once("</article>").unwrap();
    let (open, folded) = article.split_once("<details>").unwrap();
    assert_eq!(open.matches("<svg").count(), 3, "{open}");
    assert!(!open.contains("<table") && folded.contains("All 5 panels"));
    // No picture appears twice unfolded.
    assert_eq!(page.matches("<div id=\"e1-object-sizes-plot\">").count(), 1);
}

#[test]
fn courses_of_a_scenario_have_one_scale() {
    let figures = of(&only("ramp", |_| {})).figures();
    let courses = figures.iter().filter(|(name, _)| name.starts_with("ramp-course-"));
    let ticks = |svg: &str| -> Vec<String> {
        let texts = svg.split("class=\"tick end\"").skip(1);
        let text = |rest: &str| Some(rest.split_once('>')?.1.split_once('<')?.0.to_owned());
        texts.filter_map(text).collect()
    };
    let ticks: Vec<_> = courses.map(|(_, svg)| ticks(svg)).collect();
    assert!(ticks.len() > 1 && ticks[0].len() > 4, "{ticks:?}");
    assert!(ticks.windows(2).all(|pair| pair[0] == pair[1]), "{ticks:?}");
}

#[test]
fn a_page_of_several_records_leads_to_each_host() {
    let (a, b) = (whole(), experiments::elsewhere());
    let page = document(&[("a", &a), ("b", &b)], None).html();
    for link in ["#e1\">host and targets 1<", "#e2\">host and targets 2<"] {
        has(&page, link);
    }
    has(&page, "1 of 2, measured on this host by this command");
}

#[test]
fn every_reason_stands_in_its_cell() {
    let page = of(&whole()).html();
    let gaps = [
        "unsupported: it cannot be told to use one suite",
        "void: negotiated TLS_AES_128_GCM_SHA256 instead",
        "missing: <code>hitch</code> is not installed",
        "unsupported: the kernel has no module",
    ];
    for gap in gaps {
        assert!(page.contains(&format!("class=\"gap\">{gap}")), "{gap}");
    }
    assert!(page.contains("1 of 3 repeats failed: it ended by signal 9"));
    assert!(page.contains("<dt>omitted</dt><dd>RC4: prohibited by RFC 7465"));
    assert!(page.contains("With RSA 1024, four requests a session."));
}

#[test]
fn figures_fit_what_was_varied() {
    let figures = of(&whole()).figures();
    let svg = |name: &str| {
        let mut found = figures.iter().filter(|(file, _)| file == name);
        let (_, svg) = found.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(svg.starts_with("<svg ") && svg.contains("prefers-color-scheme"));
        svg.as_str()
    };
    // Names are bars, numbers lines, a rising load a course.
    let bars = svg("implementations-server-cpu");
    assert_eq!(bars.matches("class=\"bar ").count(), 5, "hitch has none");
    assert!(bars.contains("missing: `hitch` is not installed"));
    assert_eq!(svg("ciphers-server-cpu").matches("class=\"bar ").count(), 10);
    let lines = svg("object-sizes-rate");
    assert!(!lines.contains("class=\"bar ") && lines.contains(">64 KiB</text>"));
    assert!(svg("ramp-course-lariat").contains("attempted"));
    assert!(!figures.iter().any(|(file, _)| file.contains("course-plain")));
}

#[test]
fn a_replay_is_a_still_picture_among_the_files() {
    let capacity = |it: &mut Measurement| it.capacity_per_s = Some(900.0);
    let figures = of(&only("ramp", capacity)).figures();
    let replay = figures.iter().find(|(file, _)| file == "ramp-replay");
    assert!(replay.unwrap().1.contains("all targets over time"));
}

#[test]
fn sheets_have_a_row_a_figure() {
    let experiment = whole();
    let sheets = of(&experiment).sheets();
    let [configurations, measurements] = [&sheets[0].1, &sheets[1].1];
    let rows = |text: &str| text.lines().count() - 1;
    // Cells times metrics: 6 × 3, 12 × 2, 20 × 3, 8 × 2, 2 × 5, 4 × 1.
    assert_eq!(rows(configurations), 18 + 24 + 60 + 16 + 10 + 4);
    let columns = configurations.lines().next().unwrap().split(',').count();
    let row = configurations.lines().nth(1).unwrap();
    assert_eq!(row.split(',').count(), columns, "{row}");
    assert!(row.starts_with("implementations,target=lariat,lariat,,server-cpu,3,"), "{row}");
    assert!(configurations.contains(",better,\n") && configurations.contains(",worse,\n"));
    assert!(rows(measurements) > experiment.measurements.len());
}
