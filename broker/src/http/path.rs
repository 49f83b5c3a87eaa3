//! Paths, by exact segments: one spelling for each route, so that no other one slips past a check and still reaches it.

use crate::api::Fault;
use crate::name::QueueName;
use percent_encoding::percent_decode_str;

/// The segments of a path as it was sent; `None` for one that no route has in any spelling: empty segments, `.` and `..`,
/// and parameters (`;`).
pub(super) fn segments(path: &str) -> Option<Vec<&str>> {
    let rest = path.strip_prefix('/')?;
    if rest.is_empty() {
        return Some(Vec::new());
    }
    let segments: Vec<&str> = rest.split('/').collect();
    let odd = |segment: &&str| matches!(*segment, "" | "." | "..") || segment.contains(';');
    if segments.iter().any(odd) { None } else { Some(segments) }
}

/// A queue's name from its segment. What is percent-encoded is a part of the name, a slash included.
pub(super) fn queue_name(segment: &str) -> Result<QueueName, Fault> {
    let invalid = |reason: &str| Fault::Invalid(format!("the queue's name {reason}").into());
    let mut rest = segment.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let digits = rest.get(at + 1..at + 3).unwrap_or_default();
        if digits.len() < 2 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(invalid("has a percent sign without two hexadecimal digits"));
        }
        rest = &rest[at + 3..];
    }
    let name = percent_decode_str(segment).decode_utf8();
    let name = name.map_err(|_| invalid("is no UTF-8 when percent-decoded"))?;
    Ok(QueueName::new(&name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_j4_a_path_has_one_spelling() {
        assert_eq!(segments("/"), Some(vec![]));
        assert_eq!(segments("/api/v1"), Some(vec!["api", "v1"]));
        assert_eq!(segments("/a%2fb/C"), Some(vec!["a%2fb", "C"]));
        for path in [
            "", "*", "a", "//", "/a/", "//a", "/a//b", "/./a", "/a/..", "/a/../b", "/a;x=y/b", "/;",
        ] {
            assert_eq!(segments(path), None, "{path}");
        }
    }

    #[test]
    fn case_j1_a_segment_is_a_name_or_is_refused() {
        let name = |segment| queue_name(segment).map(|name| name.as_str().to_owned());
        for (segment, wanted) in [
            ("jobs", "jobs"),
            ("..%2fx", "../x"),
            ("%2Fetc%2fx", "/etc/x"),
            ("a%2F..%2f..%2Fx", "a/../../x"),
            ("CON", "CON"),
            ("%C3%A4", "ä"),
            ("a%CC%88", "a\u{308}"),
            ("a+b", "a+b"),
            ("100%25", "100%"),
            ("%252e%252e", "%2e%2e"),
        ] {
            assert_eq!(name(segment).unwrap(), wanted);
        }
        let long = "x".repeat(256);
        for segment in [
            "%2e%2e", "%2E", ".%2e", "a%00b", "a%0ab", "%7f", "%ff", "%", "a%2", "%zz", "%+1",
            &long,
        ] {
            let fault = name(segment).unwrap_err();
            assert_eq!(fault.kind().status(), 400, "{segment}: {fault}");
        }
    }
}
