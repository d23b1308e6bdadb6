//! Times of a service: those of a frontend and of a backend together.

use crate::convert::milliseconds;
use crate::draft::DraftTable;
use crate::import::Import;
use crate::meaning::Conversion;
use crate::source::Statement;
use crate::statements::Statements;

const IDLE: &str = "service.timeouts.idle";
const HANDSHAKE: &str = "service.timeouts.handshake";
const NO_LIMIT: &str = "no limit: what is not written is HAProxy's";

/// Writes them; what is said by keys alone is there already.
pub(super) fn write(
    front: &Statements,
    back: &Statements,
    is_passthrough: bool,
    import: &mut Import,
    service: &mut DraftTable,
) {
    let tunnel = back.find("timeout tunnel").or_else(|| front.find("timeout tunnel"));
    let [client, server] = [front.find("timeout client"), back.find("timeout server")];
    write_idle([client, server], tunnel, import, service);
    let delay =
        front.find("tcp-request inspect-delay").or_else(|| back.find("tcp-request inspect-delay"));
    if let Some(delay) = delay.filter(|_| is_passthrough) {
        import.apply_key(HANDSHAKE, Conversion::Milliseconds, "", delay, service);
    } else if let Some(client) = client.filter(|one| !is_endless(one)) {
        import.apply_key(HANDSHAKE, Conversion::Milliseconds, "", client, service);
        service.remark("timeouts.handshake", "`timeout client` bounds the handshake too");
    }
    for written in
        front.all("tcp-request inspect-delay").chain(back.all("tcp-request inspect-delay"))
    {
        if !is_passthrough {
            import.mapped(written, "without effect: no rule waits for bytes");
        }
    }
    write_keepalive(front, ["option clitcpka", "clitcpka-idle"], "front", import, service);
    write_keepalive(back, ["option srvtcpka", "srvtcpka-idle"], "back", import, service);
    let waits = service.find("back.servers").is_some_and(|servers| {
        servers.values.iter().any(|one| one.value.to_string().contains("max-connections"))
    });
    if let Some(dial) = service.text("timeouts.dial").filter(|_| waits).map(str::to_owned) {
        let remark = "without `timeout queue`, HAProxy waits for as long as `timeout connect`";
        service.set_default("back.queue.timeout", dial, remark);
    }
}

/// The shorter time of the two sides, unless there is one for both.
fn write_idle(
    sides: [Option<&Statement>; 2],
    tunnel: Option<&Statement>,
    import: &mut Import,
    service: &mut DraftTable,
) {
    let mut sides: Vec<_> = sides.into_iter().flatten().collect();
    let endless: Vec<_> = sides.iter().copied().filter(|one| is_endless(one)).collect();
    for written in endless {
        import.mapped(written, NO_LIMIT);
    }
    sides.retain(|one| !is_endless(one));
    sides.sort_by_key(|one| milliseconds(&one.value(), 1));
    let chosen = tunnel.or_else(|| sides.first().copied());
    let same = |one: &Statement| Some(one.value()) == chosen.map(Statement::value);
    for written in sides.iter().filter(|one| !same(one)) {
        let note = match tunnel {
            Some(_) => "`timeout tunnel` counts for both sides",
            None => "the shorter of both sides counts for both",
        };
        import.joined(written, IDLE, note);
    }
    for written in sides.iter().filter(|one| same(one)) {
        import.joined(written, IDLE, "");
    }
    match chosen {
        Some(written) if is_endless(written) => import.mapped(written, NO_LIMIT),
        Some(written) => import.apply_key(IDLE, Conversion::Milliseconds, "", written, service),
        None => {}
    }
}

fn write_keepalive(
    options: &Statements,
    [option, idle]: [&str; 2],
    side: &str,
    import: &mut Import,
    service: &mut DraftTable,
) {
    let key = format!("service.{side}.keepalive");
    let switches = [options.find("option tcpka"), options.find(option)];
    let on = switches.into_iter().flatten().last();
    let idle = options.find(idle);
    match (on, idle) {
        (Some(on), Some(idle)) => {
            import.apply_key(&key, Conversion::Seconds, "", idle, service);
            import.joined(on, &key, "");
        }
        (Some(on), None) => import.put(service, &key, "2h", on, "the kernel's own time"),
        (None, Some(idle)) => import.mapped(idle, "without effect: no client or server is asked"),
        (None, None) => {}
    }
}

/// Whether HAProxy takes a time as none.
fn is_endless(written: &Statement) -> bool {
    milliseconds(&written.value(), 1) == Some(0)
}
