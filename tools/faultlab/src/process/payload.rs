//! What a record holds: made from the log's name, the record's number and its length, so that whoever reads it can tell
//! whose it is, which one, and whether a byte of it changed.

/// The payload of record `id` of `log`: `@LOG#ID@`, then letters up to `len` bytes. Never shorter than its beginning.
///
/// Printable throughout, so that a trace of system calls shows it as it is.
#[must_use]
pub fn payload(log: &str, id: u64, len: usize) -> Vec<u8> {
    let mut bytes = marker(log, id).into_bytes();
    // FNV-1a of the beginning, then xorshift: a letter for each step.
    let mut state = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.push(b'a' + u8::try_from(state % 26).unwrap_or(0));
    }
    bytes
}

/// How the payload of record `id` of `log` begins.
#[must_use]
pub fn marker(log: &str, id: u64) -> String {
    format!("@{log}#{id}@")
}

/// The number of the record of `log` that this is, if every byte of it is right.
#[must_use]
pub fn id_of(log: &str, bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(b"@")?.strip_prefix(log.as_bytes())?.strip_prefix(b"#")?;
    let end = rest.iter().position(|&byte| byte == b'@')?;
    let id = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    (payload(log, id, bytes.len()) == bytes).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::{id_of, payload};

    #[test]
    fn a_payload_tells_its_number_and_every_change() {
        for len in [0, 8, 9, 64, 5000] {
            let bytes = payload("q/1", 42, len);
            assert_eq!((id_of("q/1", &bytes), bytes.len()), (Some(42), len.max(8)));
            assert_eq!(id_of("q/2", &bytes), None, "another log's");
            for at in (0..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert_eq!(id_of("q/1", &changed), None, "byte {at}");
            }
        }
        assert!(payload("a", 7, 900).iter().all(u8::is_ascii_graphic));
        assert_ne!(payload("a", 7, 900)[9..], payload("a", 8, 900)[9..]);
    }
}
