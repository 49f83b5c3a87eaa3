//! The folder of a run, and the room that it needs.

use crate::failure::{Exit, Failure};
use crate::numbers::size;
use crate::output;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// How the folder's name begins.
const NAME: &str = "plimsoll-bench";
/// No directory holds more of them.
const NUMBER_MAX: u32 = 100;

/// A folder that is removed with all that is in it, at the latest when dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    gone: bool,
}

impl Folder {
    /// Makes it in `dir`, which must be there.
    pub(crate) fn make(dir: &Path) -> Result<Self, Failure> {
        check(dir)?;
        for number in 1..=NUMBER_MAX {
            let path = dir.join(format!("{NAME}.{number}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path, gone: false }),
                // Another run's; or its process was killed, and nobody else removes it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    output::note(format_args!(
                        "{} is there: another run's, or left by one that was killed",
                        path.display()
                    ));
                }
                Err(error) => return Err(Failure::io("make", path.display(), &error)),
            }
        }
        let sentence =
            format!("{} holds {NUMBER_MAX} folders {NAME}.*; remove them", dir.display());
        Err(Failure::new(Exit::Io, sentence).with("file", dir.display().to_string()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it.
    pub(crate) fn remove(mut self) -> Result<(), Failure> {
        self.gone = true;
        std::fs::remove_dir_all(&self.path)
            .map_err(|error| Failure::io("remove", self.path.display(), &error))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.gone {
            // On the way out of a panic, which is what is told.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Refuses what is no directory, and data directories.
fn check(dir: &Path) -> Result<(), Failure> {
    let fail = |error: io::Error| Failure::io("use", dir.display(), &error);
    if !std::fs::metadata(dir).map_err(fail)?.is_dir() {
        return Err(fail(io::ErrorKind::NotADirectory.into()));
    }
    let real = std::fs::canonicalize(dir).map_err(fail)?;
    let Some(data) = real.ancestors().find(|path| is_data_dir(path)) else { return Ok(()) };
    // `verify` and `inspect` would find something foreign in it, for good if this process is killed.
    let sentence = format!(
        "{} is a data directory, where only a node's own files belong; name another directory on the same disk, such as \
         one beside it",
        data.display()
    );
    Err(Failure::usage(sentence).with("file", data.display().to_string()))
}

/// Others have directories with the name `logs`, too.
fn is_data_dir(path: &Path) -> bool {
    path.join("LAYOUT").is_file() && path.join("logs").is_dir()
}

/// Refuses to begin where less than twice of what is needed is free.
pub(crate) fn check_room(needed: u64, free: u64) -> Result<(), Failure> {
    let wanted = needed.saturating_mul(2);
    if free >= wanted {
        return Ok(());
    }
    let sentence = format!(
        "needs up to {} for a while, and begins only where twice that is free, {}; {} is free there",
        size(needed),
        size(wanted),
        size(free)
    );
    Err(Failure::new(Exit::Io, sentence).with("needed_bytes", wanted).with("free_bytes", free))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_free_is_the_most_that_is_used() {
        assert!(check_room(100, 200).is_ok());
        let failure = check_room(512 << 20, (1 << 30) - 1).unwrap_err();
        assert!(failure.message().contains("512 MiB"), "{}", failure.message());
        assert!(check_room(u64::MAX, u64::MAX - 1).is_err());
    }
}
