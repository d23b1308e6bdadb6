//! Performs one step of a client or a server.

use super::host::{SERVERS, SERVICES, ServerKind, SimulatedHost};
use super::peers::{SimulatedClient, SimulatedServer};
use super::script::{ClientStep, ServerStep};

pub(super) fn of_client(
    client: &mut SimulatedClient,
    step: ClientStep,
    host: &SimulatedHost,
    room: &mut Vec<u8>,
) {
    match step {
        ClientStep::Says(count) => {
            client.say(count);
            client.end.write(usize::MAX);
        }
        ClientStep::Sends(count) => _ = client.end.write(count),
        ClientStep::Reads(count) => _ = client.read(host, count, room),
        ClientStep::UpdatesKeys => client.update_keys(),
        ClientStep::ClosesItsTls => client.close_notify(),
        ClientStep::EndsItsStream => client.fin(),
        ClientStep::Stalls => (client.is_dumb, client.is_faulty) = (true, true),
        ClientStep::SendsGarbage if !client.is_tls() => {}
        ClientStep::SendsGarbage => {
            client.end.out.extend_from_slice(b"\x17\x03\x03\x00\x20garbage");
            client.is_faulty = true;
        }
        ClientStep::Closes => {
            client.fin();
            client.is_faulty = true;
            client.end.close();
        }
        ClientStep::Resets => {
            client.is_faulty = true;
            if !SERVICES[client.service].is_tcp {
                // A Unix socket resets only if bytes are unread.
                client.fin();
            }
            client.end.reset();
        }
    }
}

pub(super) fn of_server(
    server: &mut SimulatedServer,
    step: ServerStep,
    host: &SimulatedHost,
    room: &mut Vec<u8>,
) {
    match step {
        ServerStep::Says(count) => {
            server.say(count);
            server.end.write(usize::MAX);
        }
        ServerStep::Sends(count) => _ = server.end.write(count),
        ServerStep::Reads(count) => _ = server.read(host, count, room),
        ServerStep::UpdatesKeys => server.update_keys(),
        ServerStep::Ends => {
            if server.said == server.total && server.may_say() {
                server.finish();
            }
        }
        ServerStep::EndsItsStream => server.fin(),
        ServerStep::Stalls => (server.is_dumb, server.is_faulty) = (true, true),
        ServerStep::Closes => {
            server.fin();
            server.is_faulty = true;
            server.end.close();
        }
        ServerStep::Resets => {
            server.is_faulty = true;
            if SERVERS[server.at] != ServerKind::Tcp {
                server.fin();
            }
            server.end.reset();
        }
    }
}
