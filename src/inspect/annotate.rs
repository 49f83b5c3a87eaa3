//! Names the bytes of a header block, a checkpoint block or a record, for a hex dump. No I/O.

use crate::format::record::{self, HEADER_LEN};
use crate::format::{
    BLOCK_LEN, CHECKPOINT_POSITION, Key, SECTOR_LEN, id_at, u16_at, u32_at, u64_at,
};

/// Some bytes of a file and what they mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Where the first one stands in the file.
    pub position: u64,
    /// How many there are.
    pub len: u64,
    /// The field's name, as in `storage-format.md`.
    pub name: &'static str,
    /// Its value as text.
    pub value: String,
}

struct Fields {
    at: u64,
    fields: Vec<Field>,
}

impl Fields {
    fn add(&mut self, at: u64, len: u64, name: &'static str, value: String) {
        if len > 0 {
            self.fields.push(Field { position: self.at + at, len, name, value });
        }
    }
}

/// The fields of a file's header block, valid or not. `None` if it is shorter than a sector.
#[must_use]
pub fn header_fields(block: &[u8]) -> Option<Vec<Field>> {
    let sector = block.get(..SECTOR_LEN)?;
    let mut out = Fields { at: 0, fields: Vec::new() };
    let offset = |at| match u64_at(sector, at) {
        u64::MAX => "none".to_owned(),
        value => value.to_string(),
    };
    let state = match sector[10] {
        1 => "spare".to_owned(),
        2 => "in use".to_owned(),
        other => format!("{other}, expected 1 or 2"),
    };
    let class = match sector[11] {
        1 => "tiny".to_owned(),
        2 => "small".to_owned(),
        3 => "main".to_owned(),
        other => format!("{other}, expected 1 to 3"),
    };
    out.add(0, 8, "magic", format!("{:02x?}", &sector[..8]));
    out.add(8, 2, "layout version", u16_at(sector, 8).to_string());
    out.add(10, 1, "state", state);
    out.add(11, 1, "size class", class);
    out.add(12, 2, "generation", u16_at(sector, 12).to_string());
    out.add(14, 1, "origin", sector[14].to_string());
    out.add(15, 9, "reserved", reserved(&sector[15..24]));
    out.add(24, 8, "capacity", u64_at(sector, 24).to_string());
    out.add(32, 8, "created", u64_at(sector, 32).to_string());
    out.add(40, 8, "base offset", offset(40));
    out.add(48, 8, "previous end", offset(48));
    out.add(56, 8, "previous stamp", u64_at(sector, 56).to_string());
    out.add(64, 16, "log id", id_at(sector, 64).to_string());
    out.add(80, 428, "reserved", reserved(&sector[80..508]));
    out.add(508, 4, "CRC32", crc(u32_at(sector, 508), crc32fast::hash(&sector[..508])));
    Some(out.fields)
}

/// The fields of a file's checkpoint block, valid or not. `None` if it is shorter than a sector.
#[must_use]
pub fn checkpoint_fields(block: &[u8]) -> Option<Vec<Field>> {
    let sector = block.get(..SECTOR_LEN.min(BLOCK_LEN))?;
    let mut out = Fields { at: CHECKPOINT_POSITION, fields: Vec::new() };
    out.add(0, 8, "magic", format!("{:02x?}", &sector[..8]));
    out.add(8, 2, "generation", u16_at(sector, 8).to_string());
    out.add(10, 6, "reserved", reserved(&sector[10..16]));
    out.add(16, 8, "position", u64_at(sector, 16).to_string());
    out.add(24, 8, "next offset", u64_at(sector, 24).to_string());
    out.add(32, 8, "largest stamp", u64_at(sector, 32).to_string());
    out.add(40, 16, "log id", id_at(sector, 40).to_string());
    out.add(56, 452, "reserved", reserved(&sector[56..508]));
    out.add(508, 4, "CRC32", crc(u32_at(sector, 508), crc32fast::hash(&sector[..508])));
    Some(out.fields)
}

/// The fields of the record whose bytes, as far as they are there, are given.
pub(crate) fn record_fields(bytes: &[u8], position: u64, key: Key) -> Vec<Field> {
    let mut out = Fields { at: position, fields: Vec::new() };
    if bytes.len() < HEADER_LEN {
        out.add(0, bytes.len() as u64, "rest of the file", String::new());
        return out.fields;
    }
    let header_crc = record::derive_key(bytes, position)
        .map_or(u32_at(bytes, 0), |(derived, _)| u32_at(bytes, 0) ^ derived.0 ^ key.0);
    let (payload_len, headers_len) = (u32_at(bytes, 8), u16_at(bytes, 14));
    let unsynced = u32_at(bytes, 16);
    let millis = u64::from(u32_at(bytes, 26)) | u64::from(u16_at(bytes, 30)) << 32;
    out.add(0, 4, "header CRC32", crc(u32_at(bytes, 0), header_crc));
    out.add(4, 4, "body CRC32", format!("{:08x}", u32_at(bytes, 4)));
    out.add(8, 4, "payload length", payload_len.to_string());
    out.add(12, 2, "generation", u16_at(bytes, 12).to_string());
    out.add(14, 2, "headers length", headers_len.to_string());
    let claim = position.saturating_sub(unsynced.into());
    out.add(16, 4, "unsynced", format!("{unsynced}, all below byte {claim} was durable"));
    out.add(20, 4, "offset", format!("base + {}", u32_at(bytes, 20)));
    out.add(24, 2, "flags", format!("{:04x}", u16_at(bytes, 24)));
    out.add(26, 6, "stamp", format!("{millis} ms"));
    let (head, headers) = (HEADER_LEN as u64, u64::from(headers_len));
    let have = bytes.len() as u64;
    if have > head {
        let headers = headers.min(have - head);
        let payload = u64::from(payload_len).min(have - head - headers);
        out.add(head, headers, "headers", format!("{headers} bytes"));
        out.add(head + headers, payload, "payload", format!("{payload} bytes"));
        let body = head + headers + payload;
        out.add(body, have - body, "padding", format!("{} bytes", have - body));
    }
    out.fields
}

fn reserved(bytes: &[u8]) -> String {
    match bytes.iter().find(|&&byte| byte != 0) {
        None => "0".to_owned(),
        Some(byte) => format!("{byte:02x}, expected 0"),
    }
}

fn crc(found: u32, expected: u32) -> String {
    if found == expected {
        format!("{found:08x}, fits")
    } else {
        format!("{found:08x}, expected {expected:08x}")
    }
}
