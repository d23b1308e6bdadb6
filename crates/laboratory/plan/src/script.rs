//! Parses the script of a simulation: events of the farm, and their times.

use options::quantity;

use crate::PlanFault;

/// A part of the nodes or clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FarmPart {
    Count(u32),
    Share(f64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FarmEvent {
    /// Nodes die at once, with their connections and, unless they are shared, their sessions.
    Lose(FarmPart),
    /// Each node in turn is away for this many seconds.
    Roll(f64),
    StoreAway,
    /// The nodes are split into two halves that cannot reach each other.
    Partition,
    /// Clients' sessions become useless, as when keys are lost that were never shared.
    Forget(f64),
    /// A reload takes a share of each node's CPU.
    Reload(f64),
    /// Clients come more often.
    Load(f64),
    /// Clients return in addition to their usual visits, spread over the time.
    Return(f64),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ScriptLine {
    pub text: String,
    pub at_s: f64,
    /// Duration of the event; `None`: until the end.
    pub length_s: Option<f64>,
    pub event: FarmEvent,
}

impl ScriptLine {
    /// Parses `10m lose 1 for 2m`: the instant, the event, and its duration.
    ///
    /// # Errors
    /// Fails with [`PlanFault::Script`] for a malformed line, [`PlanFault::Meaning`] for one that
    /// makes no sense.
    pub fn parse(text: &str) -> Result<Self, PlanFault> {
        let foreign = || PlanFault::Script(text.escape_debug().to_string());
        let meaning = |why: &str| PlanFault::Meaning {
            line: text.escape_debug().to_string(),
            why: why.to_owned(),
        };
        let seconds = |text: &str| quantity::duration(text).map(|time| time.as_secs_f64());
        let words: Vec<&str> = text.split_whitespace().collect();
        let (words, length_s) = match words.as_slice() {
            [rest @ .., "for" | "in", time] => (rest, Some(seconds(time).ok_or_else(foreign)?)),
            rest => (rest, None),
        };
        let (at, words) = words.split_first().ok_or_else(foreign)?;
        let at_s = seconds(at).ok_or_else(foreign)?;
        let event = match words {
            ["lose", part] => FarmEvent::Lose(part_of(part).ok_or_else(foreign)?),
            ["roll", time] => FarmEvent::Roll(seconds(time).ok_or_else(foreign)?),
            ["store", "away"] => FarmEvent::StoreAway,
            ["partition"] => FarmEvent::Partition,
            ["forget", share] => FarmEvent::Forget(percent(share).ok_or_else(foreign)?),
            ["reload", share] => FarmEvent::Reload(percent(share).ok_or_else(foreign)?),
            ["load", times] => FarmEvent::Load(factor(times).ok_or_else(foreign)?),
            ["return", share] => FarmEvent::Return(percent(share).ok_or_else(foreign)?),
            _ => return Err(foreign()),
        };
        match event {
            FarmEvent::Return(_) if length_s.is_none_or(|length| length <= 0.0) => {
                return Err(meaning("does not say in which time: `return 80% in 10s`"));
            }
            FarmEvent::Load(times) if !(0.0..=1e6).contains(&times) => {
                return Err(meaning("multiplies the load by no number that can be meant"));
            }
            FarmEvent::Roll(each) if each <= 0.0 || length_s.is_some() => {
                return Err(meaning("is as long as each node's turn, one after the other"));
            }
            _ => {}
        }
        Ok(Self { text: text.to_owned(), at_s, length_s, event })
    }

    /// Returns the end of the event, in a farm of that many nodes.
    pub fn end_s(&self, nodes: u32) -> f64 {
        match self.event {
            FarmEvent::Roll(each) => self.at_s + each * f64::from(nodes),
            _ => self.at_s + self.length_s.unwrap_or(0.0),
        }
    }
}

impl FarmPart {
    /// Returns the number of affected nodes, at least one.
    pub fn of(self, nodes: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Share(share) => (f64::from(nodes) * share).round().max(1.0) as u32,
        }
    }
}

/// Parses `3`, `30%`, `1/3`.
fn part_of(text: &str) -> Option<FarmPart> {
    if let Some((above, below)) = text.split_once('/') {
        let share = above.parse::<f64>().ok()? / below.parse::<f64>().ok()?;
        return (share > 0.0 && share <= 1.0).then_some(FarmPart::Share(share));
    }
    match percent(text) {
        Some(share) => Some(FarmPart::Share(share)),
        None => text.parse().ok().filter(|count| *count > 0).map(FarmPart::Count),
    }
}

fn percent(text: &str) -> Option<f64> {
    let share = text.strip_suffix('%')?.parse::<f64>().ok()? / 100.0;
    (0.0..=1.0).contains(&share).then_some(share)
}

fn factor(text: &str) -> Option<f64> {
    text.strip_suffix('x')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_happens_when_and_how_long() {
        let line = ScriptLine::parse("10m lose 1/3 for 2m").unwrap();
        assert_eq!((line.at_s, line.end_s(9)), (600.0, 720.0));
        assert!(matches!(line.event, FarmEvent::Lose(part) if part.of(9) == 3));
        assert_eq!(ScriptLine::parse("1h roll 30s").unwrap().end_s(4), 3720.0);
        assert_eq!(ScriptLine::parse("5s load 2x").unwrap().event, FarmEvent::Load(2.0));
    }

    #[test]
    fn other_lines_are_refused() {
        for text in ["", "lose 1", "5m", "5m lose 0", "5m lose -1", "5m lose 120%", "5 load 2x"] {
            assert!(matches!(ScriptLine::parse(text), Err(PlanFault::Script(_))), "{text}");
        }
        for text in ["5m return 80%", "5m roll 5s for 2m"] {
            assert!(matches!(ScriptLine::parse(text), Err(PlanFault::Meaning { .. })), "{text}");
        }
    }
}
