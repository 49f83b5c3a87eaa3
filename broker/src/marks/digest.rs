//! Keyed hashes of what publishers send: of a fixed size whatever they send, and not theirs to make equal.

use crate::api::{NewMessage, QueueId};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

/// What is hashed begins with these, so that no two uses of the key meet.
const KEY: &[u8; 8] = b"idemkey1";
const CONTENT: &[u8; 8] = b"content1";

/// Makes them. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Digests {
    hasher: SipHasher24,
}

impl std::fmt::Debug for Digests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digests")
    }
}

impl Digests {
    /// With this secret of the broker, which stays the same for as long as marks are stored.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        Self { hasher: SipHasher24::new_with_key(&key) }
    }

    /// Of a queue's idempotency key.
    #[must_use]
    pub fn key(&self, queue: QueueId, key: &str) -> u128 {
        let mut hasher = self.hasher;
        hasher.write(KEY);
        hasher.write(&queue.0.to_le_bytes());
        hasher.write(key.as_bytes());
        u128::from_le_bytes(hasher.finish128().as_bytes())
    }

    /// Of what two publishes with the same key must have in common: payload, headers in their order, content type. Not the
    /// correlation id, which may name the try. Takes time in proportion to the payload.
    #[must_use]
    pub fn content(&self, message: &NewMessage) -> u64 {
        let mut hasher = self.hasher;
        hasher.write(CONTENT);
        // Every part with its length before it, so that no two messages are the same bytes.
        let mut part = |bytes: &[u8]| {
            hasher.write(&(bytes.len() as u64).to_le_bytes());
            hasher.write(bytes);
        };
        match &message.content_type {
            Some(text) => part(text.as_bytes()),
            None => part(&[]),
        }
        part(&(message.headers.len() as u64).to_le_bytes());
        for (name, value) in &message.headers {
            part(name.as_bytes());
            part(value.as_bytes());
        }
        part(&message.payload);
        hasher.finish128().h1
    }
}
