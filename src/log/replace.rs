//! A file in the place of one that holds no record: same base, same name.
//!
//! It is needed where the last file is empty and the next record does not fit it. The empty file's header may be all that
//! says what the log's next offset is, so the new file gets its name in one step, with header and records durable before.
//! A rename first and the header later, as for a name that is new, would leave a spare header there, which recovery takes
//! for a file that was only being taken, and offsets would start again (I8).

use super::Shared;
use super::commit::Failed;
use super::state::{Chunk, State};
use crate::error::{DiskContext, DiskError};
use crate::fs::Write;
use crate::segment::{Access, Reuse, Spare, rename_in};
use std::io;
use std::sync::Arc;

impl Shared {
    /// Whether a chunk's file takes the place of one in the log.
    pub(super) fn replaces(state: &State, chunk: &Chunk) -> bool {
        let (id, base) = (chunk.segment.id, chunk.segment.base);
        state.segments.iter().any(|other| other.base == base && other.id != id)
    }

    /// The first commit in such a file.
    pub(super) fn write_replacing(&self, chunk: &Chunk, spare: Spare) -> Result<(), Failed> {
        let segment = &chunk.segment;
        let header = segment.header().encode();
        let writes = [
            Write { position: 0, bytes: &header },
            Write { position: chunk.start, bytes: chunk.buffer.bytes() },
        ];
        if let Err(error) = spare.file.write_and_sync(&writes) {
            self.delete_spare(&spare);
            return Err(Failed::untouched(DiskError::new("write and sync", &spare.path, error)));
        }
        if let Err(error) = rename_in(&*self.fs, &*self.source, &spare, &segment.path) {
            if error.raw_os_error() == Some(libc::EXDEV) {
                self.source.cannot_rename_into(&self.dir);
            }
            let error_of = |error| DiskError::new("rename a spare to", &segment.path, error);
            // A rename that failed may have been done all the same, and this one would show the records.
            if self.is_missing(&spare) {
                return Err(Failed::written(error_of(error)));
            }
            self.delete_spare(&spare);
            return Err(Failed::untouched(error_of(error)));
        }
        let spares = self.source.spares_dir();
        for dir in [self.dir.as_path(), spares] {
            self.fs.sync_dir(dir).disk("sync", dir).map_err(Failed::written)?;
        }
        self.counts.count(&*spare.file);
        self.files.put(segment.id, Arc::clone(&spare.file), Access::Write);
        Ok(())
    }

    /// Forgets the empty segment whose name a chunk's file has now.
    pub(super) fn forget_replaced(&self, state: &mut State, chunk: &Chunk) {
        let (id, base) = (chunk.segment.id, chunk.segment.base);
        state.segments.retain(|other| {
            let keep = other.base != base || other.id == id;
            if !keep {
                self.files.forget(other.id);
                self.indexes.forget(other.id);
            }
            keep
        });
    }

    /// It carries a log's header, or part of one: no spare any more.
    fn delete_spare(&self, spare: &Spare) {
        let deleted = self.source.give_up(&spare.path, Reuse::Never);
        if let Err(error) = deleted.map(|gone| self.source.given_up(gone)) {
            tracing::debug!(path = %spare.path.display(), %error, "stays until the next start");
        }
    }

    /// Whether the spare surely or perhaps lost its name.
    fn is_missing(&self, spare: &Spare) -> bool {
        let found: io::Result<_> = self.fs.metadata(&spare.path);
        found.is_err()
    }
}
