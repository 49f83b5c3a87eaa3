//! What a log's files cost against what they hold.

use crate::failure::Failure;
use crate::numbers::{percent, share, size};
use plimsoll::format::name::parse_segment_file;
use plimsoll::fs::{FileKind, FileSystem, OsFileSystem};
use plimsoll::inspect::{Held, LogReport};
use serde_json::{Map, Value, json};
use std::io;
use std::path::Path;

/// Bytes held and bytes taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// What the records take.
    pub(crate) held: Held,
    /// The lengths of the files.
    pub(crate) files: u64,
    /// What the files take on the disk.
    pub(crate) on_disk: u64,
}

impl Cost {
    /// Of a log that was inspected.
    pub(crate) fn of(report: &LogReport) -> Self {
        Self { held: report.held, files: report.file_bytes, on_disk: report.disk_bytes }
    }

    /// Of the files in a log's directory, those held ready and those behind damage included.
    pub(crate) fn of_dir(dir: &Path, held: Held) -> Result<Self, Failure> {
        let mut cost = Self { held, ..Self::default() };
        let entries =
            OsFileSystem.list(dir).map_err(|error| Failure::io("list", dir.display(), &error))?;
        let segments = entries.iter().filter(|entry| {
            entry.kind == FileKind::File && parse_segment_file(&entry.name).is_some()
        });
        for entry in segments {
            let path = dir.join(&entry.name);
            match OsFileSystem.metadata(&path) {
                Ok(found) => {
                    cost.files += found.len;
                    cost.on_disk += found.disk_bytes;
                }
                // Truncated since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Failure::io("look at", path.display(), &error)),
            }
        }
        Ok(cost)
    }

    /// Of several logs.
    pub(crate) fn sum(costs: impl Iterator<Item = Self>) -> Self {
        costs.fold(Self::default(), |sum, one| Self {
            held: sum.held.and(one.held),
            files: sum.files + one.files,
            on_disk: sum.on_disk + one.on_disk,
        })
    }

    /// How much of the disk space holds records.
    pub(crate) fn used(&self) -> String {
        percent(self.held.bytes, self.on_disk)
    }

    /// In one line.
    pub(crate) fn text(&self) -> String {
        let most = if self.held.exact { "" } else { " at most" };
        format!(
            "{} of records{most} in {} of files, {} on disk: {} used",
            size(self.held.bytes),
            size(self.files),
            size(self.on_disk),
            self.used()
        )
    }

    /// As fields of an object; null where it is not known.
    pub(crate) fn insert(this: Option<&Self>, object: &mut Map<String, Value>) {
        let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
        put("held_bytes", json!(this.map(|cost| cost.held.bytes)));
        put("held_exact", json!(this.map(|cost| cost.held.exact)));
        put("file_bytes", json!(this.map(|cost| cost.files)));
        put("disk_bytes", json!(this.map(|cost| cost.on_disk)));
        put("used", json!(this.and_then(|cost| share(cost.held.bytes, cost.on_disk))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_exact_only_if_all_of_it_is() {
        let one = Cost { held: Held { bytes: 10, exact: true }, files: 40, on_disk: 80 };
        let two = Cost { held: Held { bytes: 10, exact: false }, files: 40, on_disk: 20 };
        let both = Cost::sum([one, two].into_iter());
        assert_eq!(both, Cost { held: Held { bytes: 20, exact: false }, files: 80, on_disk: 100 });
        assert_eq!(
            both.text(),
            "20 B of records at most in 80 B of files, 100 B on disk: 20% used"
        );
        assert_eq!(
            Cost::sum(std::iter::empty()).text(),
            "0 B of records in 0 B of files, 0 B on disk: - used"
        );
    }
}
