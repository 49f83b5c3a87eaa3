//! Values that stand as text in every format.

use super::size::{WrittenError, exact};
use crate::types::Fraction;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

/// Reads a text and parses it; anything else than a text is refused with what was expected.
pub(super) fn parse<'de, D, T>(deserializer: D, expected: &'static str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: fmt::Display,
{
    deserializer.deserialize_str(Text { expected, gives: PhantomData })
}

struct Text<T> {
    expected: &'static str,
    gives: PhantomData<T>,
}

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

impl FromStr for Fraction {
    type Err = WrittenError;

    /// Reads `10%` or `0.5%`: 0 to 100, at most four decimals.
    fn from_str(text: &str) -> Result<Self, WrittenError> {
        let refuse = |reason| Err(WrittenError { text: text.to_owned(), reason });
        let Some(number) = text.trim().strip_suffix('%') else {
            return refuse("has no percent sign: write it as 10% or 0.5%");
        };
        let millionths = exact(number.trim_end(), 10_000).and_then(|all| u32::try_from(all).ok());
        match millionths {
            Some(millionths) if millionths <= 1_000_000 => Ok(Self::millionths(millionths)),
            Some(_) => refuse("is more than there is: 100% at most"),
            None => refuse("is no percentage: 0% to 100%, with at most four decimals"),
        }
    }
}

impl Serialize for Fraction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse(deserializer, "a percentage in quotes, such as \"10%\"")
    }
}

/// A duration field, for `#[serde(with)]`: `50ms`, `10s`, `1m 30s`.
pub(super) mod span {
    use super::{Deserializer, Duration, FromStr, Serializer, WrittenError, parse};

    struct Span(Duration);

    impl FromStr for Span {
        type Err = WrittenError;

        fn from_str(text: &str) -> Result<Self, WrittenError> {
            let refused = |_| WrittenError {
                text: text.to_owned(),
                reason: "is no duration: a number and a unit, such as 50ms, 10s or 1m 30s, not below 0",
            };
            // Without a unit the crate takes 0 and nothing else.
            let unit = text.bytes().any(|byte| byte.is_ascii_alphabetic());
            let reason = "has no unit: write it as 50ms, 10s or 0s";
            if !unit && text.bytes().any(|byte| byte.is_ascii_digit()) && !text.contains('-') {
                return Err(WrittenError { text: text.to_owned(), reason });
            }
            humantime::parse_duration(text.trim()).map(Self).map_err(refused)
        }
    }

    pub(crate) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&humantime::format_duration(*span))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        parse::<_, Span>(from, "a duration in quotes, such as \"50ms\"").map(|span| span.0)
    }
}
