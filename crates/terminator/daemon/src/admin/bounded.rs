//! The status document within a number of bytes.
//!
//! A hundred thousand services would make it longer than who asks reads into memory. The first of
//! them are shown then, and the number of the others.

use super::document::StatusDocument;

/// A quarter below what our own commands read.
pub(super) const JSON_BYTES_MAX: usize = 48 << 20;

/// One line of JSON, of as many services as fit.
pub(super) fn json_within(bytes_max: usize, mut document: StatusDocument) -> Vec<u8> {
    loop {
        let json = document.to_json();
        if json.len() <= bytes_max || document.services.is_empty() {
            return json;
        }
        // A tenth less than in proportion, since the first may be longer than the last.
        let all = document.services.len();
        let kept = all as f64 * bytes_max as f64 / json.len() as f64 * 0.9;
        document.services.truncate(kept as usize);
        document.services_left_out += (all - document.services.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::ServiceStatus;
    use super::*;

    #[test]
    fn the_first_services_are_shown_and_the_others_counted() {
        let text = r#"{"version":2,"time_ms":0,"process":{"program":"","state":"serving","pid":2,
            "supervisor_pid":1,"start_ms":0,"supervisor_start_ms":0,"metrics":{}},
            "workers":[],"services":[],"bounds_us":[]}"#;
        let mut document = StatusDocument::from_json(text.as_bytes()).unwrap();
        // The first are ten times as long as the last.
        let name =
            |number| format!("{number}-{}", "x".repeat(if number < 50 { 3000 } else { 300 }));
        let service = |number| ServiceStatus { name: name(number), ..ServiceStatus::default() };
        document.services = (0..500).map(service).collect();
        let whole = json_within(usize::MAX, document.clone());
        assert_eq!(whole, document.to_json());
        let json = json_within(whole.len() / 4, document.clone());
        assert!(json.len() <= whole.len() / 4);
        let read = StatusDocument::from_json(&json).unwrap();
        assert_eq!(read.services, document.services[..read.services.len()]);
        assert!(!read.services.is_empty());
        assert_eq!(read.services.len() as u64 + read.services_left_out, 500);
        // Without any service it is what it is.
        assert!(!json_within(1, document).is_empty());
    }
}
