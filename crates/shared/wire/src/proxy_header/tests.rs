//! Lines of version 1, which are read by position.

use super::*;

fn parsed(line: &str) -> Result<Addresses<'_>, ProxyFault> {
    let (header, wire_bytes) = read_v1(line.as_bytes())?.expect("a whole line");
    assert_eq!(wire_bytes, line.find("\r\n").unwrap() + 2);
    Ok(header.addresses)
}

#[test]
fn the_example_of_the_specification() {
    let addresses =
        parsed("PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\nGET / HTTP/1.1\r\n").unwrap();
    assert_eq!(addresses.source(), Some("192.168.0.1:56324".parse().unwrap()));
    assert_eq!(addresses.destination(), Some("192.168.0.11:443".parse().unwrap()));
}

#[test]
fn unknown_may_say_anything() {
    let worst = "PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff \
                 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n";
    assert_eq!(worst.len(), LINE_BYTES_MAX);
    for line in [worst, "PROXY UNKNOWN\r\n", "PROXY UNKNOWN a b\tc\r\n"] {
        assert_eq!(parsed(line), Ok(Addresses::Unknown));
    }
    let longer = worst.replace("\r\n", "1\r\n");
    assert_eq!(parsed(&longer), Err(ProxyFault::LineTooLong));
}

#[test]
fn each_departure_is_refused() {
    use ProxyFault::{Line, NotProxy};
    for (line, fault) in [
        ("PROXX", NotProxy),
        ("PROXY\tTCP4", NotProxy),
        ("PROXY  TCP4", Line("protocol")),
        ("PROXY UDP4 ", Line("protocol")),
        ("PROXY tcp4 ", Line("protocol")),
        ("PROXY UNKNOWNS\r\n", Line("protocol")),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1 2\n", Line("line end")),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1 2\rx", Line("line end")),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1\r\n", Line("number of fields")),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1 2 3\r\n", Line("number of fields")),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1 2 \r\n", Line("number of fields")),
        ("PROXY TCP4  1.1.1.1 2.2.2.2 1 2\r\n", Line("address")),
        ("PROXY TCP4 01.1.1.1 2.2.2.2 1 2\r\n", Line("address")),
        ("PROXY TCP4 1.1.1 2.2.2.2 1 2\r\n", Line("address")),
        ("PROXY TCP4 256.1.1.1 2.2.2.2 1 2\r\n", Line("address")),
        ("PROXY TCP4 ::1 ::2 1 2\r\n", Line("address")),
        ("PROXY TCP6 1.1.1.1 2.2.2.2 1 2\r\n", Line("address")),
        ("PROXY TCP6 ::1::2 ::2 1 2\r\n", Line("address")),
        ("PROXY TCP6 fe80::1%lo ::2 1 2\r\n", Line("address")),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 01 2\r\n", Line("port")),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 1 65536\r\n", Line("port")),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 +1 2\r\n", Line("port")),
        ("PROXY TCP4 1.1.1.1 2.2.2.2 -1 2\r\n", Line("port")),
    ] {
        assert_eq!(read(line.as_bytes()), Err(fault), "{line:?}");
    }
}

#[test]
fn lines_are_written_as_the_grammar_wants() {
    let line = |source: &str, destination: &str| {
        let mut out = Vec::new();
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        write_v1(&Addresses::tcp(source, destination), &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(line("1.2.3.4:0", "5.6.7.8:65535"), "PROXY TCP4 1.2.3.4 5.6.7.8 0 65535\r\n");
    assert_eq!(line("[::1]:1", "[2001:db8::]:2"), "PROXY TCP6 ::1 2001:db8:: 1 2\r\n");
    assert_eq!(line("1.2.3.4:1", "[::1]:2"), "PROXY TCP6 ::ffff:102:304 ::1 1 2\r\n");
    let mut out = b"kept ".to_vec();
    write_v1(&Addresses::Unknown, &mut out);
    assert_eq!(out, b"kept PROXY UNKNOWN\r\n");
}
