//! Tests that cards claim only what the record supports.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

mod experiments;

use experiments::whole;
use measure::experiment::Experiment;
use report::experiment::{CardSubject, card};

fn of(experiment: &Experiment, scenario: &str, context: &str) -> Result<String, String> {
    let named = |name: &'static str| (!name.is_empty()).then_some(name);
    let [scenario, context] = [scenario, context].map(|text| named(text.to_owned().leak()));
    let found = card(experiment, CardSubject { scenario, context, reference: None });
    found.map_err(|refusal| format!("{refusal}; {}", refusal.hint))
}

#[track_caller]
fn refuses(experiment: &Experiment, scenario: &str, context: &str, why: &str) {
    let refusal = of(experiment, scenario, context).unwrap_err();
    assert!(refusal.contains(why), "{refusal}");
}

/// Removes the targets that do better or as well.
fn without(names: &[&str]) -> Experiment {
    let mut experiment = whole();
    let targets = &mut experiment.plan.targets;
    targets.retain(|target| !names.contains(&target.name.as_str()));
    for scenario in &mut experiment.plan.scenarios {
        let configurations = &mut scenario.configurations;
        configurations.retain(|it| !names.contains(&it.target.as_str()));
    }
    experiment
}

#[test]
fn a_card_has_the_claim_the_host_and_the_command() {
    let experiment = without(&["haproxy-tcp", "nginx-stream", "hitch"]);
    let svg = of(&experiment, "implementations", "").unwrap();
    // 2.38 times as much of the other, inverted.
    for words in [
        "width=\"1200\" height=\"630\"",
        ">lariat: 58 % less<",
        ">server CPU per request<",
        ">than stunnel; 95 % interval 57 to 59 %, ",
        ">stunnel<",
        &experiment.plan.host.host.cpu,
        "whisker: 95 % interval of the mean; ×: to lariat",
        &experiment.plan.targets[0].version[0],
        "lariat-lab run",
    ] {
        assert!(svg.contains(words), "{words}: {svg}");
    }
}

#[test]
fn what_the_record_does_not_bear_is_refused() {
    let all = whole();
    refuses(&all, "implementations", "", "haproxy-tcp (it is better)");
    refuses(&all, "implementations", "", "nginx-stream (equal)");
    let some = without(&["haproxy-tcp", "nginx-stream", "hitch"]);
    let mut two_rounds = some.clone();
    two_rounds.measurements.retain(|it| it.repeat < 2);
    refuses(&two_rounds, "implementations", "", "stunnel (too few rounds)");
    let mut stopped = some;
    stopped.ended = None;
    refuses(&stopped, "implementations", "", "stopped before its end");
    let alone = without(&["haproxy-tcp", "nginx-stream", "hitch", "stunnel"]);
    refuses(&alone, "implementations", "", "nothing to compare with");
}

#[test]
fn a_card_is_of_one_scenario_and_context() {
    let all = whole();
    refuses(&all, "", "", "choose by --scenario; the record has: implementations");
    refuses(&all, "keys", "", "no scenario `keys`");
    refuses(&all, "ciphers", "", "choose by --context; the record has: AES-128-GCM");
    refuses(&all, "ciphers", "DES", "no context `DES`");
}

#[test]
fn what_a_record_says_is_text() {
    let hostile = experiments::hostile();
    let names: Vec<String> = hostile.plan.scenarios.iter().map(|it| it.name.clone()).collect();
    for name in names {
        let shown = of(&hostile, &name, "").unwrap_or_default();
        assert!(!shown.contains("<script"), "{shown}");
    }
}
