//! What a record of a queue's log is: the payload as it was published, and headers that hold everything else.
//!
//! The bytes are in `broker/FORMAT.md`. Damage is the engine's business, whose checksums cover a record; here every
//! sequence of bytes is either a message or an error.

mod fields;
#[cfg(test)]
mod tests;

use crate::api::{Band, Fault, HEADERS_MAX, KEY_MAX, NewMessage, PAYLOAD_MAX, Seq, StoredMessage};
use bytes::Bytes;
use fields::{Field, Fields, tag};

/// The first byte of a message's headers.
pub const VERSION: u8 = 1;

/// The length of what comes before the fields.
pub const HEAD_LEN: usize = 18;

/// What the broker itself knows of a message, from its headers alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// Its number in its queue.
    pub seq: Seq,
    /// Its band, the one of its log.
    pub band: Band,
    /// All bytes ever published to this band, this message included, by the one rule of size ([`NewMessage::size`]): the
    /// difference of two records' totals is what lies between them, without reading it.
    pub total: u64,
}

/// Headers that are no message's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadMessage {
    /// They end too early.
    #[error("the headers end too early")]
    Short,
    /// Written by another version of the format.
    #[error("version {0} is not known to this program")]
    Version(u8),
    /// There is no such band.
    #[error("there is no band {0}")]
    Band(u8),
    /// A field that must not be skipped is not known.
    #[error("field {0:#04x} is not known to this program, and must not be skipped")]
    Unknown(u8),
    /// A field comes a second time, or after one that belongs behind it.
    #[error("field {0:#04x} is in the wrong place")]
    Place(u8),
    /// A field's text is not UTF-8, or the field does not hold what it should.
    #[error("field {0:#04x} cannot be read")]
    Field(u8),
}

/// Appends the headers of this message's record to `out`; the payload is the record's payload as it is. What
/// [`check`] lets pass takes at most 65,535 bytes, the most that a record's headers may have.
pub fn encode_headers(head: &MessageHead, content: &NewMessage, out: &mut Vec<u8>) {
    out.reserve(HEAD_LEN + content.headers_size() + 8 * (content.headers.len() + 3));
    out.extend([VERSION, head.band.get()]);
    out.extend(head.seq.0.to_le_bytes());
    out.extend(head.total.to_le_bytes());
    let texts = [
        (tag::KEY, &content.key),
        (tag::CONTENT_TYPE, &content.content_type),
        (tag::CORRELATION_ID, &content.correlation_id),
    ];
    for (tag, text) in texts {
        if let Some(text) = text {
            fields::put(out, tag, text.as_bytes());
        }
    }
    for (name, value) in &content.headers {
        fields::put_pair(out, name, value);
    }
}

/// Reads what [`encode_headers`] wrote; `millis` is the record's wall-clock time.
///
/// # Errors
/// [`BadMessage`], whatever the bytes.
pub fn decode(
    headers: &[u8],
    payload: Bytes,
    millis: u64,
) -> Result<(MessageHead, StoredMessage), BadMessage> {
    let (head, fields) = split(headers)?;
    let mut content = NewMessage { payload, ..NewMessage::default() };
    for field in fields {
        match field? {
            Field::Key(text) => content.key = Some(text.to_owned()),
            Field::ContentType(text) => content.content_type = Some(text.to_owned()),
            Field::CorrelationId(text) => content.correlation_id = Some(text.to_owned()),
            Field::Header(name, value) => content.headers.push((name.to_owned(), value.to_owned())),
        }
    }
    Ok((head, StoredMessage { seq: head.seq, published_ms: millis, content }))
}

/// Reads only what is at the front: in constant time, without allocating, and whatever fields follow.
///
/// # Errors
/// [`BadMessage`].
pub fn decode_head(headers: &[u8]) -> Result<MessageHead, BadMessage> {
    split(headers).map(|(head, _)| head)
}

/// The idempotency key, without allocating. It is the first field, so that nothing else is looked at.
///
/// # Errors
/// [`BadMessage`], if the front or that field cannot be read.
pub fn decode_key(headers: &[u8]) -> Result<Option<&str>, BadMessage> {
    let (_, mut fields) = split(headers)?;
    match fields.next().transpose()? {
        Some(Field::Key(key)) => Ok(Some(key)),
        _ => Ok(None),
    }
}

/// The front, and the fields behind it.
fn split(headers: &[u8]) -> Result<(MessageHead, Fields<'_>), BadMessage> {
    let mut bytes = crate::wire::Bytes(headers);
    // The version before the length: what another version's length is, is not known here.
    let version = bytes.u8().ok_or(BadMessage::Short)?;
    if version != VERSION {
        return Err(BadMessage::Version(version));
    }
    let band = bytes.u8().ok_or(BadMessage::Short)?;
    let seq = Seq(bytes.u64().ok_or(BadMessage::Short)?);
    let total = bytes.u64().ok_or(BadMessage::Short)?;
    let band = Band::new(band).ok_or(BadMessage::Band(band))?;
    Ok((MessageHead { seq, band, total }, Fields::new(bytes)))
}

/// Checks a message against the broker's promises, in the order in which they are answered: the payload first.
///
/// # Errors
/// [`Fault::PayloadTooLarge`], [`Fault::HeadersTooLarge`], or [`Fault::Invalid`] for a key that is empty or longer than
/// [`KEY_MAX`] bytes and for a header without a name.
pub fn check(message: &NewMessage) -> Result<(), Fault> {
    let len = message.payload.len();
    if len > PAYLOAD_MAX {
        return Err(Fault::PayloadTooLarge { len: len as u64, max: PAYLOAD_MAX as u64 });
    }
    let len = message.headers_size();
    if len > HEADERS_MAX {
        return Err(Fault::HeadersTooLarge { len: len as u64, max: HEADERS_MAX as u64 });
    }
    if let Some(key) = &message.key {
        if key.is_empty() {
            return Err(Fault::Invalid("the idempotency key is empty".into()));
        }
        if key.len() > KEY_MAX {
            let said = format!(
                "the idempotency key has {} bytes, at most {KEY_MAX} are allowed",
                key.len()
            );
            return Err(Fault::Invalid(said.into()));
        }
    }
    if message.headers.iter().any(|(name, _)| name.is_empty()) {
        return Err(Fault::Invalid("a header has no name".into()));
    }
    Ok(())
}
