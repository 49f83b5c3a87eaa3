//! The fields of a message's headers: a tag, a length, so many bytes.

use super::BadMessage;
use crate::wire::{Bytes, put_varint};

/// What the tags mean. From 0x80 on, a field that is not known may be skipped; below, it must not.
pub(super) mod tag {
    /// First of all, so that it is found without looking at the rest.
    pub(crate) const KEY: u8 = 0x01;
    pub(crate) const CONTENT_TYPE: u8 = 0x02;
    pub(crate) const CORRELATION_ID: u8 = 0x03;
    /// May come several times.
    pub(crate) const HEADER: u8 = 0x04;
    /// The first of those that may be skipped.
    pub(crate) const OPTIONAL: u8 = 0x80;
}

/// A field that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Key(&'a str),
    ContentType(&'a str),
    CorrelationId(&'a str),
    Header(&'a str, &'a str),
}

/// Appends a field.
pub(super) fn put(out: &mut Vec<u8>, tag: u8, value: &[u8]) {
    out.push(tag);
    put_varint(out, value.len() as u64);
    out.extend(value);
}

/// Appends a header: the name's length, the name, and the value to the field's end.
pub(super) fn put_pair(out: &mut Vec<u8>, name: &str, value: &str) {
    let mut front = Vec::with_capacity(10);
    put_varint(&mut front, name.len() as u64);
    out.push(tag::HEADER);
    put_varint(out, (front.len() + name.len() + value.len()) as u64);
    out.extend(front);
    out.extend(name.as_bytes());
    out.extend(value.as_bytes());
}

/// The known fields in order; ends with the first error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    left: Bytes<'a>,
    last: u8,
}

impl<'a> Fields<'a> {
    pub(super) const fn new(left: Bytes<'a>) -> Self {
        Self { left, last: 0 }
    }

    /// The next known field, or what is wrong.
    fn step(&mut self) -> Result<Option<Field<'a>>, BadMessage> {
        while !self.left.is_empty() {
            let tag = self.left.u8().ok_or(BadMessage::Short)?;
            let value = self.left.sized().ok_or(BadMessage::Short)?;
            // In order, and once: so that a message has one form, and the first of two keys is not the one that counts
            // here and the second there.
            let again = tag == self.last && tag < tag::OPTIONAL && tag != tag::HEADER;
            if tag < self.last || again {
                return Err(BadMessage::Place(tag));
            }
            self.last = tag;
            let text = || std::str::from_utf8(value).map_err(|_| BadMessage::Field(tag));
            return Ok(Some(match tag {
                tag::KEY => Field::Key(text()?),
                tag::CONTENT_TYPE => Field::ContentType(text()?),
                tag::CORRELATION_ID => Field::CorrelationId(text()?),
                tag::HEADER => pair(value).ok_or(BadMessage::Field(tag))?,
                tag::OPTIONAL.. => continue,
                _ => return Err(BadMessage::Unknown(tag)),
            }));
        }
        Ok(None)
    }
}

fn pair(value: &[u8]) -> Option<Field<'_>> {
    let mut rest = Bytes(value);
    let name = std::str::from_utf8(rest.sized()?).ok()?;
    Some(Field::Header(name, std::str::from_utf8(rest.0).ok()?))
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, BadMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step().transpose();
        if matches!(step, Some(Err(_))) {
            self.left = Bytes(&[]);
        }
        step
    }
}
