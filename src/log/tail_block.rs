//! The block that the next record begins in, as it stands in the file: writes cover whole blocks.

use super::buffer::Buffer;

/// What stands in the last block before the place of the next record. Its memory is kept while the log is busy, and is no
/// more than was needed so far: thousands of logs hold a short record each.
#[derive(Debug, Default)]
pub(crate) struct TailBlock {
    bytes: Vec<u8>,
    /// It need not be read from the file.
    known: bool,
}

impl TailBlock {
    /// Of a file in which the next record begins a block.
    pub(crate) fn empty() -> Self {
        Self { bytes: Vec::new(), known: true }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.known
    }

    /// Less than a block.
    pub(crate) fn set(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.known = true;
    }

    /// Appends it to a buffer, which has it from now on.
    pub(crate) fn move_to(&mut self, buffer: &mut Buffer) {
        self.known = false;
        let reserved = buffer.reserve(self.bytes.len());
        debug_assert!(reserved, "the buffer was made with room for it");
        buffer.extend(self.bytes.len()).copy_from_slice(&self.bytes);
        self.bytes.clear();
    }

    /// Gives up its memory.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}
