//! Answers of name servers (RFC 1035 section 4) as far as service records (SRV, RFC 2782) need
//! them. It asks nobody: the question, and whether this answers it, are the C library's.

/// The bytes of a header, and where in it the counts stand.
const HEADER_BYTES: usize = 12;

/// The type of a service record, and the class of the internet.
const SRV: u16 = 33;
const INTERNET: u16 = 1;

/// The longest name, in bytes as it is sent (RFC 1035 section 2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// A server of a service.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ServiceRecord {
    /// Servers with the lowest number are used before all others.
    pub priority: u16,
    /// The share of connections among servers of one priority.
    pub weight: u16,
    /// The TCP port; never 0.
    pub port: u16,
    /// The host name in lower case, of letters, digits, `-` and `_`, without a dot at its end.
    pub host: String,
}

/// The message is malformed, or not whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the name server's answer is malformed")]
pub struct MessageFault;

/// The service records of an answer, in its order. Left out are those without a server (a target
/// of `.`, or port 0) and those whose target is no host name.
///
/// # Errors
/// [`MessageFault`].
pub fn service_records(message: &[u8]) -> Result<Vec<ServiceRecord>, MessageFault> {
    let mut reader = DnsReader { message, at: 0 };
    let header = reader.take(HEADER_BYTES)?;
    let count = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (questions, answers) = (count(4), count(6));
    for _ in 0..questions {
        reader.name()?;
        reader.take(4)?;
    }
    let mut records = Vec::new();
    for _ in 0..answers {
        reader.name()?;
        let (kind, class) = (reader.u16()?, reader.u16()?);
        reader.take(4)?;
        let length = usize::from(reader.u16()?);
        let end = reader.at + length;
        if (kind, class) != (SRV, INTERNET) {
            reader.take(length)?;
            continue;
        }
        let (priority, weight, port) = (reader.u16()?, reader.u16()?, reader.u16()?);
        let host = reader.name()?;
        if reader.at != end {
            return Err(MessageFault);
        }
        records.extend(host.filter(|_| port != 0).map(|host| ServiceRecord {
            priority,
            weight,
            port,
            host,
        }));
    }
    Ok(records)
}

struct DnsReader<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> DnsReader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], MessageFault> {
        let end = self.at.checked_add(bytes).ok_or(MessageFault)?;
        let taken = self.message.get(self.at..end).ok_or(MessageFault)?;
        self.at = end;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, MessageFault> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A name; `None` = the root, or one that no host has. A pointer leads to an earlier place
    /// (section 4.1.4), so that each step brings it nearer to its end.
    fn name(&mut self) -> Result<Option<String>, MessageFault> {
        let (mut host, mut is_host, mut bytes) = (String::new(), true, 1);
        let mut reader = DnsReader { ..*self };
        let mut after = None;
        loop {
            let begin = reader.at;
            let length = reader.take(1)?[0];
            match length >> 6 {
                0 if length == 0 => break,
                0 => {
                    let label = reader.take(length.into())?;
                    bytes += 1 + label.len();
                    if bytes > NAME_BYTES_MAX {
                        return Err(MessageFault);
                    }
                    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
                    is_host &= label.iter().all(fits);
                    host.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
                    host.push('.');
                }
                3 => {
                    let low = reader.take(1)?[0];
                    let place = usize::from(u16::from_be_bytes([length & 0x3f, low]));
                    after.get_or_insert(reader.at);
                    if place >= begin {
                        return Err(MessageFault);
                    }
                    reader.at = place;
                }
                _ => return Err(MessageFault),
            }
        }
        self.at = after.unwrap_or(reader.at);
        host.pop();
        Ok(Some(host).filter(|host| is_host && !host.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A name at the beginning of the questions, after which records may point to it.
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
