//! Makes hellos, valid or not, and cuts them into records.

/// A ClientHello to be encoded.
#[derive(Clone, Debug)]
pub(crate) struct Build {
    pub(crate) legacy_version: u16,
    pub(crate) session_id: Vec<u8>,
    pub(crate) suites: Vec<u16>,
    pub(crate) compression: Vec<u8>,
    pub(crate) extensions: Vec<(u16, Vec<u8>)>,
}

impl Default for Build {
    fn default() -> Self {
        Self {
            legacy_version: 0x0303,
            session_id: Vec::new(),
            suites: vec![0x1301],
            compression: vec![0],
            extensions: Vec::new(),
        }
    }
}

impl Build {
    /// Makes a default hello with these extensions.
    pub(crate) fn with(extensions: &[(u16, &[u8])]) -> Self {
        let owned = |(kind, data): &(u16, &[u8])| (*kind, data.to_vec());
        Self { extensions: extensions.iter().map(owned).collect(), ..Self::default() }
    }

    /// Returns the handshake message with its header; without extensions their length is omitted.
    pub(crate) fn message(&self) -> Vec<u8> {
        let mut body = self.legacy_version.to_be_bytes().to_vec();
        body.extend([7; 32]);
        body.extend(vector8(&self.session_id));
        body.extend(vector16(&numbers(&self.suites)));
        body.extend(vector8(&self.compression));
        if !self.extensions.is_empty() {
            let all = self.extensions.iter().flat_map(|(kind, data)| {
                let mut extension = kind.to_be_bytes().to_vec();
                extension.extend(vector16(data));
                extension
            });
            body.extend(vector16(&all.collect::<Vec<_>>()));
        }
        handshake(1, &body)
    }

    pub(crate) fn wire(&self) -> Vec<u8> {
        record(&self.message())
    }
}

pub(crate) fn handshake(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message =
        u32::try_from(body.len()).expect("test data fits its length field").to_be_bytes().to_vec();
    message[0] = kind;
    message.extend(body);
    message
}

pub(crate) fn record(fragment: &[u8]) -> Vec<u8> {
    let mut record = vec![22, 3, 1];
    record.extend(vector16(fragment));
    record
}

/// Puts the bytes into records, cut at these sizes; the last one takes the rest.
pub(crate) fn records(mut bytes: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut wire = Vec::new();
    for size in sizes {
        let (fragment, rest) = bytes.split_at((*size).min(bytes.len()));
        if !fragment.is_empty() {
            wire.extend(record(fragment));
        }
        bytes = rest;
    }
    if !bytes.is_empty() {
        wire.extend(record(bytes));
    }
    wire
}

/// Returns the bytes behind one byte of length.
pub(crate) fn vector8(bytes: &[u8]) -> Vec<u8> {
    let mut vector = vec![u8::try_from(bytes.len()).expect("test data fits its length field")];
    vector.extend(bytes);
    vector
}

/// Returns the bytes behind two bytes of length.
pub(crate) fn vector16(bytes: &[u8]) -> Vec<u8> {
    let mut vector =
        u16::try_from(bytes.len()).expect("test data fits its length field").to_be_bytes().to_vec();
    vector.extend(bytes);
    vector
}

pub(crate) fn numbers(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_be_bytes()).collect()
}

pub(crate) fn server_name(name: &[u8]) -> Vec<u8> {
    let mut entry = vec![0];
    entry.extend(vector16(name));
    vector16(&entry)
}

pub(crate) fn pre_shared_key(identities: &[Vec<u8>], binders: usize) -> Vec<u8> {
    let identity = |identity: &Vec<u8>| {
        let mut entry = vector16(identity);
        entry.extend([0; 4]);
        entry
    };
    let mut data = vector16(&identities.iter().flat_map(identity).collect::<Vec<_>>());
    data.extend(vector16(&vector8(&[9; 32]).repeat(binders)));
    data
}
