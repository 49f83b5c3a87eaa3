//! A point in time on the command line: RFC 3339, or a span before now.

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ZonedDateTime};

/// Reads a time; gives Unix milliseconds. Days, weeks and months of a span are those of UTC.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    parse_at(text, &Timestamp::now().to_zoned_datetime(TimeZone::UTC))
}

fn parse_at(text: &str, now: &ZonedDateTime) -> Result<u64, String> {
    const EXPECTED: &str =
        "expected a time such as 2025-11-30T09:37:00Z, or a span before now such as 10m or 1d12h";
    let stamp = match text.parse::<Timestamp>() {
        Ok(stamp) => stamp,
        Err(_) => {
            let span: Span = text.parse().map_err(|_| EXPECTED.to_owned())?;
            let before = now
                .checked_sub(span.abs())
                .map_err(|_| "lies before the calendar begins".to_owned())?;
            before.timestamp()
        }
    };
    // Nothing was appended before 1970.
    Ok(u64::try_from(stamp.as_millisecond()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_taken_as_rfc_3339_and_as_spans_before_now() {
        let now: ZonedDateTime = "2025-11-30T10:00:00.500[UTC]".parse().unwrap();
        let millis = now.timestamp().as_millisecond() as u64;
        let cases = [
            ("2025-11-30T10:00:00.5Z", millis),
            ("2025-11-30T11:00:00.5+01:00", millis),
            ("10m", millis - 600_000),
            ("10m ago", millis - 600_000),
            ("1d12h", millis - 36 * 3_600_000),
            ("90 seconds", millis - 90_000),
            ("1970-01-01T00:00:00Z", 0),
            ("1969-01-01T00:00:00Z", 0),
            ("0s", millis),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_at(text, &now), Ok(expected), "{text}");
        }
        for text in ["", "ten", "10", "2025-13-01T00:00:00Z", "5 parsecs", "19000000000h"] {
            assert!(parse_at(text, &now).is_err(), "{text}");
        }
    }
}
