//! Tests that points are at their values' places, according to the ticks beside them.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

mod made;

use measure::record::{LoadRecord, LoadSecond};

fn svg(record: &LoadRecord, name: &str) -> String {
    let figures = made::report_of(record).figures().into_iter();
    let mut found = figures.filter(|(file, _)| *file == format!("run-{name}"));
    found.next().unwrap().1
}

/// Returns the value of an attribute of the first element after `from` that contains `marker`.
fn attribute(svg: &str, marker: &str, name: &str) -> String {
    let start = svg.find(marker).unwrap_or_else(|| panic!("no {marker}"));
    let element = &svg[svg[..start].rfind('<').unwrap()..];
    let element = &element[..element.find('>').unwrap()];
    let (_, after) = element.split_once(&format!(" {name}=\"")).unwrap();
    after.split_once('"').unwrap().0.to_owned()
}

fn number(svg: &str, marker: &str, name: &str) -> f64 {
    attribute(svg, marker, name).parse().unwrap()
}

fn run(succeeded: &[u64]) -> LoadRecord {
    let mut record = made::empty();
    record.elapsed_ns = succeeded.len() as u64 * 1_000_000_000;
    let second = |(at, count): (usize, &u64)| LoadSecond {
        at_s: at as u64,
        attempted: *count,
        succeeded: *count,
        mean_ns: 1_000_000 * count / 100,
        p99_ns: 2_000_000 * count / 100,
        ..LoadSecond::default()
    };
    record.seconds = succeeded.iter().enumerate().map(second).collect();
    record
}

/// Returns the corners of a path with only `M` and `L`.
fn corners(data: &str) -> Vec<(f64, f64)> {
    let points = data.split(['M', 'L']).filter(|point| !point.is_empty());
    let parse = |point: &str| {
        let (x, y) = point.split_once(' ').unwrap();
        (x.parse().unwrap(), y.parse().unwrap())
    };
    points.map(parse).collect()
}

#[test]
fn seconds_stand_at_their_middles_and_rates_between_their_ticks() {
    let svg = svg(&run(&[100, 200, 400, 300]), "time");
    let place = |text: &str| {
        let end = svg.find(&format!(">{text}</text>")).unwrap();
        let element = &svg[svg[..end].rfind("<text").unwrap()..];
        let value = |name: &str| number(element, "text", name);
        (value("x"), value("y") - 4.0)
    };
    let (zero, top) = (place("0").1, place("400").1);
    let (left, right) = (place("0 s").0, place("4 s").0);
    let line = &svg[svg.find("class=\"line ink\" d=\"M").unwrap()..];
    // The first is the legend's sample.
    let line = &line[line[10..].find("class=\"line ink\"").unwrap() + 10..];
    let data = line.split_once("d=\"").unwrap().1.split_once('"').unwrap().0;
    let corners = corners(data);
    assert_eq!(corners.len(), 4);
    for ((x, y), (at, count)) in
        corners.iter().zip([(0.5, 1.0), (1.5, 2.0), (2.5, 4.0), (3.5, 3.0)])
    {
        assert!((x - (left + (right - left) * at / 4.0)).abs() < 0.11, "{x}");
        assert!((y - (zero + (top - zero) * count / 4.0)).abs() < 0.11, "{y}");
    }
    // The greatest value is at the top of the plot.
    assert_eq!(corners[2], (257.9, 42.0));
}

#[test]
fn a_second_without_success_is_a_gap_in_the_response_time() {
    let svg = svg(&run(&[100, 200, 0, 300, 200]), "time");
    let mean = svg.rfind("class=\"line ink\"").unwrap();
    let data = attribute(&svg[mean - 10..], "class=\"line ink\"", "d");
    assert_eq!(data.matches('M').count(), 2, "{data}");
    assert_eq!(data.matches('L').count(), 2, "{data}");
}

#[test]
fn where_nothing_succeeded_there_is_no_axis_of_response_times() {
    let mut record = run(&[0, 0, 0]);
    assert!(!svg(&record, "time").contains("response time</text>"));
    record.seconds[1].succeeded = 1;
    record.seconds[1].mean_ns = 1_000_000;
    assert!(svg(&record, "time").contains("response time</text>"));
}

#[test]
fn one_second_is_a_point() {
    let svg = svg(&made::one_second(), "time");
    assert!(svg.contains("class=\"dot ink\""));
    assert!(svg.contains("class=\"dot grey\""));
}

#[test]
fn read_offs_are_marked_at_their_steps() {
    let record = made::ramp();
    let read = record.capacity.as_ref().unwrap().read_offs;
    let svg = svg(&record, "capacity");
    assert_eq!(svg.matches("data-callout=").count(), 2, "three of four are the same step");
    assert!(svg.contains(&format!("few errors: {:.0}/s", read.few_errors_per_s.unwrap())));
    assert!(svg.contains("limit 100 ms"));
    let y = number(&svg, "data-callout=\"few errors", "cy");
    let peak = number(&svg, "data-callout=\"&lt; 100 ms, &lt; 500 ms, peak", "cy");
    assert!(peak < y, "more stands higher: {peak} {y}");
}

#[test]
fn a_ramp_without_steps_is_read_off_its_seconds() {
    let svg = svg(&made::plain_ramp(), "capacity");
    assert!(svg.contains("peak") && svg.contains("data-callout="));
}

#[test]
fn documents_stand_alone_in_dark_and_light() {
    for (name, svg) in made::report_of(&made::ramp()).figures() {
        assert!(svg.starts_with("<svg "), "{name}");
        assert!(svg.contains(" xmlns=\"http://www.w3.org/2000/svg\""));
        assert!(svg.contains("prefers-color-scheme: dark"));
        assert!(svg.contains("<title ") && svg.contains("<desc "));
        let open = svg.matches('<').count();
        assert_eq!(open, svg.matches('>').count());
    }
}

#[test]
fn lines_differ_without_colour() {
    let record = made::one_second();
    let figures = made::report(&[(); 5].map(|()| record.clone())).figures();
    let (_, svg) = figures.iter().find(|(name, _)| name == "comparison").unwrap();
    let dashes: Vec<&str> = svg
        .match_indices("class=\"line ")
        .map(|(start, _)| {
            let element = &svg[start..start + svg[start..].find('>').unwrap()];
            element
                .split_once("stroke-dasharray=\"")
                .map_or("", |(_, after)| after.split_once('"').unwrap().0)
        })
        .collect();
    let different: std::collections::BTreeSet<&str> = dashes.iter().copied().collect();
    assert_eq!(different.len(), 5, "{dashes:?}");
}

/// Transactions begun within the load end after it; that is no fall of the rate.
#[test]
fn what_ends_after_the_load_is_no_part_of_its_rate() {
    let whole = run(&[500, 500, 500, 500]);
    let mut ended = run(&[500, 500, 500, 500, 3]);
    ended.elapsed_ns = whole.elapsed_ns;
    ended.seconds[4].attempted = 0;
    let line = |record: &LoadRecord| attribute(&svg(record, "time"), "class=\"line ink\"", "d");
    assert_eq!(line(&ended).matches('L').count(), line(&whole).matches('L').count());
}
