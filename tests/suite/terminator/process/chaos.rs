//! A few seconds of chaos, the same each time; `./run-tests chaos` goes on for minutes.

use std::sync::Arc;

use suite::chaos::journal::Journal;
use suite::chaos::run::{Plan, run};
use suite::chaos::script::{Fault, Phase};
use suite::patience::PATIENCE;

#[test]
fn promises_hold_while_the_worker_process_dies_and_a_certificate_is_damaged() {
    let plan = Plan { seed: 288, first: 0, phases: 2, time: PATIENCE };
    assert!(Phase::by_seed(plan.seed, 0).is_calm);
    let faults = Phase::by_seed(plan.seed, 1);
    assert!(faults.has(Fault::Kill) && faults.has(Fault::BadCertificate));
    let journal = Arc::new(Journal::default());
    run(&plan, &journal);
    assert_eq!(journal.all_broken(), [""; 0]);
}
