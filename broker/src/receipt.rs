//! Receipts: what names a delivery in an ack, as text that nobody else can make.

use crate::api::{Band, QueueId, Seq};
use crate::event::{DeliveryId, Place};
use crate::wire::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use plimsoll::Offset;
use siphasher::sip128::SipHasher24;

/// The delivery: number, band, offset, attempt.
const ID_LEN: usize = 8 + 1 + 8 + 4;
/// With the keyed hash behind it.
const LEN: usize = ID_LEN + 16;
/// As text.
const TEXT_LEN: usize = 50;
/// What is hashed begins with this, so that no other use of the key gives a receipt.
const DOMAIN: &[u8; 8] = b"receipt1";

/// Makes and reads receipts. A receipt says which delivery it is for; the keyed hash (SipHash-2-4 with 128 bits, over queue
/// and delivery) keeps one of another queue or of another broker from settling anything here. It is no secret.
#[derive(Clone)]
pub struct Receipts {
    hasher: SipHasher24,
}

impl std::fmt::Debug for Receipts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the key: who has it can make receipts.
        f.write_str("Receipts")
    }
}

impl Receipts {
    /// With this secret of the broker, which stays the same as long as receipts are to be good.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        Self { hasher: SipHasher24::new_with_key(&key) }
    }

    /// The receipt of a delivery: 50 letters, digits, `-` and `_`.
    #[must_use]
    pub fn issue(&self, queue: QueueId, id: &DeliveryId) -> String {
        let front = front(id);
        let mut bytes = [0; LEN];
        bytes[..ID_LEN].copy_from_slice(&front);
        bytes[ID_LEN..].copy_from_slice(&self.seal(queue, &front));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The delivery that a receipt names; `None` for any text that [`Receipts::issue`] did not make for this queue with
    /// this key.
    #[must_use]
    pub fn read(&self, queue: QueueId, text: &str) -> Option<DeliveryId> {
        if text.len() != TEXT_LEN {
            return None;
        }
        let mut bytes = [0; LEN];
        // Strict: of the texts that could mean these bytes, only the one that was issued is a receipt.
        let len = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
        let (front, seal) = bytes.get(..len)?.split_first_chunk::<ID_LEN>()?;
        let right = self.seal(queue, front);
        // All bytes are compared, so that the time says nothing about where the first wrong one is.
        let wrong = right.iter().zip(seal).fold(0, |wrong, (a, b)| wrong | (a ^ b));
        if seal.len() != right.len() || wrong != 0 {
            return None;
        }
        id(front)
    }

    fn seal(&self, queue: QueueId, front: &[u8; ID_LEN]) -> [u8; 16] {
        let mut bytes = [0; 16 + ID_LEN];
        bytes[..8].copy_from_slice(DOMAIN);
        bytes[8..16].copy_from_slice(&queue.0.to_le_bytes());
        bytes[16..].copy_from_slice(front);
        self.hasher.hash(&bytes).as_bytes()
    }
}

fn front(id: &DeliveryId) -> [u8; ID_LEN] {
    let mut bytes = [0; ID_LEN];
    bytes[..8].copy_from_slice(&id.seq.0.to_le_bytes());
    bytes[8] = id.place.band.get();
    bytes[9..17].copy_from_slice(&id.place.offset.0.to_le_bytes());
    bytes[17..].copy_from_slice(&id.attempt.to_le_bytes());
    bytes
}

fn id(front: &[u8; ID_LEN]) -> Option<DeliveryId> {
    let mut bytes = Bytes(front);
    let seq = Seq(bytes.u64()?);
    let band = Band::new(bytes.u8()?)?;
    let offset = Offset(bytes.u64()?);
    Some(DeliveryId { seq, place: Place { band, offset }, attempt: bytes.u32()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: [u8; 16] = *b"0123456789abcdef";

    fn delivery() -> DeliveryId {
        let place = Place { band: Band::DEFAULT, offset: Offset(260) };
        DeliveryId { seq: Seq(258), place, attempt: 3 }
    }

    #[test]
    fn a_receipt_is_the_text_of_the_format_page() {
        let text = Receipts::new(KEY).issue(QueueId(1), &delivery());
        assert_eq!(text, "AgEAAAAAAAAEBAEAAAAAAAADAAAAJmWX1CfUlltYMUyjbmZspA");
        assert_eq!(text.len(), TEXT_LEN);
        assert_eq!(Receipts::new(KEY).read(QueueId(1), &text), Some(delivery()));
    }

    #[test]
    fn q6_a_receipt_of_another_queue_or_another_broker_is_foreign() {
        let text = Receipts::new(KEY).issue(QueueId(1), &delivery());
        assert_eq!(Receipts::new(KEY).read(QueueId(2), &text), None);
        let mut other = KEY;
        other[15] ^= 1;
        assert_eq!(Receipts::new(other).read(QueueId(1), &text), None);
    }

    #[test]
    fn a_receipt_does_not_show_the_key() {
        assert_eq!(format!("{:?}", Receipts::new(KEY)), "Receipts");
    }

    fn any_delivery() -> impl Strategy<Value = DeliveryId> {
        (any::<u64>(), 0_u8..10, any::<u64>(), any::<u32>()).prop_map(
            |(seq, band, offset, attempt)| {
                let place = Place { band: Band::new(band).unwrap(), offset: Offset(offset) };
                DeliveryId { seq: Seq(seq), place, attempt }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_issued_is_read_and_anything_else_is_foreign(
            key: [u8; 16],
            queue: u64,
            id in any_delivery(),
            at in 0..TEXT_LEN,
            letter in "[A-Za-z0-9_=+/ .-]",
        ) {
            let receipts = Receipts::new(key);
            let text = receipts.issue(QueueId(queue), &id);
            prop_assert_eq!(receipts.read(QueueId(queue), &text), Some(id));
            let mut changed = text.clone();
            changed.replace_range(at..=at, &letter);
            // The last letter has bits that mean nothing: they must be zero.
            let expected = (changed == text).then_some(id);
            prop_assert_eq!(receipts.read(QueueId(queue), &changed), expected);
            prop_assert_eq!(receipts.read(QueueId(queue), &text[..at]), None);
            prop_assert_eq!(receipts.read(QueueId(queue), &format!("{text}{letter}")), None);
        }

        #[test]
        fn any_text_is_foreign(text: String, letters in "[A-Za-z0-9_-]{50}") {
            prop_assert_eq!(Receipts::new(KEY).read(QueueId(1), &text), None);
            prop_assert_eq!(Receipts::new(KEY).read(QueueId(1), &letters), None);
        }
    }
}
