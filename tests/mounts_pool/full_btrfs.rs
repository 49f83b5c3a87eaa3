//! A copy-on-write file system that is full to the last byte: it has blocks for what is overwritten, but may refuse all
//! the same what it needs beside them.

use crate::full::{empty, fill};
use crate::lab::{End, Generations, Journal, Lab, with_budget};
use crate::or_skip;
use crate::outside::wait_for;
use faultlab::mounts::{self, ENOUGH, Mount};
use plimsoll::PoolStats;
use plimsoll::WriteClass::{Acknowledge, Publish};
use plimsoll::error::{Outcome, PublishError};
use plimsoll::fs::{FileSystem, OsFileSystem};
use std::path::Path;
use std::process::Command;

/// What became of appends.
#[derive(Debug, Default)]
struct Answers {
    confirmed: u64,
    not_written: u64,
    unknown: u64,
    /// The last error.
    error: Option<PublishError>,
}

impl Answers {
    fn note(&mut self, answer: Result<(), PublishError>) {
        match answer {
            Ok(()) => self.confirmed += 1,
            Err(error) => {
                match error.outcome() {
                    Outcome::NotWritten => self.not_written += 1,
                    Outcome::Unknown => self.unknown += 1,
                }
                self.error = Some(error);
            }
        }
    }
}

/// Some appends of each kind to every log. Few: such a file system looks for other space before each write.
fn try_all(lab: &mut Lab) -> Answers {
    let mut answers = Answers::default();
    for journal in lab.journals.values_mut() {
        for (class, count, len) in
            [(Publish, 24, 16_000), (Acknowledge, 1, 100), (Acknowledge, 8, 8000)]
        {
            (0..3).for_each(|_| answers.note(journal.publish(class, count, len)));
        }
    }
    answers
}

fn come_and_go(lab: &mut Lab) {
    lab.each(|journal: &mut Journal| {
        (0..8).for_each(|_| journal.publish(Publish, 32, 8000).unwrap());
        journal.truncate(1);
    });
}

/// Fills it up by `fill`, tries what goes on, in this life and in the next, and goes on when `empty` has been called.
fn through_a_full_one(case: &str, dir: &Path, fill: impl Fn(), empty: impl Fn()) {
    let mut generations = Generations::default();
    let mut lab = Lab::open(&[dir], with_budget(10));
    for log in 0..3 {
        lab.add(&format!("queue-{log}"), 0);
    }
    come_and_go(&mut lab);
    come_and_go(&mut lab);
    wait_for("what is kept back", || {
        let stats = lab.pool(0);
        (stats.kept_back_missing == 0 && stats.coming == [0; 3]).then_some(())
    });
    assert_eq!(lab.pool(0).reserves, Some(true), "{case}");
    generations.look(dir);
    fill();
    for end in [End::Dropped, End::Closed] {
        let before = lab.pool(0);
        let answers = try_all(&mut lab);
        let after = lab.pool(0);
        let taken = |stats: &PoolStats| stats.taken_reused + stats.taken_kept_back;
        // Where overwrites are taken, logs go on into files of others.
        let went_on = answers.confirmed == 0 || taken(&after) > taken(&before);
        assert!(went_on, "{case}: {after:?}");
        println!(
            "{case}: {} confirmed, {} not written, {} unknown, {:?}; {} spares taken",
            answers.confirmed,
            answers.not_written,
            answers.unknown,
            answers.error.map(|error| error.to_string()),
            taken(&after) - taken(&before),
        );
        lab.check();
        // Truncation frees, whatever is refused.
        lab.journals.values_mut().for_each(|journal| {
            journal.truncate_one();
        });
        lab.restart(end);
        generations.look(dir);
    }
    empty();
    lab.restart(End::Dropped);
    come_and_go(&mut lab);
    lab.restart(End::Closed);
    lab.settled(0);
    generations.look(dir);
}

#[test]
fn i1_a_full_copy_on_write_file_system_loses_nothing() {
    let name = "i1_a_full_copy_on_write_file_system_loses_nothing";
    let Some(mount) = or_skip(name, Mount::btrfs(ENOUGH)) else { return };
    let dir = mount.path().join("data");
    let fill = || {
        fill(mount.path());
        let more = std::fs::write(mount.path().join("more"), [1; 5000]);
        assert!(more.is_err(), "not full");
        println!("{:?}", OsFileSystem.space(mount.path()));
    };
    through_a_full_one(name, &dir, fill, || empty(mount.path()));
}

#[test]
fn i1_a_full_quota_loses_nothing() {
    let name = "i1_a_full_quota_loses_nothing";
    let Some(mount) = or_skip(name, Mount::btrfs(ENOUGH)) else { return };
    let dir = mount.path().join("data");
    let btrfs = |arguments: &[&str], path: &Path| {
        mounts::run(Command::new("btrfs").args(arguments).arg(path))
    };
    btrfs(&["subvolume", "create"], &dir).unwrap();
    if let Err(reason) = btrfs(&["quota", "enable"], mount.path()) {
        return crate::skip::skip(name, &reason);
    }
    // Less than is there: whatever asks for more is refused, and here that is every write.
    let limit = || btrfs(&["qgroup", "limit", "1M"], &dir).unwrap();
    let lift = || btrfs(&["quota", "disable"], mount.path()).unwrap();
    through_a_full_one(name, &dir, limit, lift);
}
