//! The statuses that we answer with (RFC 9110 section 15, RFC 6585). What goes with them in a
//! response is `response`'s.

/// A status; its number is its code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u16)]
pub(crate) enum Status {
    Ok = 200,
    PartialContent = 206,
    MovedPermanently = 301,
    NotModified = 304,
    PermanentRedirect = 308,
    BadRequest = 400,
    Forbidden = 403,
    NotFound = 404,
    MethodNotAllowed = 405,
    RequestTimeout = 408,
    PreconditionFailed = 412,
    ContentTooLarge = 413,
    UriTooLong = 414,
    RangeNotSatisfiable = 416,
    ExpectationFailed = 417,
    HeaderFieldsTooLarge = 431,
    InternalServerError = 500,
    NotImplemented = 501,
    ServiceUnavailable = 503,
    VersionNotSupported = 505,
}

impl Status {
    pub(crate) const fn code(self) -> u16 {
        self as u16
    }

    pub(crate) const fn phrase(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::PartialContent => "Partial Content",
            Self::MovedPermanently => "Moved Permanently",
            Self::NotModified => "Not Modified",
            Self::PermanentRedirect => "Permanent Redirect",
            Self::BadRequest => "Bad Request",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not Found",
            Self::MethodNotAllowed => "Method Not Allowed",
            Self::RequestTimeout => "Request Timeout",
            Self::PreconditionFailed => "Precondition Failed",
            Self::ContentTooLarge => "Content Too Large",
            Self::UriTooLong => "URI Too Long",
            Self::RangeNotSatisfiable => "Range Not Satisfiable",
            Self::ExpectationFailed => "Expectation Failed",
            Self::HeaderFieldsTooLarge => "Request Header Fields Too Large",
            Self::InternalServerError => "Internal Server Error",
            Self::NotImplemented => "Not Implemented",
            Self::ServiceUnavailable => "Service Unavailable",
            Self::VersionNotSupported => "HTTP Version Not Supported",
        }
    }
}
