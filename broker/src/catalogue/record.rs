//! The catalogue's records: one JSON object each, on one line, so that `plimsoll read` shows them as they are.

use crate::api::{QueueId, QueueSettings};
use crate::name::QueueName;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// The version that every record names.
pub const VERSION: u64 = 1;

/// 128 bits that tell one thing from all others; 32 hexadecimal digits in records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub [u8; 16]);

impl Id {
    /// Reads what is displayed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| digits)?;
        Some(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

/// What is fixed for the broker's life. The first record of a catalogue.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Format {
    /// Which broker this is.
    #[serde(with = "hex128")]
    pub broker: Id,
    /// Shards of each data directory.
    pub shards: u8,
    /// The secret of receipts and of the hashes of idempotency keys.
    #[serde(with = "secret")]
    pub receipt_key: [u8; 16],
    /// The data directories in their order; a queue's setting `data_dir` counts them from 0.
    #[serde(with = "ids")]
    pub directories: Vec<Id>,
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is no part of it: what is printed ends up in logs.
        f.debug_struct("Format")
            .field("broker", &self.broker)
            .field("shards", &self.shards)
            .field("directories", &self.directories)
            .finish_non_exhaustive()
    }
}

/// What is known of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueMeta {
    /// Its number, for ever.
    #[serde(with = "queue_id")]
    pub id: QueueId,
    /// Its name.
    #[serde(with = "queue_name")]
    pub name: QueueName,
    /// Its settings. One that is not written has its default.
    pub settings: QueueSettings,
    /// How often it was declared with settings that it did not have.
    pub revision: u64,
    /// When it was first declared, Unix milliseconds.
    pub created_ms: u64,
    /// When it got these settings, Unix milliseconds.
    pub changed_ms: u64,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// The first of a new catalogue.
    Format(Format),
    /// A queue is declared, or has other settings.
    Declare {
        /// Its number.
        id: QueueId,
        /// Its name.
        name: QueueName,
        /// Its settings.
        settings: QueueSettings,
        /// 1 for a new queue.
        revision: u64,
        /// Unix milliseconds.
        at_ms: u64,
    },
    /// A queue is gone, with all that it holds.
    Delete {
        /// Its number.
        id: QueueId,
        /// Unix milliseconds.
        at_ms: u64,
    },
    /// A compaction begins. All records before it may be freed when its end is durable.
    Begin {
        /// As in the first record.
        format: Format,
        /// The number of the next new queue.
        next_id: QueueId,
    },
    /// A queue, as it was when the compaction began.
    Queue(QueueMeta),
    /// The compaction is whole.
    End {
        /// How many queues it has.
        queues: u64,
    },
}

/// As it is written: the same, with the version in each.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Format {
        v: Version,
        format: Format,
    },
    Declare {
        v: Version,
        #[serde(with = "queue_id")]
        id: QueueId,
        #[serde(with = "queue_name")]
        name: QueueName,
        settings: QueueSettings,
        revision: u64,
        at_ms: u64,
    },
    Delete {
        v: Version,
        #[serde(with = "queue_id")]
        id: QueueId,
        at_ms: u64,
    },
    Begin {
        v: Version,
        format: Format,
        #[serde(with = "queue_id")]
        next_id: QueueId,
    },
    Queue {
        v: Version,
        queue: QueueMeta,
    },
    End {
        v: Version,
        queues: u64,
    },
}

/// Of a record, nothing but its version: looked at first, as all else depends on it.
#[derive(Deserialize)]
struct Versioned {
    v: u64,
}

/// [`VERSION`], and no other.
#[derive(Clone, Copy)]
struct Version;

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(VERSION)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match u64::deserialize(from)? {
            VERSION => Ok(Self),
            other => Err(de::Error::custom(format_args!("unknown version {other}"))),
        }
    }
}

impl Record {
    /// The record's bytes: one line of JSON, without its end.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // Numbers, strings and structs: nothing of this can fail to be JSON.
        serde_json::to_vec(&self.line()).unwrap_or_default()
    }

    fn line(&self) -> Line {
        let v = Version;
        match self.clone() {
            Self::Format(format) => Line::Format { v, format },
            Self::Declare { id, name, settings, revision, at_ms } => {
                Line::Declare { v, id, name, settings, revision, at_ms }
            }
            Self::Delete { id, at_ms } => Line::Delete { v, id, at_ms },
            Self::Begin { format, next_id } => Line::Begin { v, format, next_id },
            Self::Queue(queue) => Line::Queue { v, queue },
            Self::End { queues } => Line::End { v, queues },
        }
    }

    /// Reads what [`Record::encode`] wrote.
    ///
    /// # Errors
    /// What is wrong, as a sentence: another version, an unknown kind or field, a value out of its type, no JSON.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let version =
            serde_json::from_slice::<Versioned>(bytes).map_err(|error| error.to_string())?.v;
        if version != VERSION {
            return Err(format!("version {version} is not known to this program"));
        }
        let line = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        Ok(match line {
            Line::Format { format, .. } => Self::Format(format),
            Line::Declare { id, name, settings, revision, at_ms, .. } => {
                Self::Declare { id, name, settings, revision, at_ms }
            }
            Line::Delete { id, at_ms, .. } => Self::Delete { id, at_ms },
            Line::Begin { format, next_id, .. } => Self::Begin { format, next_id },
            Line::Queue { queue, .. } => Self::Queue(queue),
            Line::End { queues, .. } => Self::End { queues },
        })
    }
}

/// Hexadecimal digits, so many, in lower case: one form only.
fn hex<'de, D: Deserializer<'de>>(from: D, digits: usize) -> Result<u128, D::Error> {
    let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
    parse_hex(&text, digits).ok_or_else(|| {
        de::Error::custom(format_args!("{digits} hexadecimal digits are expected, not {text:?}"))
    })
}

fn parse_hex(text: &str, digits: usize) -> Option<u128> {
    let known = |digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let right = text.len() == digits && text.bytes().all(known);
    right.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

mod hex128 {
    use super::*;

    pub(super) fn serialize<S: Serializer>(id: &Id, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Id, D::Error> {
        hex(from, 32).map(|id| Id(id.to_be_bytes()))
    }
}

mod secret {
    use super::*;

    pub(super) fn serialize<S: Serializer>(key: &[u8; 16], to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&Id(*key))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 16], D::Error> {
        // Not `hex`, whose error shows what it was given.
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let key =
            parse_hex(&text, 32).ok_or_else(|| de::Error::custom("the key cannot be read"))?;
        Ok(key.to_be_bytes())
    }
}

mod ids {
    use super::*;

    pub(super) fn serialize<S: Serializer>(ids: &[Id], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(ids.iter().map(Id::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Id>, D::Error> {
        #[derive(Deserialize)]
        struct One(#[serde(with = "hex128")] Id);
        Ok(Vec::<One>::deserialize(from)?.into_iter().map(|one| one.0).collect())
    }
}

mod queue_id {
    use super::*;

    pub(super) fn serialize<S: Serializer>(id: &QueueId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<QueueId, D::Error> {
        let id = hex(from, 16)?;
        u64::try_from(id).map(QueueId).map_err(de::Error::custom)
    }
}

mod queue_name {
    use super::*;

    pub(super) fn serialize<S: Serializer>(name: &QueueName, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(name.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<QueueName, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        QueueName::new(&text).map_err(de::Error::custom)
    }
}
