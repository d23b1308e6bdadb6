//! Answers of name servers (RFC 1035 section 4), as far as service records (SRV, RFC 2782) need
//! them. The C library asks the question, and checks that the answer belongs to it.

use crate::cursor::Cursor;

/// Type of a service record, and the class of the internet.
const SRV: u16 = 33;
const INTERNET: u16 = 1;

/// Longest name, in bytes on the wire (RFC 1035 section 2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// A server of a service.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ServiceRecord {
    /// Order of use: servers with the lowest number are used before all others.
    pub priority: u16,
    /// Share of connections among servers of one priority.
    pub weight: u16,
    /// TCP port; never 0.
    pub port: u16,
    /// Host name in lower case, of letters, digits, `-` and `_`, without a dot at its end.
    pub host: String,
}

/// Error of a message that is malformed, or incomplete.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the name server's answer is malformed")]
pub struct MessageFault;

/// Returns the service records of an answer, in its order. Records without a server (a target of
/// `.`, or port 0) and records whose target is no host name are left out.
///
/// # Errors
/// Fails with [`MessageFault`] if the message is malformed or incomplete.
pub fn service_records(message: &[u8]) -> Result<Vec<ServiceRecord>, MessageFault> {
    records(message).ok_or(MessageFault)
}

fn records(message: &[u8]) -> Option<Vec<ServiceRecord>> {
    let mut cursor = Cursor::new(message);
    let (_id, _flags, questions, answers) =
        (cursor.u16()?, cursor.u16()?, cursor.u16()?, cursor.u16()?);
    let (_authorities, _others) = (cursor.u16()?, cursor.u16()?);
    for _ in 0..questions {
        name(message, &mut cursor)?;
        cursor.take(4)?;
    }
    let mut records = Vec::new();
    for _ in 0..answers {
        name(message, &mut cursor)?;
        let (kind, class) = (cursor.u16()?, cursor.u16()?);
        cursor.take(4)?;
        let length = usize::from(cursor.u16()?);
        let end = cursor.position() + length;
        if (kind, class) != (SRV, INTERNET) {
            cursor.take(length)?;
            continue;
        }
        let (priority, weight, port) = (cursor.u16()?, cursor.u16()?, cursor.u16()?);
        let host = name(message, &mut cursor)?.filter(|_| port != 0);
        if cursor.position() != end {
            return None;
        }
        records.extend(host.map(|host| ServiceRecord { priority, weight, port, host }));
    }
    Some(records)
}

/// Reads the name at the cursor; an inner `None` is the root, or a name that no host has. A pointer
/// leads to an earlier place (section 4.1.4), so that each step comes nearer to the end.
#[expect(clippy::option_option, reason = "a malformed name and one of no host are two things")]
fn name(message: &[u8], cursor: &mut Cursor<'_>) -> Option<Option<String>> {
    let (mut host, mut is_host, mut bytes) = (String::new(), true, 1);
    let mut at = cursor.position();
    let mut after = None;
    loop {
        let length = *message.get(at)?;
        match length >> 6 {
            0 => {
                let label = message.get(at + 1..at + 1 + usize::from(length))?;
                at += 1 + label.len();
                if label.is_empty() {
                    break;
                }
                bytes += 1 + label.len();
                (bytes <= NAME_BYTES_MAX).then_some(())?;
                let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
                is_host &= label.iter().all(fits);
                host.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
                host.push('.');
            }
            3 => {
                let place = u16::from_be_bytes([length & 0x3f, *message.get(at + 1)?]);
                after.get_or_insert(at + 2);
                (usize::from(place) < at).then_some(())?;
                at = place.into();
            }
            _ => return None,
        }
    }
    cursor.take(after.unwrap_or(at) - cursor.position())?;
    host.pop();
    Some(Some(host).filter(|host| is_host && !host.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Name at the beginning of the questions, which records may point to.
    const QUESTION: &[u8] = b"\x04_ftp\x04_tcp\x01a\0\0\x21\0\x01";

    fn answer(records: &[&[u8]]) -> Vec<u8> {
        let count = records.len() as u8;
        let mut message = vec![0, 7, 0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0];
        message.extend(QUESTION);
        message.extend(records.concat());
        message
    }

    fn record(kind: u8, data: &[u8]) -> Vec<u8> {
        let length = data.len() as u8;
        [&b"\xc0\x0c\0"[..], &[kind, 0, 1, 0, 0, 0, 60, 0, length], data].concat()
    }

    #[test]
    fn records_of_services_are_read() {
        let message = answer(&[
            &record(5, b"\x01b\0"),
            &record(33, b"\0\x01\0\x02\x1f\x90\x03App\xc0\x16"),
            &record(33, b"\0\0\xff\xff\0\x50\x04db_1\x01b\0"),
            &record(33, b"\0\0\0\0\0\x50\0"),
            &record(33, b"\0\0\0\0\0\0\x01a\0"),
            &record(33, b"\0\0\0\0\0\x50\x03a b\0"),
        ]);
        let record = |(priority, weight, port, host): (u16, u16, u16, &str)| ServiceRecord {
            priority,
            weight,
            port,
            host: host.to_owned(),
        };
        let expected = [(1, 2, 8080, "app.a"), (0, 65535, 80, "db_1.b")].map(record);
        assert_eq!(service_records(&message), Ok(expected.to_vec()));
        for length in 0..message.len() {
            assert_eq!(service_records(&message[..length]), Err(MessageFault));
        }
        assert_eq!(service_records(&answer(&[])), Ok(Vec::new()));
    }

    #[test]
    fn names_that_lead_nowhere_are_refused() {
        let label = [&[63][..], &[b'x'; 63]].concat();
        let long = [&b"\0\0\0\0\0\x50"[..], &label.repeat(4), b"\0"].concat();
        let mut message = answer(&[]);
        message[7] = 1;
        let at = message.len() as u8;
        message.extend([0xc0, at]);
        assert_eq!(service_records(&message), Err(MessageFault), "to itself");
        for data in [
            &b"\0\0\0\0\0\x50\x01a"[..],
            b"\0\0\0\0\0\x50\x41a\0",
            b"\0\0\0\0\0\x50\xc0\xff",
            b"\0\0\0\0\0\x50\x01a\0\0",
            &long[..255],
        ] {
            let found = service_records(&answer(&[&record(33, data)]));
            assert_eq!(found, Err(MessageFault), "{data:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(mut message: Vec<u8>, answers in 0u8..4) {
            if let Some(low) = message.get_mut(7) {
                *low = answers;
            }
            for record in service_records(&message).unwrap_or_default() {
                prop_assert!(record.port != 0 && record.host.len() < NAME_BYTES_MAX);
            }
        }
    }
}
