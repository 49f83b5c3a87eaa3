//! The two checksums of a record: CRC-32 over the position as eight bytes, and then over what stands there.
//!
//! A log of small records is read as fast as these are computed. Over a few hundred bytes most of the time of a general CRC
//! goes into its beginning and its end, and each checksum here begins with eight bytes more: so both are computed in
//! one go where the processor multiplies polynomials, and by `crc32fast` elsewhere.

#[cfg(target_arch = "x86_64")]
mod fold;

use super::record::HEADER_LEN;

/// CRC-32 of `position` and the header's bytes behind its own checksum.
#[inline]
pub(crate) fn header(position: u64, header: &[u8; HEADER_LEN]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if let Some(crc) = fold::header(position, header) {
        return crc;
    }
    after(position, &header[4..])
}

/// CRC-32 of `position` and `bytes`.
#[inline]
pub(crate) fn body(position: u64, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if let Some(crc) = fold::body(position, bytes) {
        return crc;
    }
    after(position, bytes)
}

/// A checksum that has taken `position`, for bytes that come in parts.
pub(crate) fn seeded(position: u64) -> crc32fast::Hasher {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&position.to_le_bytes());
    hasher
}

fn after(position: u64, bytes: &[u8]) -> u32 {
    let mut hasher = seeded(position);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests;
