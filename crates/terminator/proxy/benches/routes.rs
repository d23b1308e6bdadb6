//! `cargo bench -p proxy --bench routes`: what the choice of a service costs by the number of names
//! at its address, in CPU time, on one thread.

use std::hint::black_box;
use std::time::Duration;

use proxy::routes::{NamePattern, RouteTable, Wish};
use sys::cpu::thread_time;

const LOOK_UPS: u32 = 200_000;
const ROUNDS: usize = 5;

/// The shortest of some rounds: what disturbs one only makes it longer.
fn nanoseconds(table: &RouteTable, names: &[String]) -> f64 {
    let round = |_| {
        let begun = thread_time();
        let mut number = 0;
        for _ in 0..LOOK_UPS {
            // By a step that has no common factor with their number, so that no name is near.
            number = (number + 7919) % names.len();
            let protocols = [&b"h2"[..], b"http/1.1"];
            let chosen = table.choose(Some(&names[number]), protocols.into_iter());
            assert!(black_box(chosen).is_some());
        }
        thread_time().saturating_sub(begun)
    };
    let best = (0..ROUNDS).map(round).min().unwrap_or(Duration::ZERO);
    best.as_nanos() as f64 / f64::from(LOOK_UPS)
}

fn main() {
    println!("names   exact   beneath a wildcard   of 63 labels   (ns a look-up)");
    for count in [10, 100, 1000, 10_000, 100_000] {
        let name = |number: u32| format!("n{number}.shop.example");
        let patterns = |prefix: &str| -> Vec<NamePattern> {
            let each = (0..count).map(|number| format!("{prefix}{}", name(number)).parse());
            each.map(|one| one.expect("a name")).collect()
        };
        let (exact, beneath) = (patterns(""), patterns("*."));
        let wish = |names| Wish { names, protocols: &[] };
        let both = [wish(&exact[..]), wish(&beneath[..])];
        let table = RouteTable::build(both.into_iter().enumerate()).expect("no overlap");
        let asked = |prefix: &str| -> Vec<String> {
            (0..count).map(|one| format!("{prefix}{}", name(one))).collect()
        };
        let costs =
            ["", "www.", &"a.".repeat(60)].map(|prefix| nanoseconds(&table, &asked(prefix)));
        println!("{count:6} {:7.0} {:20.0} {:14.0}", costs[0], costs[1], costs[2]);
    }
}
