//! Bytes in and out: what the binary records of the broker are made of. Integers are little-endian.

/// Appends `value` in as few bytes as hold it, seven bits in each, the lowest first.
#[allow(clippy::cast_possible_truncation, reason = "seven bits at a time")]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// What is left of a record's bytes. Every call answers `None` where they are too short, and then takes nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number of [`put_varint`]. One that takes more bytes than it needs is none: what is valid has one form only.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut rest = *self;
        let mut value = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = rest.u8()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                *self = rest;
                return Some(value);
            }
        }
        None
    }

    /// A length, and so many bytes.
    pub(crate) fn sized(&mut self) -> Option<&'a [u8]> {
        let mut rest = *self;
        let len = usize::try_from(rest.varint()?).ok()?;
        let taken = rest.take(len)?;
        *self = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, put_varint};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_varint_has_one_form(value: u64, tail: Vec<u8>) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let len = bytes.len();
            bytes.extend(&tail);
            let mut read = Bytes(&bytes);
            prop_assert_eq!(read.varint(), Some(value));
            prop_assert_eq!(read.0, &tail[..]);
            prop_assert_eq!(Bytes(&bytes[..len - 1]).varint(), None);
        }

        #[test]
        fn any_bytes_that_are_a_varint_are_the_one_that_is_written(bytes: Vec<u8>) {
            let mut read = Bytes(&bytes);
            if let Some(value) = read.varint() {
                let mut again = Vec::new();
                put_varint(&mut again, value);
                prop_assert_eq!(&bytes[..bytes.len() - read.0.len()], &again[..]);
            }
        }
    }

    #[test]
    fn what_is_no_varint_takes_nothing() {
        // Too long by a byte, by a bit, and without an end.
        for bad in
            [&[0x80, 0][..], &[0xff; 9], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]]
        {
            let mut read = Bytes(bad);
            assert_eq!(read.varint(), None, "{bad:?}");
            assert_eq!(read.0, bad);
        }
        let mut short = Bytes(&[3, 1, 2]);
        assert_eq!(short.sized(), None);
        assert_eq!(short.0.len(), 3);
    }
}
