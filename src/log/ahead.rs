//! A file that is reserved early waits beside the log's segments: a roll renames it within one directory then, and syncs
//! that one alone.

use super::Shared;
use crate::error::{DiskContext, DiskError};
use crate::planted::{self, Fault};
use crate::segment::{Reuse, Spare};

impl Shared {
    /// Moves a spare into the log's directory and makes that durable in both directories, off the write path: nobody waits
    /// for these syncs. The directory of spares must be done with before the file is begun, as the roll does not sync it.
    ///
    /// The name is no segment's, and a start removes what has it: a crash costs a spare, which is made again.
    ///
    /// # Errors
    /// Of a sync; then the file is deleted, as nobody can tell under which of its names a power cut would show it. Or of a
    /// rename after which it is not found where it was.
    pub(super) fn move_in(&self, mut spare: Spare) -> Result<Spare, DiskError> {
        let spares = self.source.spares_dir();
        let Some(stem) = spare.path.file_stem().filter(|_| spare.path.parent() == Some(spares))
        else {
            return Ok(spare);
        };
        let mut name = stem.to_os_string();
        name.push(".tmp");
        let beside = self.dir.join(name);
        if let Err(error) = self.fs.rename(&spare.path, &beside) {
            if self.fs.metadata(&spare.path).is_ok() {
                // It serves from there, too. What is wrong the roll will tell.
                tracing::debug!(path = %spare.path.display(), %error, "a reserved file stays among the spares");
                return Ok(spare);
            }
            return Err(DiskError::new("rename a spare to", &beside, error));
        }
        spare.path = beside;
        let mut synced = self.fs.sync_dir(&self.dir).disk("sync", &self.dir);
        if synced.is_ok() && !planted::is(Fault::FirstCommitWithoutSparesDirectory) {
            synced = self.fs.sync_dir(spares).disk("sync", spares);
        }
        if let Err(error) = synced {
            let deleted = self.source.give_up(&spare.path, Reuse::Never);
            if let Err(error) = deleted.map(|gone| self.source.given_up(gone)) {
                tracing::debug!(path = %spare.path.display(), %error, "stays until the next start");
            }
            return Err(error);
        }
        Ok(spare)
    }
}
