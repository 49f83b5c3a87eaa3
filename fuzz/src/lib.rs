//! What the fuzz targets share.

pub mod directory;
pub mod operations;

use plimsoll::fs::File;
use std::io;
use std::sync::{PoisonError, RwLock};

/// A file in memory. Reads give at most `transfer` bytes at a time, so that whoever takes a short read for a whole one is
/// found out.
#[derive(Debug)]
pub struct MemoryFile {
    bytes: RwLock<Vec<u8>>,
    transfer: usize,
}

impl MemoryFile {
    /// A file that holds `bytes`. A `transfer` of 0 is taken as 1.
    #[must_use]
    pub fn new(bytes: Vec<u8>, transfer: usize) -> Self {
        Self { bytes: RwLock::new(bytes), transfer: transfer.max(1) }
    }

    fn place(position: u64) -> io::Result<usize> {
        usize::try_from(position).map_err(|_| io::ErrorKind::InvalidInput.into())
    }
}

impl File for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.read().unwrap_or_else(PoisonError::into_inner).len() as u64)
    }

    fn read_raw(&self, position: u64, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        let rest = bytes.get(Self::place(position)?..).unwrap_or_default();
        let count = rest.len().min(into.len()).min(self.transfer);
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_raw(&self, position: u64, from: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        let start = Self::place(position)?;
        let count = from.len().min(self.transfer);
        if bytes.len() < start + count {
            bytes.resize(start + count, 0);
        }
        bytes[start..start + count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        let len = Self::place(len)?.max(bytes.len());
        bytes.resize(len, 0);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = Self::place(len)?;
        self.bytes.write().unwrap_or_else(PoisonError::into_inner).resize(len, 0);
        Ok(())
    }
}
