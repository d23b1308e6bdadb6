//! Records of experiments made by code, with the shapes of real ones. The same each time.

#![allow(dead_code, reason = "each test binary takes the records that it needs")]

mod host;

use std::collections::BTreeMap;

use measure::capacity::ReadOffs;
use measure::experiment::{
    Cell, Durations, Ended, Event, Experiment, FORMAT, Factor, Figure, LeftOut, Level, Miss, Noise,
    Placement, Plan, Published, Reading, Scenario, Source, Target, Way,
};
use measure::kind::Kind;
use measure::record::{Counts, Handshakes, Second, Tool, Traffic, Warning};

pub(crate) fn text(words: &str) -> String {
    words.to_owned()
}

/// Numbers that only look random: those of a 64-bit congruential generator.
pub(crate) struct Dice(u64);

impl Dice {
    /// About 1, at most `share` more or less.
    fn about(&mut self, share: f64) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let unit = (self.0 >> 40) as f64 / f64::from(1 << 24);
        1.0 + (unit * 2.0 - 1.0) * share
    }
}

/// Targets and how dear each is to the first one.
const TARGETS: [(&str, &str, f64); 6] = [
    ("lariat", "ours, relaying TCP", 1.0),
    ("haproxy-tcp", "HAProxy, relaying TCP", 0.9),
    ("nginx-stream", "nginx, its stream module", 1.01),
    ("hitch", "hitch, the heir of stud", 1.3),
    ("stunnel", "stunnel, a thread a connection", 2.4),
    ("plain", "no TLS: the origin itself", 0.2),
];

fn targets() -> Vec<Target> {
    let targets = TARGETS.iter().map(|(name, title, _)| Target {
        name: text(name),
        title: text(title),
        program: text(name),
        version: vec![format!("{name} 1.2.3"), text("OpenSSL 3.0.17")],
        from: format!("package {name}"),
        missing: None,
        serves: text(if *name == "plain" { "itself" } else { "origin" }),
        scheme: text(if *name == "plain" { "http" } else { "https" }),
    });
    let mut targets: Vec<Target> = targets.collect();
    targets[3].missing = Some(text("`hitch` is not installed: apt-get install hitch"));
    targets[3].version.clear();
    targets
}

/// A scenario with cells for these targets at all levels.
struct Draft {
    scenario: Scenario,
}

impl Draft {
    fn new(name: &str, question: &str, figures: &[Figure]) -> Self {
        Self {
            scenario: Scenario {
                name: text(name),
                question: text(question),
                method: text("Each target relays to the same origin, on a CPU of its own."),
                sources: vec![Source {
                    title: text("V. Bernat, TLS termination, 2011"),
                    table: text("maximum TPS by implementation"),
                }],
                left_out: Vec::new(),
                factors: Vec::new(),
                figures: figures.to_vec(),
                operation: text("requests"),
                published: Vec::new(),
                repeats: 3,
                cells: Vec::new(),
            },
        }
    }

    fn factor(mut self, name: &str, title: &str, levels: &[(&str, &str, Option<f64>)]) -> Self {
        self.scenario.factors.push(Factor {
            name: text(name),
            title: text(title),
            levels: levels
                .iter()
                .map(|(name, title, value)| Level {
                    name: text(name),
                    title: text(title),
                    value: *value,
                })
                .collect(),
        });
        self
    }

    fn targets(mut self, names: &[&str]) -> Self {
        let mut choices: Vec<BTreeMap<String, String>> = vec![BTreeMap::new()];
        for factor in &self.scenario.factors {
            let with = |choice: &BTreeMap<String, String>, level: &Level| {
                let mut choice = choice.clone();
                choice.insert(factor.name.clone(), level.name.clone());
                choice
            };
            choices = choices
                .iter()
                .flat_map(|choice| factor.levels.iter().map(move |level| with(choice, level)))
                .collect();
        }
        for levels in choices {
            for name in names {
                let words = levels
                    .iter()
                    .map(|(factor, level)| format!(" {factor}={level}"));
                let scheme = if *name == "plain" { "http" } else { "https" };
                self.scenario.cells.push(Cell {
                    key: format!("target={name}{}", words.collect::<String>()),
                    target: text(name),
                    levels: levels.clone(),
                    command: vec![
                        text("lariat-lab"),
                        text("load"),
                        format!("{scheme}://ADDRESS/1k"),
                        text("--connections"),
                        text("32"),
                    ],
                    cannot: None,
                });
            }
        }
        self
    }
}

const RIVALS: [&str; 4] = ["lariat", "haproxy-tcp", "nginx-stream", "stunnel"];

fn scenarios() -> Vec<Scenario> {
    use Figure::{Bandwidth, Loss, Rate};
    let ramp = Draft::new("ramp", "How much can each take?", &[Rate, Loss]);
    let sealing = [("user", "in user space", None), ("kernel", "by kTLS", None)];
    let big_file = Draft::new("big-file", "How fast is a file of 1 GiB?", &[Bandwidth]);
    let big_file = big_file.factor("ktls", "sealing", &sealing);
    let mut big_file = big_file.targets(&RIVALS[..2]).scenario;
    big_file.published = vec![Published {
        title: text("Stark 2021, N = 10"),
        unit: text("kB/s"),
        columns: ["system", "min", "stddev"].map(text).to_vec(),
        rows: vec![["Ubuntu 21.10, kTLS", "619105", "43255"].map(text).to_vec()],
        note: None,
    }];
    vec![
        implementations(),
        ciphers(),
        object_sizes(),
        connections(),
        ramp.targets(&RIVALS[..2]).scenario,
        big_file,
    ]
}

fn implementations() -> Scenario {
    use Figure::{MeanResponse, Rate, ServerCpu};
    let mut scenario = Draft::new(
        "implementations",
        "Which terminator does most with a CPU?",
        &[ServerCpu, Rate, MeanResponse],
    )
    .targets(&TARGETS.map(|(name, ..)| name))
    .scenario;
    scenario.published = vec![Published {
        title: text("Bernat 2011, 1 core, 32 bit"),
        unit: text("TPS"),
        columns: ["context", "nginx", "stunnel", "stud"].map(text).to_vec(),
        rows: vec![["1 core", "512", "503", "766"].map(text).to_vec()],
        note: Some(text("With RSA 1024, four requests a session.")),
    }];
    scenario
}

fn ciphers() -> Scenario {
    use Figure::{Rate, ServerCpu};
    let suites = [
        ("aes-128-gcm", "AES-128-GCM", None),
        ("aes-256-gcm", "AES-256-GCM", None),
        ("chacha20", "ChaCha20-Poly1305", None),
    ];
    let mut scenario = Draft::new("ciphers", "What does each cipher cost?", &[ServerCpu, Rate])
        .factor("suite", "cipher", &suites)
        .targets(&RIVALS)
        .scenario;
    scenario.left_out = vec![LeftOut {
        what: text("RC4"),
        why: text("prohibited by RFC 7465"),
    }];
    scenario.cells[11].cannot = Some(text("it cannot be told to use one suite of TLS 1.3"));
    scenario
}

fn object_sizes() -> Scenario {
    use Figure::{Bandwidth, Rate, ServerCpu};
    let sizes = [0, 1, 4, 16, 64];
    let names = sizes.map(|kib| (format!("{kib}k"), format!("{kib} KiB")));
    let levels = names.iter().zip(sizes);
    let levels: Vec<_> = levels
        .map(|((name, title), kib)| (name.as_str(), title.as_str(), Some(f64::from(kib * 1024))))
        .collect();
    let figures = [Rate, Bandwidth, ServerCpu];
    Draft::new("object-sizes", "What does size cost?", &figures)
        .factor("size", "object size", &levels)
        .targets(&RIVALS)
        .scenario
}

fn connections() -> Scenario {
    use Figure::{Rate, ServerCpu};
    let lengths = [("long", "long", None), ("short", "short", None)];
    let on_off = [("on", "on", None), ("off", "off", None)];
    Draft::new(
        "connections",
        "What do handshakes cost?",
        &[Rate, ServerCpu],
    )
    .factor("connections", "connections", &lengths)
    .factor("resumption", "resumption", &on_off)
    .targets(&RIVALS[..2])
    .scenario
}

fn plan() -> Plan {
    Plan {
        format: FORMAT,
        tool: Tool {
            name: text("lariat-lab"),
            version: text("0.1.0"),
            tls: text("rustls 0.23.46"),
        },
        command: ["lariat-lab", "run", "--quick", "--seed", "7"]
            .map(text)
            .to_vec(),
        started: text("2026-11-22T03:04:05Z"),
        mode: text("quick"),
        seed: 7,
        host: host::host(),
        placement: Placement {
            server: vec![0],
            client: vec![1],
        },
        targets: targets(),
        scenarios: scenarios(),
    }
}

/// What a cell took for an operation, and what it did a second.
struct Pace {
    cpu_ns: f64,
    per_s: f64,
    body_bytes: f64,
}

fn pace(scenario: &str, cell: &Cell) -> Pace {
    let dear = TARGETS
        .iter()
        .find(|(name, ..)| *name == cell.target)
        .map_or(1.0, |it| it.2);
    let level = |name: &str| cell.levels.get(name).map_or("", String::as_str);
    let size: f64 = level("size").trim_end_matches('k').parse().unwrap_or(1.0);
    let mut cpu_ns = 60_000.0 * dear + size * 800.0;
    if level("suite") == "chacha20" && cell.target == "haproxy-tcp" {
        cpu_ns *= 1.4;
    }
    if level("connections") == "short" {
        cpu_ns *= if level("resumption") == "on" {
            5.0
        } else {
            18.0
        };
    }
    let mut body_bytes = size * 1024.0;
    if scenario == "big-file" {
        cpu_ns = 1e9 / 0.6 * if level("ktls") == "kernel" { 0.8 } else { 1.0 };
        body_bytes = f64::from(1 << 30);
    }
    Pace {
        cpu_ns,
        per_s: 0.95e9 / cpu_ns,
        body_bytes,
    }
}

fn reading(scenario: &Scenario, cell: &Cell, repeat: u32, dice: &mut Dice) -> Reading {
    const ELAPSED_S: f64 = 2.0;
    let pace = pace(&scenario.name, cell);
    let succeeded = (pace.per_s * ELAPSED_S * dice.about(0.03)).round().max(2.0);
    let mean_ns = (32.0 / pace.per_s * 1e9 * dice.about(0.03)) as u64;
    let is_plain = cell.target == "plain";
    let mut reading = Reading {
        scenario: scenario.name.clone(),
        cell: cell.key.clone(),
        repeat,
        at: format!("2026-11-22T03:1{repeat}:00Z"),
        elapsed_ns: (ELAPSED_S * 1e9) as u64,
        offered_per_s: None,
        capacity_per_s: None,
        counts: Counts {
            attempted: succeeded as u64,
            succeeded: succeeded as u64,
            failed: 0,
        },
        failures: BTreeMap::new(),
        operations: succeeded as u64,
        server_cpu_ns: (pace.cpu_ns * succeeded * dice.about(0.008)) as u64,
        client_cpu_ns: 1_500_000_000,
        origin_cpu_ns: 200_000_000,
        resident_bytes_before: 8 << 20,
        resident_bytes_under: 9 << 20,
        open_connections: 32,
        response: Durations {
            count: succeeded as u64,
            mean_ns,
            p50_ns: mean_ns,
            p90_ns: mean_ns * 2,
            p99_ns: mean_ns * 3,
            p999_ns: mean_ns * 4,
            max_ns: mean_ns * 5,
        },
        handshake: Durations::default(),
        traffic: Traffic {
            connections: 32,
            body_bytes: (pace.body_bytes * succeeded) as u64,
            ..Traffic::default()
        },
        handshakes: Vec::new(),
        seconds: Vec::new(),
        steps: Vec::new(),
        read_offs: None,
        noise: Noise {
            foreign: 0.01,
            stolen: 0.0,
            server_busy: 0.95,
            client_busy: 0.8,
            is_shared: false,
        },
        warnings: Vec::new(),
    };
    if !is_plain {
        reading.handshakes.push(handshakes(succeeded as u64));
    }
    if scenario.name == "big-file" {
        reading.elapsed_ns = (1.7e9 * dice.about(0.05)) as u64;
    }
    if scenario.name == "ramp" {
        rise(&mut reading, pace.per_s, dice);
    }
    reading
}

fn handshakes(count: u64) -> Handshakes {
    Handshakes {
        kind: Kind::Full,
        version: text("TLSv1.3"),
        suite: text("TLS_AES_128_GCM_SHA256"),
        group: Some(text("X25519")),
        signature: Some(text("ecdsa_secp256r1_sha256")),
        alpn: None,
        retried: false,
        early_data_accepted: None,
        count,
    }
}

/// 40 seconds of a load that rises to twice what can be served.
fn rise(reading: &mut Reading, capacity: f64, dice: &mut Dice) {
    const LENGTH_S: u64 = 40;
    reading.elapsed_ns = LENGTH_S * 1_000_000_000;
    for at_s in 0..LENGTH_S {
        let attempted = capacity * 2.0 * (at_s as f64 + 0.5) / LENGTH_S as f64;
        let served = attempted.min(capacity * dice.about(0.02));
        let mean_ns = if attempted < capacity { 3e6 } else { 8e8 } * dice.about(0.1);
        reading.seconds.push(Second {
            at_s,
            attempted: attempted as u64,
            succeeded: served as u64,
            failed: (attempted - served) as u64,
            resumed: 0,
            full: served as u64,
            mean_ns: mean_ns as u64,
            median_ns: mean_ns as u64,
            p99_ns: (mean_ns * 3.0) as u64,
            max_ns: (mean_ns * 4.0) as u64,
            open: 100,
        });
    }
    let sum = |of: fn(&Second) -> u64| reading.seconds.iter().map(of).sum::<u64>();
    reading.counts = Counts {
        attempted: sum(|it| it.succeeded) + sum(|it| it.failed),
        succeeded: sum(|it| it.succeeded),
        failed: sum(|it| it.failed),
    };
    reading.operations = reading.counts.succeeded;
    reading.read_offs = Some(ReadOffs {
        peak_per_s: Some(capacity * dice.about(0.02)),
        under_100_ms_per_s: Some(capacity * 0.97 * dice.about(0.02)),
        under_500_ms_per_s: Some(capacity * 0.98 * dice.about(0.02)),
        few_errors_per_s: Some(capacity * 0.96 * dice.about(0.02)),
    });
}

/// All events of a whole run: readings in rounds, a cell that is void, one that failed, a hole.
pub(crate) fn events() -> Vec<Event> {
    let plan = plan();
    let mut dice = Dice(11);
    let mut events = vec![Event::Began(Box::new(plan.clone()))];
    for scenario in &plan.scenarios {
        for repeat in 0..scenario.repeats {
            for cell in scenario.cells.iter().filter(|cell| cell.cannot.is_none()) {
                events.extend(event(scenario, cell, repeat, &mut dice));
            }
        }
    }
    events.push(Event::Ended(Ended {
        at: text("2026-11-22T03:30:00Z"),
        is_complete: true,
    }));
    events
}

fn event(scenario: &Scenario, cell: &Cell, repeat: u32, dice: &mut Dice) -> Option<Event> {
    let miss = |way, why: &str| {
        Event::Missed(Miss {
            scenario: scenario.name.clone(),
            cell: cell.key.clone(),
            repeat,
            at: text("2026-11-22T03:20:00Z"),
            way,
            why: text(why),
        })
    };
    match (scenario.name.as_str(), cell.key.as_str()) {
        (_, key) if key.contains("hitch") => None,
        ("ciphers", "target=stunnel suite=aes-256-gcm") => Some(miss(
            Way::Void,
            "negotiated TLS_AES_128_GCM_SHA256 instead of TLS_AES_256_GCM_SHA384",
        )),
        ("object-sizes", "target=nginx-stream size=64k") if repeat == 1 => Some(miss(
            Way::Failed,
            "it ended by signal 9 while it was loaded",
        )),
        ("big-file", key) if key.contains("lariat") && key.contains("kernel") => {
            Some(miss(Way::Cannot, "the kernel has no module `tls`"))
        }
        _ => {
            let mut reading = reading(scenario, cell, repeat, dice);
            if scenario.name == "connections" {
                reading.noise.server_busy = 0.6;
                reading.noise.foreign = 0.08;
                reading.warnings.push(Warning {
                    seen: text("a thread of the client was busy all the time"),
                    hint: text("give it more `--threads`"),
                });
            }
            Some(Event::Read(Box::new(reading)))
        }
    }
}

/// Of events, as if they had been read from a file.
pub(crate) fn of(events: &[Event]) -> Experiment {
    let lines: Vec<String> = events.iter().map(|event| event.to_line() + "\n").collect();
    Experiment::parse(&lines.concat()).expect("events make a record")
}

/// A whole run.
pub(crate) fn whole() -> Experiment {
    of(&events())
}

/// The same on another platform: dearer, and the more so the smaller the object.
pub(crate) fn elsewhere() -> Experiment {
    let mut other = whole();
    other.plan.started = text("2026-11-23T03:04:05Z");
    other.plan.host.host.hypervisor = Some(text("Xen"));
    other.plan.targets[1].version = vec![text("haproxy 3.0")];
    other
        .plan
        .scenarios
        .retain(|scenario| scenario.name != "ramp");
    for reading in &mut other.readings {
        let per_s = reading.counts.succeeded as f64 / 2.0;
        let slower = 1.0 - (per_s / 40_000.0).min(0.5);
        reading.counts.succeeded = (reading.counts.succeeded as f64 * slower) as u64;
        reading.traffic.body_bytes = (reading.traffic.body_bytes as f64 * slower) as u64;
        reading.server_cpu_ns = (reading.server_cpu_ns as f64 / slower) as u64;
    }
    other
}

/// Stopped before anything was read.
pub(crate) fn unread() -> Experiment {
    of(&events()[..1])
}

/// Names, titles and reasons by someone who means ill.
pub(crate) fn hostile() -> Experiment {
    let bad = "</td><script>alert(1)</script>\u{1b}[2J\u{202e}\"'";
    let mut experiment = whole();
    let plan = &mut experiment.plan;
    plan.command.push(text(bad));
    plan.host.host.cpu = text(bad);
    for target in &mut plan.targets {
        target.title = text(bad);
        target.version = vec![text(bad)];
    }
    for scenario in &mut plan.scenarios {
        scenario.question = text(bad);
        scenario.method = text(bad);
        for factor in &mut scenario.factors {
            factor.title = text(bad);
            for level in &mut factor.levels {
                level.title = text(bad);
            }
        }
        for cell in &mut scenario.cells {
            cell.command.push(text(bad));
        }
    }
    for miss in &mut experiment.misses {
        miss.why = text(bad);
    }
    experiment
}

/// The first round alone.
pub(crate) fn one_round() -> Experiment {
    let mut experiment = whole();
    experiment.readings.retain(|reading| reading.repeat == 0);
    experiment
}
