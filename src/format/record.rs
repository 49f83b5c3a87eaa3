//! One record: a header of 32 bytes, the headers, the payload, and zeroes up to a multiple of 8.
//!
//! Both checksums are seeded with the file position and XORed with the [`Key`] of the log, generation and base, so bytes
//! inside a payload, or left over from another use of the file, never pass for a record.

use super::{
    Key, RECORD_ALIGN, RECORDS_POSITION, WINDOW, align_record, checksum, put, u16_at, u32_at,
};
use crate::planted::{self, Fault};
use crate::types::Generation;

/// Length of a record's header.
pub const HEADER_LEN: usize = 32;

/// Where the generation stands in a record's header.
pub const GENERATION_AT: usize = 12;

/// The largest stamp that fits, in Unix milliseconds: 48 bits, the year 10889.
pub const MILLIS_MAX: u64 = (1 << 48) - 1;

/// The fields of a record's header, the checksums left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Length of the payload in bytes.
    pub payload_len: u32,
    /// Length of the headers in bytes.
    pub headers_len: u16,
    /// The use of the file that the record belongs to.
    pub generation: Generation,
    /// Bytes just before this record that were not yet known durable when it was staged.
    pub unsynced: u32,
    /// Offset, counted from the segment's base.
    pub relative: u32,
    /// Unix milliseconds, at most [`MILLIS_MAX`].
    pub millis: u64,
}

impl RecordHeader {
    /// Length of headers and payload.
    #[must_use]
    pub const fn body_len(&self) -> u64 {
        self.headers_len as u64 + self.payload_len as u64
    }

    /// Length of the whole record, padding included.
    #[must_use]
    pub const fn record_len(&self) -> u64 {
        align_record(HEADER_LEN as u64 + self.body_len())
    }

    /// The position below which all bytes of this file were durable when this record, at `position`, was staged.
    #[must_use]
    pub const fn claim(&self, position: u64) -> u64 {
        position.saturating_sub(self.unsynced as u64)
    }
}

/// Length of a record with headers and payload of these lengths, padding included.
#[must_use]
pub const fn record_len(headers_len: usize, payload_len: usize) -> u64 {
    align_record((HEADER_LEN + headers_len + payload_len) as u64)
}

/// The checksum of a record's body, fed in parts.
#[derive(Clone, Debug)]
pub struct BodyCrc {
    hasher: crc32fast::Hasher,
    key: Key,
}

impl BodyCrc {
    /// Begins the checksum of the body of the record at `position`.
    #[must_use]
    pub fn new(key: Key, position: u64) -> Self {
        let hasher = match planted::is(Fault::CrcWithoutPosition) {
            true => crc32fast::Hasher::new(),
            false => checksum::seeded(position),
        };
        Self { hasher, key }
    }

    /// Takes more bytes: headers first, then payload.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// The checksum as stored.
    #[must_use]
    pub fn finish(self) -> u32 {
        self.hasher.finalize() ^ self.key.0
    }
}

#[inline]
fn unkeyed_header_crc(position: u64, header: &[u8; HEADER_LEN]) -> u32 {
    if planted::is(Fault::CrcWithoutPosition) {
        return crc32fast::hash(&header[4..]);
    }
    checksum::header(position, header)
}

#[inline]
fn body_crc(key: Key, position: u64, body: &[u8]) -> u32 {
    if planted::is(Fault::CrcWithoutPosition) {
        return crc32fast::hash(body) ^ key.0;
    }
    checksum::body(position, body) ^ key.0
}

/// Writes the record that is to stand at `position` of the file into `out`, which has exactly [`record_len`] bytes.
///
/// A stamp above [`MILLIS_MAX`] is stored as that.
///
/// # Panics
/// If a length in `header` is not that of `headers` or `payload`, `out` is too short, or `unsynced` is more than the
/// window: no reader would find such a record again, so it must not be written.
pub fn encode(
    out: &mut [u8],
    key: Key,
    position: u64,
    header: &RecordHeader,
    headers: &[u8],
    payload: &[u8],
) {
    debug_assert!(position.is_multiple_of(RECORD_ALIGN), "records are aligned");
    debug_assert_eq!(out.len() as u64, record_len(headers.len(), payload.len()));
    assert_eq!(usize::from(header.headers_len), headers.len(), "length of the headers");
    assert_eq!(header.payload_len as usize, payload.len(), "length of the payload");
    assert!(u64::from(header.unsynced) <= WINDOW, "a record starts within the window");
    let (head, body) = out.split_first_chunk_mut::<HEADER_LEN>().expect("room for a header");
    let (content, padding) = body.split_at_mut(headers.len() + payload.len());
    content[..headers.len()].copy_from_slice(headers);
    content[headers.len()..].copy_from_slice(payload);
    padding.fill(0);
    put(head, 4, &body_crc(key, position, content).to_le_bytes());
    put(head, 8, &header.payload_len.to_le_bytes());
    put(head, GENERATION_AT, &header.generation.get().to_le_bytes());
    put(head, 14, &header.headers_len.to_le_bytes());
    put(head, 16, &header.unsynced.to_le_bytes());
    put(head, 20, &header.relative.to_le_bytes());
    put(head, 24, &[0; 2]);
    put(head, 26, &header.millis.min(MILLIS_MAX).to_le_bytes()[..6]);
    let header_crc = unkeyed_header_crc(position, head) ^ key.0;
    put(head, 0, &header_crc.to_le_bytes());
}

/// A record's header whose checksum fits, the body not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The fields.
    pub header: RecordHeader,
    /// The body's checksum as stored.
    pub body_crc: u32,
}

/// Why there is no valid record at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Fewer than 32 bytes left in the file.
    #[error("{0} bytes are left, and a record's header takes 32")]
    Short(u64),
    /// Nothing was written here: the generation, which is never 0, is 0.
    #[error("field generation (+12): found 0, nothing was written here")]
    Nothing,
    /// Left over from another use of the file.
    #[error("field generation (+12): found {found}, the file's is {expected}")]
    Generation {
        /// As stored.
        found: u16,
        /// As in the file's header.
        expected: u16,
    },
    /// The header's checksum does not fit.
    #[error("field header CRC32 (+0): found {found:08x}, expected {expected:08x}")]
    HeaderCrc {
        /// As stored.
        found: u32,
        /// As computed.
        expected: u32,
    },
    /// The body's checksum does not fit.
    #[error("field body CRC32 (+4): found {found:08x}, expected {expected:08x}")]
    BodyCrc {
        /// As stored.
        found: u32,
        /// As computed.
        expected: u32,
    },
    /// The record reaches over the end of the file.
    #[error(
        "fields payload length and headers length (+8, +14): {len} bytes, {left} are left in the file"
    )]
    Length {
        /// Length of the record.
        len: u64,
        /// Bytes left.
        left: u64,
    },
    /// The offset is not the one that comes next.
    #[error("field offset (+20): found base + {found}, expected base + {expected}")]
    Offset {
        /// As stored.
        found: u32,
        /// What comes next.
        expected: u64,
    },
    /// A flag that no release sets.
    #[error("field flags (+24): found {0:04x}, expected 0")]
    Flags(u16),
    /// More unsynced bytes than the window, or than stand between the first record and this one.
    #[error("field unsynced (+16): found {0}, more than the window or the bytes before")]
    Unsynced(u32),
    /// The bytes between payload and the next record are not zero.
    #[error("padding: found {0:02x}, expected 0")]
    Padding(u8),
}

/// Reads the header of the record at `position`. `bytes` is what stands there, `left` how much of the file is left from
/// there on.
///
/// The offset is not checked here; whoever knows the expected one does.
///
/// # Errors
/// The first rule of `storage-format.md` that the bytes break, in its order. Never panics, whatever the bytes.
#[inline]
pub fn parse(
    bytes: &[u8],
    left: u64,
    key: Key,
    position: u64,
    generation: Generation,
) -> Result<Parsed, RecordError> {
    let Some(head) = bytes.first_chunk::<HEADER_LEN>() else {
        return Err(RecordError::Short(bytes.len() as u64));
    };
    let found = u16_at(head, GENERATION_AT);
    if found == 0 {
        return Err(RecordError::Nothing);
    }
    if planted::is(Fault::NoGenerationCheck) {
        let any = Generation::new(found).unwrap_or(generation);
        return parse_fields(head, left, position, any);
    }
    if found != generation.get() {
        return Err(RecordError::Generation { found, expected: generation.get() });
    }
    let (found, expected) = (u32_at(head, 0), unkeyed_header_crc(position, head) ^ key.0);
    if found != expected {
        return Err(RecordError::HeaderCrc { found, expected });
    }
    parse_fields(head, left, position, generation)
}

#[inline]
fn parse_fields(
    head: &[u8; HEADER_LEN],
    left: u64,
    position: u64,
    generation: Generation,
) -> Result<Parsed, RecordError> {
    let flags = u16_at(head, 24);
    if flags != 0 {
        return Err(RecordError::Flags(flags));
    }
    let header = RecordHeader {
        payload_len: u32_at(head, 8),
        headers_len: u16_at(head, 14),
        generation,
        unsynced: u32_at(head, 16),
        relative: u32_at(head, 20),
        millis: u64::from(u32_at(head, 26)) | u64::from(u16_at(head, 30)) << 32,
    };
    if header.record_len() > left {
        return Err(RecordError::Length { len: header.record_len(), left });
    }
    let before = position.saturating_sub(RECORDS_POSITION);
    if u64::from(header.unsynced) > before.min(WINDOW) {
        return Err(RecordError::Unsynced(header.unsynced));
    }
    Ok(Parsed { header, body_crc: u32_at(head, 4) })
}

/// Checks the body of a parsed record. `body` is everything behind its header, padding included.
///
/// # Errors
/// [`RecordError::BodyCrc`] or [`RecordError::Padding`].
///
/// # Panics
/// If `body` is shorter than the header says.
#[inline]
pub fn check_body(
    parsed: &Parsed,
    key: Key,
    position: u64,
    body: &[u8],
) -> Result<(), RecordError> {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "at most 4 GiB + 64 KiB, and usize has 64 bits"
    )]
    let len = parsed.header.body_len() as usize;
    let expected = body_crc(key, position, &body[..len]);
    if parsed.body_crc != expected && !planted::is(Fault::NoGenerationCheck) {
        return Err(RecordError::BodyCrc { found: parsed.body_crc, expected });
    }
    check_padding(&body[len..])
}

/// Checks the bytes between a record's payload and the next record.
///
/// # Errors
/// [`RecordError::Padding`] if one is not zero.
#[inline]
pub fn check_padding(padding: &[u8]) -> Result<(), RecordError> {
    match padding.iter().find(|&&byte| byte != 0) {
        Some(&byte) => Err(RecordError::Padding(byte)),
        None => Ok(()),
    }
}

/// The key that would make the header at `position` valid, for a reader that does not know the log's identity. It
/// proves nothing until the same record's body fits under it. `None` if there is no generation.
#[must_use]
pub fn derive_key(bytes: &[u8], position: u64) -> Option<(Key, Generation)> {
    let head = bytes.first_chunk::<HEADER_LEN>()?;
    let generation = Generation::new(u16_at(head, GENERATION_AT))?;
    Some((Key(u32_at(head, 0) ^ unkeyed_header_crc(position, head)), generation))
}
