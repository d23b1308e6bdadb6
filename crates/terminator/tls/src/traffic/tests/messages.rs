//! Handshake messages after the handshake, in pieces.

use crate::traffic::*;

#[test]
fn a_key_update_is_read_at_any_split() {
    for (value, wants_reply) in [(0, false), (1, true)] {
        let message = [24, 0, 0, 1, value];
        for split in 1..5 {
            let mut reader = MessageReader::default();
            let (head, tail) = message.split_at(split);
            assert_eq!(reader.take(head, None), Ok(None));
            assert!(reader.is_waiting());
            assert_eq!(reader.take(tail, None), Ok(Some(wants_reply)));
            assert!(!reader.is_waiting());
        }
    }
}

#[test]
fn what_is_no_key_update_has_its_alert() {
    for (content, wanted) in [
        (&[][..], alert::UNEXPECTED_MESSAGE),
        (&[4], alert::UNEXPECTED_MESSAGE),
        (&[24, 0, 0, 0], alert::DECODE_ERROR),
        (&[24, 0, 0, 2, 0, 0], alert::DECODE_ERROR),
        (&[24, 0, 0, 1, 0, 24], alert::UNEXPECTED_MESSAGE),
        (&[24, 0, 0, 1, 2], alert::ILLEGAL_PARAMETER),
        (&[24, 0, 0, 1, 255], alert::ILLEGAL_PARAMETER),
    ] {
        let fault = MessageReader::default().take(content, None).unwrap_err();
        assert_eq!(fault.alert(), wanted, "{content:?}");
    }
}

#[test]
fn tickets_are_read_at_any_split_and_together_and_before_a_key_update() {
    let three = [4, 0, 0, 3, 1, 2, 3, 4, 0, 0, 1, 9, 24, 0, 0, 1, 1];
    for split in 1..three.len() {
        let (mut reader, mut seen) = (MessageReader::default(), Vec::new());
        let mut see = |ticket: &[u8]| {
            seen.push(ticket.to_vec());
            true
        };
        assert_eq!(reader.take(&three[..split], Some(&mut see)), Ok(None));
        assert_eq!(reader.take(&three[split..], Some(&mut see)), Ok(Some(true)), "{split}");
        assert_eq!(seen, [vec![1, 2, 3], vec![9]], "{split}");
    }
}

#[test]
fn bad_tickets_are_refused() {
    let take = |content: &[u8], is_good: bool| {
        MessageReader::default().take(content, Some(&mut |_| is_good))
    };
    let refused = Err(TrafficFault::Message(alert::DECODE_ERROR));
    assert_eq!(take(&[4, 0, 0, 1, 7], true), Ok(None));
    assert_eq!(take(&[4, 0, 0, 1, 7], false), refused);
    assert_eq!(take(&[4, 1, 0, 0, 7], true), refused);
    assert_eq!(take(&[4, 0, 0, 0], true), refused, "an empty one");
}
