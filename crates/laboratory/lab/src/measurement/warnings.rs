//! Whether the server or the client limited a rate.

use std::time::Duration;

use measure::record::Warning;

use super::machine::share;

/// CPUs that work for this share of the time have nothing left.
const BUSY_MIN: f64 = 0.9;

/// The measured capacity of a server.
#[derive(Clone, Copy)]
pub(crate) struct Capacity {
    /// Transactions that succeeded a second.
    pub(crate) per_s: f64,
    /// The share of the time that its CPUs worked for it.
    pub(crate) server_busy: f64,
}

/// A load that leaves the server idle does not measure its capacity.
pub(crate) fn of_capacity(found: Capacity) -> Option<Warning> {
    (found.server_busy < BUSY_MIN).then(|| Warning {
        seen: format!(
            "while it was found out what the server can do, it worked for {:.0} % of the time: it \
             can do more than that",
            found.server_busy * 100.0
        ),
        hint: "what is offered, and goodput, are multiples of too little: leave the host to the \
               run, and give the load more CPUs (`--client-cpus`)"
            .to_owned(),
    })
}

/// Load and origin have the same CPUs: none of the two need be busy for both to be the limit.
/// `client` is what both used, `server_busy` the share of the time that the server worked.
pub(crate) fn of_client(
    client: Duration,
    elapsed: Duration,
    cpus: usize,
    server_busy: f64,
) -> Option<Warning> {
    let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
    let client_busy = share(client, elapsed * cpus);
    let is_limit = client_busy >= BUSY_MIN && server_busy < BUSY_MIN;
    is_limit.then(|| Warning {
        seen: format!(
            "load and origin kept their CPUs busy for {:.0} % of the time, the server its own for \
             {:.0} %: they may limit the rate",
            client_busy * 100.0,
            server_busy * 100.0
        ),
        hint:
            "CPU time per operation is valid all the same; to compare rates, give them more CPUs \
               (`--client-cpus`)"
                .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn who_has_nothing_left_is_the_limit() {
        let told = of_client(SECOND * 19 / 10, SECOND, 2, 0.6).unwrap();
        assert!(told.seen.contains("95 %") && told.seen.contains("60 %"));
        assert_eq!(of_client(SECOND * 19 / 10, SECOND, 2, 0.95), None);
        assert_eq!(of_client(SECOND, SECOND, 2, 0.6), None);
    }

    #[test]
    fn a_capacity_is_of_a_server_that_had_no_rest() {
        let found = |server_busy| Capacity {
            per_s: 100.0,
            server_busy,
        };
        assert_eq!(of_capacity(found(0.95)), None);
        assert!(of_capacity(found(0.5)).unwrap().seen.contains("50 %"));
    }
}
