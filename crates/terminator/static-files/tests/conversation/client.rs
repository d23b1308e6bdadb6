//! Parses what a client receives into replies, from nothing but the bytes.

/// A reply as received.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// Returns the value of a field that came at most once.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(known, _)| known == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert_eq!(values.next(), None, "{name} came twice");
        value
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    /// Returns the parts of a multipart body: the values of `Content-Range`, and the bytes.
    pub(crate) fn parts(&self) -> Vec<(String, Vec<u8>)> {
        let media = self.field("Content-Type").expect("a media type");
        let boundary = media.split_once("boundary=").expect("a boundary").1;
        let text = self.text();
        let end = format!("\r\n--{boundary}--\r\n");
        let text = text.strip_suffix(&end).expect("an end");
        let between = format!("\r\n--{boundary}\r\n");
        let mut parts = text.split(&between);
        assert_eq!(parts.next(), Some(""), "something before the first part");
        let part = |part: &str| {
            let (head, body) = part.split_once("\r\n\r\n").expect("the head of a part");
            let range = head.split_once("Content-Range: ").expect("a range").1;
            (range.to_owned(), body.as_bytes().to_vec())
        };
        parts.map(part).collect()
    }
}

/// Parses replies to requests with these methods; every byte must belong to a reply.
pub(crate) fn replies<'a>(bytes: &[u8], methods: impl IntoIterator<Item = &'a str>) -> Vec<Reply> {
    let mut methods = methods.into_iter();
    let mut rest = bytes;
    let mut replies = Vec::new();
    while !rest.is_empty() {
        let mut reply = head(&mut rest);
        if reply.status >= 200 {
            let method = methods.next().expect("no more replies than requests");
            let bodiless = method == "HEAD" || reply.status == 304;
            let length =
                reply.field("Content-Length").map_or(0, |length| length.parse().expect("a length"));
            let length = if bodiless { 0 } else { length };
            let (body, after) = rest.split_at_checked(length).expect("a whole body");
            reply.body = body.to_vec();
            rest = after;
        }
        replies.push(reply);
    }
    replies
}

fn head(rest: &mut &[u8]) -> Reply {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut parsed = httparse::Response::new(&mut fields);
    let status = parsed.parse(rest).expect("a reply");
    let httparse::Status::Complete(bytes) = status else {
        panic!("half a head: {}", String::from_utf8_lossy(rest));
    };
    let field = |field: &httparse::Header<'_>| {
        let value = std::str::from_utf8(field.value).expect("text");
        (field.name.to_owned(), value.to_owned())
    };
    let reply = Reply {
        status: parsed.code.expect("a status"),
        fields: parsed.headers.iter().map(field).collect(),
        body: Vec::new(),
    };
    *rest = &rest[bytes..];
    reply
}
