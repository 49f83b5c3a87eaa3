//! The block that the next record begins in, as it stands in the file: writes cover whole blocks.

use super::buffer::Buffer;
use crate::format::BLOCK_LEN;

/// What stands in the last block before the place of the next record. Its memory is kept while the log is busy.
#[derive(Debug, Default)]
pub(crate) struct TailBlock {
    bytes: Option<Box<[u8; BLOCK_LEN]>>,
    /// How much of it is there; `None` when it must be read from the file.
    len: Option<usize>,
}

impl TailBlock {
    /// Of a file in which the next record begins a block.
    pub(crate) fn empty() -> Self {
        Self { bytes: None, len: Some(0) }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.len.is_some()
    }

    /// Less than a block.
    pub(crate) fn set(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let block = self.bytes.get_or_insert_with(|| Box::new([0; BLOCK_LEN]));
            block[..bytes.len()].copy_from_slice(bytes);
        }
        self.len = Some(bytes.len());
    }

    /// Appends it to a buffer, which has it from now on.
    pub(crate) fn move_to(&mut self, buffer: &mut Buffer) {
        let len = self.len.take().unwrap_or(0);
        let reserved = buffer.reserve(len);
        debug_assert!(reserved, "the buffer was made with room for it");
        if let Some(block) = &self.bytes {
            buffer.extend(len).copy_from_slice(&block[..len]);
        }
    }

    /// Gives up its memory.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}
