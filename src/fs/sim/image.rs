//! Bytes in pages that are shared until they are written, so that copying a file costs a few pointers.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub(super) const PAGE: usize = 4096;
pub(super) const SECTOR: usize = 512;

/// One page, and the hash of it once somebody asked: of many images most pages are the same.
#[derive(Debug)]
pub(super) struct Page {
    bytes: [u8; PAGE],
    hash: OnceLock<u64>,
}

impl Default for Page {
    fn default() -> Self {
        Self { bytes: [0; PAGE], hash: OnceLock::new() }
    }
}

impl Clone for Page {
    /// Without the hash, as a page is cloned to be changed.
    fn clone(&self) -> Self {
        Self { bytes: self.bytes, hash: OnceLock::new() }
    }
}

impl Page {
    /// A page of exactly these bytes, if they fill one.
    pub(super) fn whole(bytes: &[u8]) -> Option<Self> {
        Some(Self { bytes: bytes.try_into().ok()?, hash: OnceLock::new() })
    }

    pub(super) fn bytes(&self) -> &[u8; PAGE] {
        &self.bytes
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8; PAGE] {
        self.hash.take();
        &mut self.bytes
    }

    /// 0 for a page of zeroes, which reads like one that is not there.
    fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| {
            if self.bytes == [0; PAGE] {
                return 0;
            }
            let mut hash = Hash::default();
            hash.bytes(&self.bytes);
            hash.0
        })
    }
}

/// Pages and a length. A missing page reads as zeroes.
///
/// Beyond the length there are zeroes only, but for the durable side of a file while a length is pending.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    pages: Vec<Option<Arc<Page>>>,
    pub(super) len: u64,
}

impl Image {
    pub(super) fn page(&self, index: usize) -> Option<&Arc<Page>> {
        self.pages.get(index).and_then(Option::as_ref)
    }

    pub(super) fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// Takes a page out, so that it can be changed without a copy if nobody shares it.
    pub(super) fn take_page(&mut self, index: usize) -> Arc<Page> {
        self.pages.get_mut(index).and_then(Option::take).unwrap_or_default()
    }

    pub(super) fn set_page(&mut self, index: usize, page: Option<Arc<Page>>) {
        if index >= self.pages.len() {
            self.pages.resize(index + 1, None);
        }
        self.pages[index] = page;
    }

    pub(super) fn page_mut(&mut self, index: usize) -> &mut [u8; PAGE] {
        if index >= self.pages.len() {
            self.pages.resize(index + 1, None);
        }
        Arc::make_mut(self.pages[index].get_or_insert_default()).bytes_mut()
    }

    pub(super) fn read(&self, position: u64, into: &mut [u8]) -> usize {
        let count = self.within(position, into.len());
        for (index, start, part) in spans(position, count) {
            let into = &mut into[part];
            match self.page(index) {
                Some(page) => into.copy_from_slice(&page.bytes[start..start + into.len()]),
                None => into.fill(0),
            }
        }
        count
    }

    /// Changes bytes in place, without a trace: damage, not a write.
    pub(super) fn poke(
        &mut self,
        position: u64,
        count: usize,
        mut change: impl FnMut(usize, &mut [u8]),
    ) {
        for (index, start, part) in spans(position, self.within(position, count)) {
            let length = part.len();
            change(part.start, &mut self.page_mut(index)[start..start + length]);
        }
    }

    /// How much of a range lies within the length.
    fn within(&self, position: u64, count: usize) -> usize {
        usize::try_from(self.len.saturating_sub(position)).unwrap_or(usize::MAX).min(count)
    }

    /// Drops what lies beyond the length.
    pub(super) fn cut_to_len(&mut self) {
        let (last, rest) = split(self.len);
        self.pages.truncate(last + usize::from(rest > 0));
        let beyond = self.page(last).map_or(&[][..], |page| &page.bytes[rest..]);
        if beyond.iter().any(|byte| *byte != 0) {
            self.page_mut(last)[rest..].fill(0);
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.len).unwrap_or(usize::MAX)];
        self.read(0, &mut bytes);
        bytes
    }

    /// Equal for equal bytes.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hash = Hash::default();
        hash.word(self.len);
        for (index, page) in self.pages.iter().enumerate() {
            let page = page.as_ref().map_or(0, |page| page.hash());
            if page != 0 {
                hash.word(index as u64);
                hash.word(page);
            }
        }
        hash.0
    }
}

/// Page number and the position in it.
pub(super) fn split(position: u64) -> (usize, usize) {
    let position = usize::try_from(position).unwrap_or(usize::MAX);
    (position / PAGE, position % PAGE)
}

/// The parts of a range by page: page, start in it, and the part of the caller's bytes.
pub(super) fn spans(
    position: u64,
    count: usize,
) -> impl Iterator<Item = (usize, usize, Range<usize>)> {
    let (mut index, mut start) = split(position);
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == count {
            return None;
        }
        let length = (PAGE - start).min(count - done);
        let span = (index, start, done..done + length);
        index += 1;
        start = 0;
        done += length;
        Some(span)
    })
}

/// Mixes words fast; not against an adversary.
#[derive(Default)]
pub(super) struct Hash(pub(super) u64);

impl Hash {
    pub(super) fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }
}
