//! The names of the broker's logs. They are made of numbers only, so that no name that a user gives reaches a path.

use crate::api::{Band, QueueId};

/// How many shards a new data directory has.
pub const SHARDS: u8 = 8;

/// The log of queue declarations, in the first data directory.
pub const CATALOGUE: &str = "broker/catalogue";

/// The log whose one record says whose a data directory is.
pub const DIRECTORY: &str = "broker/directory";

/// What the names of all queues' logs begin with.
pub const QUEUES: &str = "broker/queue/";

/// What the names of all event logs begin with.
pub const EVENTS: &str = "broker/events/";

/// The event log of a shard.
#[must_use]
pub fn events(shard: u8) -> String {
    format!("broker/events/{shard:02}")
}

/// The log of a shard's carried idempotency marks.
#[must_use]
pub fn marks(shard: u8) -> String {
    format!("broker/marks/{shard:02}")
}

/// The log of one band of a queue.
#[must_use]
pub fn queue(queue: QueueId, band: Band) -> String {
    format!("{QUEUES}{queue}/{}", band.get())
}

/// Whose log this is, if it is a queue's: for finding what a deleted queue left.
#[must_use]
pub fn parse_queue(name: &str) -> Option<(QueueId, Band)> {
    let (id, band) = name.strip_prefix(QUEUES)?.split_once('/')?;
    let id = QueueId(u64::from_str_radix(id, 16).ok()?);
    let band = Band::new(band.parse().ok()?)?;
    // One form only: a log of any other is not ours to free.
    (queue(id, band) == name).then_some((id, band))
}

/// The shard of its data directory that a queue belongs to, of so many.
#[must_use]
#[allow(clippy::cast_possible_truncation, reason = "less than `shards`")]
pub const fn shard(queue: QueueId, shards: u8) -> u8 {
    (queue.0 % shards as u64) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_documented() {
        let band = Band::new(4).unwrap();
        assert_eq!(events(3), "broker/events/03");
        assert_eq!(marks(7), "broker/marks/07");
        assert_eq!(queue(QueueId(0x1a), band), "broker/queue/000000000000001a/4");
    }

    #[test]
    fn a_queues_log_is_known_by_its_one_name() {
        let band = Band::new(9).unwrap();
        for id in [QueueId(0), QueueId(1), QueueId(u64::MAX)] {
            assert_eq!(parse_queue(&queue(id, band)), Some((id, band)));
        }
        for other in [
            CATALOGUE,
            "broker/queue/1a/4",
            "broker/queue/000000000000001A/4",
            "broker/queue/000000000000001a/10",
            "broker/queue/000000000000001a/04",
            "broker/queue/+00000000000001a/4",
            "broker/queue/000000000000001a/4/5",
            "broker/queue/000000000000001a",
        ] {
            assert_eq!(parse_queue(other), None, "{other}");
        }
    }

    #[test]
    fn every_name_is_one_that_the_engine_takes() {
        let band = Band::DEFAULT;
        for name in [CATALOGUE.to_owned(), events(0), marks(0), queue(QueueId(u64::MAX), band)] {
            plimsoll::LogName::new(&name).unwrap();
        }
    }
}
