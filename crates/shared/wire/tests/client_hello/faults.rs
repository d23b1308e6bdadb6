//! Faults of hellos, how early each is detected, and its alert.

use crate::build::{
    Build, handshake, numbers, pre_shared_key, record, records, server_name, vector8, vector16,
};
use crate::hello;
use wire::alert;
use wire::client_hello::{HELLO_BYTES_MAX, HelloFault, HelloProgress, Reader, alert_record, read};

/// Returns the fault of these bytes, which must not show before the last of them.
fn fault_of(bytes: &[u8]) -> HelloFault {
    let before = read(&bytes[..bytes.len() - 1]);
    assert!(
        matches!(before, Ok(HelloProgress::Incomplete)),
        "too early: {before:?} in {bytes:02x?}"
    );
    read(bytes).expect_err("a fault")
}

#[test]
fn other_protocols_are_recognized_by_their_first_bytes() {
    for bytes in [&b"\0"[..], b"S", b"\n", b"\r", b"\x7f", b"\x19", b"GEX", b"PROX", b"g"] {
        assert_eq!(fault_of(bytes), HelloFault::NotTls, "{bytes:?}");
    }
    assert_eq!(fault_of(&[22, 2, 0, 0, 5, 2]), HelloFault::NotTls);
    assert_eq!(fault_of(&[0x80, 0x2e, 2]), HelloFault::NotTls);
    assert_eq!(HelloFault::NotTls.alert(), None);
}

#[test]
fn plaintext_http_is_named() {
    for method in ["GET", "POST", "HEAD", "PUT", "OPTIONS", "CONNECT", "PRI", "DELETE", "PATCH"] {
        assert_eq!(fault_of(format!("{method} ").as_bytes()), HelloFault::PlainHttp, "{method}");
    }
    assert_eq!(read(b"GET / HTTP/1.1\r\n\r\n").unwrap_err(), HelloFault::PlainHttp);
    assert_eq!(HelloFault::PlainHttp.alert(), None);
}

#[test]
fn sslv2_hellos_are_named() {
    assert_eq!(fault_of(&[0x80, 0x2e, 1, 0, 2]), HelloFault::Sslv2);
    assert_eq!(fault_of(&[0x80, 0x2e, 1, 3]), HelloFault::Sslv2);
    assert_eq!(HelloFault::Sslv2.alert(), Some(alert::PROTOCOL_VERSION));
}

#[test]
fn headers_are_judged_when_they_are_there() {
    let unexpected = |bytes: &[u8]| {
        assert_eq!(fault_of(bytes).alert(), Some(alert::UNEXPECTED_MESSAGE), "{bytes:?}");
    };
    unexpected(&[21, 3]);
    unexpected(&[20, 3]);
    unexpected(&[22, 3, 1, 0, 100, 2]);
    unexpected(&[22, 3, 1, 0, 100, 0]);
    unexpected(&[22, 3, 1, 0, 100, 1, 0, 0, 95]);
    assert_eq!(fault_of(&[22, 3, 1, 0, 0]), HelloFault::Unexpected("a record without content"));
    assert_eq!(fault_of(&[22, 3, 1, 0x40, 1]), HelloFault::RecordTooLarge(0x4001));
    assert_eq!(fault_of(&[22, 3, 1, 0, 44, 1, 0, 0, 40]).alert(), Some(alert::DECODE_ERROR));
    assert_eq!(fault_of(&[22, 3, 1, 0x40, 0, 1, 0, 0x40, 1]), HelloFault::TooLarge(0x4001));
    assert_eq!(
        fault_of(&[22, 3, 0, 0, 100, 1, 0, 0, 96, 3, 0]),
        HelloFault::VersionTooOld { highest: 0x0300 }
    );
}

#[test]
fn a_hello_of_the_limit_is_read_and_no_larger_one() {
    let mut build = Build::with(&[(0x1234, &[])]);
    let spare = HELLO_BYTES_MAX + 4 - build.message().len();
    build.extensions[0].1 = vec![0; spare];
    let wire = records(&build.message(), &[1 << 14]);
    assert_eq!(hello(&wire).body().len(), HELLO_BYTES_MAX);
    build.extensions[0].1.push(0);
    let fault = read(&records(&build.message(), &[1 << 14])).unwrap_err();
    assert_eq!(fault, HelloFault::TooLarge(u32::try_from(HELLO_BYTES_MAX + 1).unwrap()));
}

#[test]
fn fragments_are_joined_whatever_their_number() {
    let message = Build::with(&[(0x1234, &[0; 15_000])]).message();
    let wire = records(&message, &[1; 16_000]);
    assert_eq!(hello(&wire).wire_bytes(), wire.len());
    assert_eq!(hello(&wire).body(), &message[4..]);
    let mut reader = Reader::default();
    for end in 0..wire.len() {
        let peek = reader.read(&wire[..end]);
        assert!(matches!(peek, Ok(HelloProgress::Incomplete)), "{end}: {peek:?}");
    }
    let Ok(HelloProgress::Hello(hello)) = reader.read(&wire) else {
        panic!("the hello is whole");
    };
    assert_eq!(hello.body(), &message[4..]);
}

#[test]
fn nothing_else_comes_amid_the_hello_or_in_its_last_record() {
    let message = Build::default().message();
    let (head, tail) = message.split_at(10);
    let begun = record(head);
    for (next, description) in [
        (&[20][..], alert::UNEXPECTED_MESSAGE),
        (&[23], alert::UNEXPECTED_MESSAGE),
        (&[22, 3, 1, 0, 0], alert::UNEXPECTED_MESSAGE),
        (&[22, 3, 1, 0x40, 1], alert::RECORD_OVERFLOW),
    ] {
        let fault = fault_of(&[&begun[..], next].concat());
        assert_eq!(fault.alert(), Some(description), "{next:?}");
    }
    let spare = record(&[tail, &[0]].concat());
    let fault = fault_of(&[&begun, &spare[..5]].concat());
    assert_eq!(fault, HelloFault::Unexpected("bytes after the hello"));
}

#[test]
fn fields_outside_the_extensions() {
    let alert_of = |build: Build| read(&build.wire()).map(drop).map_err(|f| f.alert().unwrap());
    let build = Build::default;
    assert_eq!(alert_of(build()), Ok(()));
    let decode_error = Err(alert::DECODE_ERROR);
    let session_id = vec![0; 33];
    assert_eq!(alert_of(Build { session_id, ..build() }), decode_error);
    assert_eq!(alert_of(Build { suites: vec![], session_id: vec![0; 2], ..build() }), decode_error);
    let compression = vec![];
    assert_eq!(alert_of(Build { compression, session_id: vec![0], ..build() }), decode_error);
    let compression = vec![1];
    assert_eq!(alert_of(Build { compression, ..build() }), Err(alert::ILLEGAL_PARAMETER));
    let mut message = build().message();
    message.push(0);
    message[3] += 1;
    assert_eq!(read(&record(&message)).unwrap_err().alert(), Some(alert::DECODE_ERROR));
    let mut message = Build::with(&[(0x1234, &[])]).message();
    message.push(0);
    message[3] += 1;
    let fault = read(&record(&message)).unwrap_err();
    assert_eq!(fault, HelloFault::Malformed("bytes after the extensions"));
}

#[test]
fn versions_count_by_the_extension_where_there_is_one() {
    let highest = |legacy_version, versions: &[u16]| {
        let mut build = Build::with(&[(43, &vector8(&numbers(versions)))]);
        if versions.is_empty() {
            build.extensions.clear();
        }
        let build = Build { legacy_version, ..build };
        match read(&build.wire()) {
            Ok(HelloProgress::Hello(hello)) => Ok(hello.highest_version()),
            Ok(HelloProgress::Incomplete) => panic!("incomplete"),
            Err(fault) => Err(fault),
        }
    };
    let too_old = |highest| Err(HelloFault::VersionTooOld { highest });
    assert_eq!(highest(0x0303, &[]), Ok(0x0303));
    assert_eq!(highest(0x0304, &[]), Ok(0x0303));
    assert_eq!(highest(0x0302, &[]), too_old(0x0302));
    assert_eq!(highest(0x0303, &[0x0304]), Ok(0x0304));
    assert_eq!(highest(0x0301, &[0x0303]), Ok(0x0303));
    assert_eq!(highest(0x0303, &[0x0a0a, 0x7f1c, 0x0305, 0x0304]), Ok(0x0304));
    assert_eq!(highest(0x0303, &[0x0302, 0x0301]), too_old(0x0302));
    assert_eq!(highest(0x0303, &[0x0a0a]), too_old(0));
}

#[test]
fn server_names_are_host_names() {
    let name = |text: &str| {
        let wire = Build::with(&[(0, &server_name(text.as_bytes()))]).wire();
        match read(&wire) {
            Ok(_) => Ok(hello(&wire).server_name().map(str::to_owned)),
            Err(fault) => Err(fault.alert().unwrap()),
        }
    };
    assert_eq!(name("Www.Example.com"), Ok(Some("Www.Example.com".into())));
    assert_eq!(name("www.example.com."), Ok(Some("www.example.com".into())));
    assert_eq!(name("192.0.2.1"), Ok(None));
    assert_eq!(name("2001:db8::1"), Ok(None));
    for unusual in ["-a", "a-.b", "a.1", "1.2.3"] {
        assert_eq!(name(unusual), Ok(Some(unusual.into())));
    }
    // Invalid names are kept separately, for the log.
    for other in ["192.0.2.1", "a b", "a\0", "..", "*.example.com", "ex\u{e4}mple", "a.b:443"] {
        assert_eq!(name(other), Ok(None), "{other:?}");
        let wire = Build::with(&[(0, &server_name(other.as_bytes()))]).wire();
        assert_eq!(hello(&wire).other_name(), Some(other.as_bytes()));
    }
    assert_eq!(name(""), Err(alert::ILLEGAL_PARAMETER));
}

#[test]
fn names_of_unknown_types_are_skipped() {
    let list = [&[9, 0, 2, 7, 7][..], &server_name(b"a.b")[2..], &[7, 0, 0]].concat();
    let wire = Build::with(&[(0, &vector16(&list))]).wire();
    assert_eq!(hello(&wire).server_name(), Some("a.b"));
}

#[test]
fn each_extension_has_its_form() {
    let two_names = [server_name(b"a"), server_name(b"b")];
    let two_names = vector16(&[&two_names[0][2..], &two_names[1][2..]].concat());
    let malformed: [(u16, &[u8]); 27] = [
        (0, &[]),
        (0, &[0, 0]),
        (0, &[0, 4, 0, 0, 2, b'a']),
        (0, &two_names),
        (10, &[]),
        (10, &[0, 0]),
        (10, &[0, 1, 1]),
        (10, &[0, 2, 0, 23, 0]),
        (13, &[0, 3, 4, 3, 5]),
        (16, &[0, 0]),
        (16, &[0, 1, 0]),
        (16, &[0, 3, 3, b'h', b'2']),
        (23, &[0]),
        (41, &[0, 0, 0, 0]),
        (41, &pre_shared_key(&[vec![]], 1)),
        (41, &pre_shared_key(&[vec![1]], 0)),
        (41, &[0, 7, 0, 1, 1, 0, 0, 0, 0, 0, 2, 1, 7]),
        (42, &[0, 0, 0, 1]),
        (43, &[]),
        (43, &[0]),
        (43, &[1, 3]),
        (43, &[2, 3, 4, 0]),
        (50, &[0, 0]),
        (51, &[]),
        (51, &[0, 2, 0, 29]),
        (51, &[0, 4, 0, 29, 0, 0]),
        (51, &[0, 5, 0, 29, 0, 2, 1]),
    ];
    for (kind, data) in malformed {
        let fault = read(&Build::with(&[(kind, data)]).wire()).expect_err("malformed");
        assert_eq!(fault.alert(), Some(alert::DECODE_ERROR), "{kind} {data:?}");
    }
    assert_eq!(hello(&Build::with(&[(51, &[0, 0])]).wire()).key_share_groups().count(), 0);
}

#[test]
fn rules_between_extensions() {
    let illegal = |extensions: &[(u16, &[u8])]| {
        let fault = read(&Build::with(extensions).wire()).expect_err("illegal");
        assert_eq!(fault.alert(), Some(alert::ILLEGAL_PARAMETER), "{extensions:?}");
    };
    illegal(&[(23, &[]), (23, &[])]);
    illegal(&[(35, &[]), (0x1a1a, &[]), (35, &[1])]);
    illegal(&[(0x1a1a, &[]), (0xff01, &[0]), (0x1a1a, &[])]);
    illegal(&[(0xffff, &[]), (0xffff, &[])]);
    illegal(&[(41, &pre_shared_key(&[vec![1]], 1)), (0x1a1a, &[])]);
    illegal(&[(41, &pre_shared_key(&[vec![1]], 2))]);
    illegal(&[(0, &[0, 3, 1, 0, 0])]);
}

#[test]
fn extensions_are_not_counted() {
    let many: Vec<(u16, &[u8])> = (100..4000).map(|kind| (kind, &[][..])).collect();
    hello(&Build::with(&many).wire());
}

#[test]
fn a_first_hello_renegotiates_nothing() {
    hello(&Build::with(&[(0xff01, &[0])]).wire());
    for (info, alert) in [
        (&[1, 7][..], alert::HANDSHAKE_FAILURE),
        (&[12; 13], alert::HANDSHAKE_FAILURE),
        (&[], alert::DECODE_ERROR),
        (&[0, 0], alert::DECODE_ERROR),
        (&[2, 7], alert::DECODE_ERROR),
    ] {
        let fault = read(&Build::with(&[(0xff01, info)]).wire()).expect_err("a fault");
        assert_eq!(fault.alert(), Some(alert), "{info:?}");
    }
}

#[test]
fn a_server_hello_is_no_hello() {
    let fault = read(&record(&handshake(2, &[0; 60]))).unwrap_err();
    assert_eq!(fault.alert(), Some(alert::UNEXPECTED_MESSAGE));
}

#[test]
fn alerts_are_fatal_and_plain() {
    assert_eq!(alert_record(alert::DECODE_ERROR), [21, 3, 3, 0, 2, 2, 50]);
}
