//! Any bytes from a proxy that is asked for a host: no panic, and for every cut, the same is sent
//! and no byte behind the proxy's answer is taken.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::tunnel::{Tunnel, TunnelDialog, TunnelFault, TunnelLogin, TunnelProtocol, TunnelStep};

/// Passes the bytes in pieces of at most `piece`; returns the output, the end, and bytes taken.
fn talk(
    tunnel: &Tunnel,
    bytes: &[u8],
    piece: usize,
) -> (Vec<u8>, Option<Result<(), TunnelFault>>, usize) {
    let (mut dialog, mut sent) = TunnelDialog::begin(tunnel);
    let mut taken = 0;
    loop {
        let wants = dialog.wants();
        assert!(wants > 0);
        let next = &bytes[taken..];
        let next = &next[..next.len().min(wants).min(piece)];
        if next.is_empty() {
            return (sent, None, taken);
        }
        taken += next.len();
        match dialog.received(next, tunnel) {
            Ok(TunnelStep::More) => {}
            Ok(TunnelStep::Send(bytes)) => sent.extend(bytes),
            Ok(TunnelStep::Up) => return (sent, Some(Ok(())), taken),
            Err(fault) => return (sent, Some(Err(fault)), taken),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let [kind, bytes @ ..] = bytes else { return };
    let login = TunnelLogin { user: "me".to_owned(), password: "secret".to_owned() };
    let tunnel = Tunnel {
        protocol: [TunnelProtocol::HttpConnect, TunnelProtocol::Socks5][usize::from(kind & 1)],
        host: ["a.example", "192.0.2.1", "::1"][usize::from(kind >> 2) % 3].to_owned(),
        port: 443,
        login: (kind & 2 != 0).then_some(login),
    };
    let (sent, end, taken) = talk(&tunnel, bytes, usize::MAX);
    let (sent_too, end_too, taken_too) = talk(&tunnel, bytes, 1);
    assert_eq!((&sent, end.is_some()), (&sent_too, end_too.is_some()));
    if end == Some(Ok(())) {
        assert_eq!((end, taken), (end_too, taken_too));
    }
});
