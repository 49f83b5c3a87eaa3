//! Numbers and names as bytes, and back. Reading is total: whatever the bytes are, it ends, says what is wrong and where, and
//! takes no more memory than they have.

use crate::name::ConsumerName;

/// Bytes that are no record of an event log: from another version, or damaged in a way that the storage did not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at} of an event: {reason}")]
pub struct BadEvent {
    /// Where reading stopped.
    pub at: usize,
    /// What is wrong.
    pub reason: &'static str,
}

/// A number, seven bits a byte, the low ones first; the top bit of a byte says that another follows.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = number.to_le_bytes()[0] & 0x7f;
        number >>= 7;
        if number == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

/// A number that is near the one before it: their difference, its sign in the lowest bit.
pub(crate) fn put_step(out: &mut Vec<u8>, before: u64, number: u64) {
    let step = number.wrapping_sub(before).cast_signed();
    put_number(out, ((step << 1) ^ (step >> 63)).cast_unsigned());
}

/// A number of which every bit counts.
pub(crate) fn put_fixed(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// How many there are of something.
pub(crate) fn put_count(out: &mut Vec<u8>, count: usize) {
    put_number(out, count as u64);
}

/// A name or none: its length, then its bytes.
pub(crate) fn put_name(out: &mut Vec<u8>, name: Option<&ConsumerName>) {
    let name = name.map_or("", ConsumerName::as_str);
    put_count(out, name.len());
    out.extend_from_slice(name.as_bytes());
}

/// Reads what the others put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Something is wrong here.
    pub(crate) const fn bad(&self, reason: &'static str) -> BadEvent {
        BadEvent { at: self.at, reason }
    }

    pub(crate) const fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], BadEvent> {
        let taken = self.at.checked_add(len).and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| self.bad("it ends too early"))?;
        self.at += len;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, BadEvent> {
        let byte = self.bytes.get(self.at).copied();
        let byte = byte.ok_or_else(|| self.bad("it ends too early"))?;
        self.at += 1;
        Ok(byte)
    }

    pub(crate) fn number(&mut self) -> Result<u64, BadEvent> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                // One number has one spelling, so that what is read is written again as it was.
                let padded = byte == 0 && shift > 0;
                return if padded { Err(self.bad("a number is padded")) } else { Ok(number) };
            }
        }
        Err(self.bad("a number is too large"))
    }

    pub(crate) fn small(&mut self) -> Result<u32, BadEvent> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| self.bad("a number is too large"))
    }

    pub(crate) fn step(&mut self, before: u64) -> Result<u64, BadEvent> {
        let step = self.number()?;
        Ok(before.wrapping_add((step >> 1) ^ (step & 1).wrapping_neg()))
    }

    pub(crate) fn fixed(&mut self) -> Result<u64, BadEvent> {
        let bytes = self.take(8)?;
        let bytes = bytes.try_into().map_err(|_| self.bad("it ends too early"))?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn flag(&mut self) -> Result<bool, BadEvent> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.bad("neither yes nor no")),
        }
    }

    /// How many items follow, of at least `least` bytes each: a number that the bytes cannot hold takes no memory.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, BadEvent> {
        let count = self.number()?;
        let count = usize::try_from(count).ok().filter(|count| *count <= self.left() / least);
        count.ok_or_else(|| self.bad("it counts more than it holds"))
    }

    pub(crate) fn name(&mut self) -> Result<Option<ConsumerName>, BadEvent> {
        let len = self.count(1)?;
        let bytes = self.take(len)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let name = std::str::from_utf8(bytes).ok().and_then(|name| ConsumerName::new(name).ok());
        name.map(Some).ok_or_else(|| self.bad("no name of a consumer"))
    }

    /// Nothing may follow.
    pub(crate) fn end(&self) -> Result<(), BadEvent> {
        if self.left() == 0 { Ok(()) } else { Err(self.bad("something follows it")) }
    }
}
