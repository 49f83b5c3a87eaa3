//! The encoding of a record's headers: pairs of a name and a value.
//!
//! The log stores headers as opaque bytes; this is the encoding that the project's own tools write and read. Each pair
//! is a name length `u8`, a value length `u16`, the name (UTF-8, not empty), the value (any bytes).

/// The most bytes that a record's headers may take.
pub const HEADERS_LEN_MAX: usize = u16::MAX as usize;

/// Why a pair does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadersError {
    /// A name is empty or longer than 255 bytes.
    #[error("header name of {0} bytes, expected 1 to 255")]
    Name(usize),
    /// A value is longer than 65,535 bytes.
    #[error("header value of {0} bytes, expected at most 65535")]
    Value(usize),
    /// All pairs together are longer than 65,535 bytes.
    #[error("headers of {0} bytes, expected at most {HEADERS_LEN_MAX}")]
    Total(usize),
    /// The bytes are not pairs.
    #[error("headers, byte {0}: not a name and a value")]
    Malformed(usize),
}

/// Encodes pairs in the order given.
///
/// # Errors
/// The first pair that does not fit.
pub fn encode<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<Vec<u8>, HeadersError> {
    let mut out = Vec::new();
    for (name, value) in pairs {
        let name_len = u8::try_from(name.len()).ok().filter(|&len| len > 0);
        out.push(name_len.ok_or(HeadersError::Name(name.len()))?);
        let value_len = u16::try_from(value.len()).map_err(|_| HeadersError::Value(value.len()))?;
        out.extend_from_slice(&value_len.to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(value);
    }
    if out.len() > HEADERS_LEN_MAX {
        return Err(HeadersError::Total(out.len()));
    }
    Ok(out)
}

/// Reads pairs back.
///
/// # Errors
/// [`HeadersError::Malformed`] with the position of the pair that is none.
pub fn parse(bytes: &[u8]) -> Result<Vec<(&str, &[u8])>, HeadersError> {
    let mut pairs = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let malformed = HeadersError::Malformed(at);
        let [name_len, low, high] = *bytes.get(at..at + 3).ok_or(malformed)? else {
            return Err(malformed);
        };
        let (name_len, value_len) =
            (usize::from(name_len), usize::from(u16::from_le_bytes([low, high])));
        let name = bytes.get(at + 3..at + 3 + name_len).ok_or(malformed)?;
        let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty());
        let value = bytes.get(at + 3 + name_len..at + 3 + name_len + value_len).ok_or(malformed)?;
        pairs.push((name.ok_or(malformed)?, value));
        at += 3 + name_len + value_len;
    }
    Ok(pairs)
}
