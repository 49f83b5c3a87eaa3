//! Takes an input apart, fed in pieces of any size.

use super::batch::Batch;
use super::handover::Handover;
use crate::failure::Failure;
use plimsoll::NodeOptions;
use plimsoll::format::record::record_len;

/// Takes one kind of input apart.
pub(crate) trait Decoder {
    /// Takes the next bytes; gives on every record that is complete.
    fn feed(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), Wrong>;

    /// The input is over.
    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Wrong>;
}

/// Why the input is not read further.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// It is not what was announced.
    Input(Failure),
    /// Nobody takes records any more.
    Unwanted,
}

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Self {
        Self::Input(failure)
    }
}

/// Where records go.
pub(crate) struct Sink<'a> {
    batch: Batch,
    handover: &'a Handover,
}

impl<'a> Sink<'a> {
    /// A sink into `handover`.
    pub(crate) fn new(handover: &'a Handover) -> Self {
        Self { batch: Batch::default(), handover }
    }

    /// Takes a record, the `item`th of the input. Blocks while the log is behind.
    pub(crate) fn push(&mut self, item: u64, headers: &[u8], payload: &[u8]) -> Result<(), Wrong> {
        if !self.batch.fits(1, headers.len() + payload.len()) {
            self.flush()?;
        }
        self.batch.push(item, headers, payload);
        Ok(())
    }

    /// Hands over what there is, before the input may make us wait.
    pub(crate) fn flush(&mut self) -> Result<(), Wrong> {
        let wanted = self.batch.is_empty() || self.handover.give(&mut self.batch);
        if wanted { Ok(()) } else { Err(Wrong::Unwanted) }
    }
}

/// The longest payload that a log can take, without headers. A log whose files are small takes less, and says so.
pub(crate) fn payload_max() -> usize {
    let record = NodeOptions::default().record_max;
    usize::try_from(record.saturating_sub(record_len(0, 0))).unwrap_or(usize::MAX)
}
