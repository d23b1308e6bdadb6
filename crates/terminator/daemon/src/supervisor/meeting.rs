//! Asking a running supervisor for all that it has, before anything is opened here.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sys::signal::Signal;

use super::events::{Event, EventQueue};
use super::failure::Failure;
use super::predecessor::{From, Inherited, Told, connect};
use crate::takeover::{Hello, PREDECESSOR_VARIABLE, Predecessor, Successor};

/// How long we wait for its offer: it ends a reload first.
const OFFER_TIME_MAX: Duration = Duration::from_secs(200);

pub(super) enum Met {
    /// Nobody runs there: this one begins by itself.
    Nobody,
    Offered(From, Box<Inherited>),
    /// This one was told to stop meanwhile.
    Stopped,
}

/// Asks the running supervisor there, if there is one, for all that it has.
pub(super) fn meet(socket: PathBuf, own: Hello, events: &mut EventQueue) -> Result<Met, Failure> {
    let named = std::env::var_os(PREDECESSOR_VARIABLE).map(PathBuf::from);
    let Some(mut from) = connect(&named.unwrap_or(socket))? else {
        return Ok(Met::Nobody);
    };
    from.send(&Successor::Hello(own))?;
    let sender = events.sender();
    from.listen(move |told| sender.send(Event::Told(told)))?;
    let until = Instant::now() + OFFER_TIME_MAX;
    let is_wanted = |news: &Event| {
        let ends = [Signal::Interrupt, Signal::Terminate];
        matches!(news, Event::Told(_))
            || matches!(news, Event::Signal(signal) if ends.contains(signal))
    };
    let news = events.next_of(until, is_wanted);
    match news.map_err(Failure::host("wait for events"))? {
        Some(Event::Told(Told::Message(Predecessor::Offer(offer), fds))) => {
            let checked = offer.check(fds.len());
            checked.map_err(|why| from.failed(why))?;
            from.watches = offer.watches;
            Ok(Met::Offered(from, Box::new(Inherited::new(*offer, fds))))
        }
        Some(Event::Told(Told::Message(Predecessor::Refused { why }, _))) => Err(from.failed(why)),
        Some(Event::Told(_)) => Err(from.failed("it broke the connection off".to_owned())),
        Some(_) => Ok(Met::Stopped),
        None => Err(from.failed(format!("it offered nothing in {OFFER_TIME_MAX:?}"))),
    }
}
