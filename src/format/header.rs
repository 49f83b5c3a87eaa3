//! The header block of a segment file: its first 4 KiB, with every field in the first sector.

use super::{BLOCK_LEN, LAYOUT_VERSION, NO_BASE, SECTOR_LEN, id_at, put, u16_at, u32_at, u64_at};
use crate::types::{Generation, LogId, Offset, SizeClass};

/// The first bytes of every segment file. Not text, and broken by a transfer that changes line ends.
pub const MAGIC: [u8; 8] = *b"\x8ePLIMS\r\n";

pub(crate) const CRC_AT: usize = 508;

const STATE_SPARE: u8 = 1;
const STATE_IN_USE: u8 = 2;

/// How a segment came to be, for those who look into files; and the mark that the file before it had failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The log's first file, or the next after a full one.
    Roll,
    /// Opened after a write or a sync of the file before it failed: that file is never reused.
    Heal,
    /// Opened by an explicit repair.
    Repair,
}

impl Origin {
    const fn code(self) -> u8 {
        match self {
            Self::Roll => 1,
            Self::Heal => 2,
            Self::Repair => 3,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Roll),
            2 => Some(Self::Heal),
            3 => Some(Self::Repair),
            _ => None,
        }
    }

    /// The name as tools print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Roll => "roll",
            Self::Heal => "heal",
            Self::Repair => "repair",
        }
    }
}

const fn class_code(class: SizeClass) -> u8 {
    match class {
        SizeClass::Tiny => 1,
        SizeClass::Small => 2,
        SizeClass::Main => 3,
    }
}

const fn class_from_code(code: u8) -> Option<SizeClass> {
    match code {
        1 => Some(SizeClass::Tiny),
        2 => Some(SizeClass::Small),
        3 => Some(SizeClass::Main),
        _ => None,
    }
}

/// What the header of a file in use says beyond [`Header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// The log.
    pub log: LogId,
    /// Offset of the first record.
    pub base: Offset,
    /// Where the segment before this one ends; below `base` only where a repair declared a gap.
    pub previous_end: Offset,
    /// The largest stamp of any record before `base`, in Unix milliseconds; 0 if there is none.
    pub previous_millis: u64,
    /// How the segment came to be.
    pub origin: Origin,
}

/// A valid header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The use of the file that this header began.
    pub generation: Generation,
    /// The file's size class.
    pub class: SizeClass,
    /// The size that the file was made with, in bytes. Nothing behind it is read.
    pub capacity: u64,
    /// Wall clock when this use began, Unix milliseconds.
    pub created_millis: u64,
    /// `None` in a spare.
    pub in_use: Option<InUse>,
}

/// Why a header block is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Fewer bytes than a sector.
    #[error("the file has {0} bytes, and a header takes 512")]
    Short(usize),
    /// The first sector is all zero.
    #[error("the header is all zeroes")]
    Zero,
    /// Not a segment file, or its first bytes are damaged.
    #[error("offset 0, magic: found {0:02x?}, expected {MAGIC:02x?}")]
    Magic([u8; 8]),
    /// The checksum does not fit.
    #[error("offset 508, CRC32: found {found:08x}, expected {expected:08x}")]
    Crc {
        /// As stored.
        found: u32,
        /// As computed.
        expected: u32,
    },
    /// Written by a newer release.
    #[error("offset 8, layout version: found {0}, this release reads up to {LAYOUT_VERSION}")]
    Newer(u16),
    /// The checksum fits, but a field has a value that no release writes.
    #[error("offset {at}, {field}: found {found}, expected {expected}")]
    Field {
        /// Where the field stands in the file.
        at: u64,
        /// Its name.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What may stand there.
        expected: &'static str,
    },
}

impl HeaderError {
    /// Where in the file the field stands that is wrong.
    #[must_use]
    pub const fn position(&self) -> u64 {
        match self {
            Self::Short(_) | Self::Zero | Self::Magic(_) => 0,
            Self::Newer(_) => 8,
            Self::Crc { .. } => CRC_AT as u64,
            Self::Field { at, .. } => *at,
        }
    }
}

impl Header {
    /// The header block.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_LEN] {
        let mut block = [0; BLOCK_LEN];
        put(&mut block, 0, &MAGIC);
        put(&mut block, 8, &LAYOUT_VERSION.to_le_bytes());
        block[10] = if self.in_use.is_some() { STATE_IN_USE } else { STATE_SPARE };
        block[11] = class_code(self.class);
        put(&mut block, 12, &self.generation.get().to_le_bytes());
        put(&mut block, 24, &self.capacity.to_le_bytes());
        put(&mut block, 32, &self.created_millis.to_le_bytes());
        put(&mut block, 40, &NO_BASE.to_le_bytes());
        put(&mut block, 48, &NO_BASE.to_le_bytes());
        if let Some(in_use) = &self.in_use {
            block[14] = in_use.origin.code();
            put(&mut block, 40, &in_use.base.0.to_le_bytes());
            put(&mut block, 48, &in_use.previous_end.0.to_le_bytes());
            put(&mut block, 56, &in_use.previous_millis.to_le_bytes());
            put(&mut block, 64, &in_use.log.0);
        }
        let crc = crc32fast::hash(&block[..CRC_AT]);
        put(&mut block, CRC_AT, &crc.to_le_bytes());
        debug_assert_eq!(Self::parse(&block).as_ref(), Ok(self), "what is written can be read");
        block
    }

    /// Reads a header block, of which the first sector is enough.
    ///
    /// # Errors
    /// [`HeaderError`] says which field is wrong. Bytes behind the first sector are not looked at.
    pub fn parse(block: &[u8]) -> Result<Self, HeaderError> {
        let Some(sector) = block.get(..SECTOR_LEN) else {
            return Err(HeaderError::Short(block.len()));
        };
        if sector.iter().all(|&byte| byte == 0) {
            return Err(HeaderError::Zero);
        }
        if sector[..8] != MAGIC {
            let mut found = [0; 8];
            found.copy_from_slice(&sector[..8]);
            return Err(HeaderError::Magic(found));
        }
        let (found, expected) = (u32_at(sector, CRC_AT), crc32fast::hash(&sector[..CRC_AT]));
        if found != expected && !crate::planted::is(crate::planted::Fault::HeaderCrcNotChecked) {
            return Err(HeaderError::Crc { found, expected });
        }
        let version = u16_at(sector, 8);
        if version > LAYOUT_VERSION {
            return Err(HeaderError::Newer(version));
        }
        Self::parse_fields(sector, version)
    }

    fn parse_fields(sector: &[u8], version: u16) -> Result<Self, HeaderError> {
        if version != LAYOUT_VERSION {
            return Err(wrong(8, "layout version", version.into(), "1"));
        }
        let class = class_from_code(sector[11])
            .ok_or_else(|| wrong(11, "size class", sector[11].into(), "1 to 3"))?;
        let generation = Generation::new(u16_at(sector, 12))
            .ok_or_else(|| wrong(12, "generation", 0, "1 to 65535"))?;
        let capacity = u64_at(sector, 24);
        if !super::is_capacity(capacity) {
            return Err(wrong(24, "capacity", capacity, "a multiple of 4096, 12288 to 4294967296"));
        }
        if let Some(at) = (15..24).chain(80..CRC_AT).find(|&at| sector[at] != 0) {
            return Err(wrong(at as u64, "reserved", sector[at].into(), "0"));
        }
        let in_use = match sector[10] {
            STATE_SPARE => parse_spare(sector)?,
            STATE_IN_USE => Some(parse_in_use(sector)?),
            state => return Err(wrong(10, "state", state.into(), "1 or 2")),
        };
        let created_millis = u64_at(sector, 32);
        Ok(Self { generation, class, capacity, created_millis, in_use })
    }
}

const fn wrong(at: u64, field: &'static str, found: u64, expected: &'static str) -> HeaderError {
    HeaderError::Field { at, field, found, expected }
}

/// A spare says nothing of a log. One that does was stamped by a release that no reader knows.
fn parse_spare(sector: &[u8]) -> Result<Option<InUse>, HeaderError> {
    let log = sector[64..80].iter().find(|&&byte| byte != 0);
    let (base, previous_end) = (u64_at(sector, 40), u64_at(sector, 48));
    match (sector[14], base, previous_end, u64_at(sector, 56), log) {
        (0, NO_BASE, NO_BASE, 0, None) => Ok(None),
        (0, NO_BASE, NO_BASE, 0, Some(&byte)) => {
            Err(wrong(64, "log id", byte.into(), "0 in a spare"))
        }
        (0, NO_BASE, NO_BASE, millis, _) => {
            Err(wrong(56, "previous millis", millis, "0 in a spare"))
        }
        (0, NO_BASE, ..) => Err(wrong(48, "previous end", previous_end, "all ones in a spare")),
        (0, ..) => Err(wrong(40, "base offset", base, "all ones in a spare")),
        (origin, ..) => Err(wrong(14, "origin", origin.into(), "0 in a spare")),
    }
}

fn parse_in_use(sector: &[u8]) -> Result<InUse, HeaderError> {
    let (base, previous_end) = (u64_at(sector, 40), u64_at(sector, 48));
    let origin = Origin::from_code(sector[14])
        .ok_or_else(|| wrong(14, "origin", sector[14].into(), "1 to 3"))?;
    if base == NO_BASE {
        return Err(wrong(40, "base offset", base, "below all ones in a file in use"));
    }
    if previous_end > base {
        return Err(wrong(48, "previous end", previous_end, "at most the base offset"));
    }
    // Only a repair, which a person asked for, may leave offsets out.
    if previous_end < base && origin != Origin::Repair {
        return Err(wrong(
            48,
            "previous end",
            previous_end,
            "the base offset, no repair made this",
        ));
    }
    Ok(InUse {
        log: id_at(sector, 64),
        base: Offset(base),
        previous_end: Offset(previous_end),
        previous_millis: u64_at(sector, 56),
        origin,
    })
}
