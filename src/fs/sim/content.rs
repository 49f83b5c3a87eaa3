//! The bytes of one file: what reads show, what the disk surely holds, and all that a power cut may pick between.

use super::Sectors;
use super::choose::{Choice, Chooser, ask};
use super::image::{Image, PAGE, Page, SECTOR, spans, split};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const ALL_SECTORS: u8 = u8::MAX;

/// A page as one write left it.
#[derive(Clone, Debug)]
struct Version {
    /// Which write, counted within this file.
    write: u64,
    /// The sectors that it may put on the disk, bit 0 the first.
    sectors: u8,
    page: Arc<Page>,
}

/// One file.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    cached: Image,
    durable: Image,
    /// Pages written since the last sync that succeeded or failed, with every version, oldest first.
    dirty: BTreeMap<usize, Vec<Version>>,
    /// Lengths set since the last good sync, with the write that set each.
    lengths: Vec<(u64, u64)>,
    /// Clean pages whose bytes the disk does not hold, after a failed write-back.
    stale: BTreeSet<usize>,
    writes: u64,
    /// Pages that have blocks on the disk.
    pub(super) blocks: BTreeSet<usize>,
    /// Pages that have a second block until the next sync, on a file system that never overwrites in place.
    pub(super) copies: usize,
    /// Overwritten in place, whatever the file system does with others.
    pub(super) in_place: bool,
    /// How often an overwrite gave the first page another block.
    pub(super) moves: u64,
    /// Pages whose sectors cannot be read.
    pub(super) unreadable: BTreeSet<usize>,
    /// Write-backs that failed so far.
    pub(super) errors: u64,
    /// Whether anybody was told of the last one.
    pub(super) error_seen: bool,
    /// The last process that was answered an error by a sync.
    pub(super) failed_in: Option<u64>,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.cached.len
    }

    /// Reads up to the first page that cannot be read; gives none if that comes first.
    pub(super) fn read(&self, position: u64, into: &mut [u8]) -> Option<usize> {
        let bad = spans(position, into.len()).find(|(page, ..)| self.unreadable.contains(page));
        let good = bad.map_or(into.len(), |(_, _, part)| part.start);
        let asked = into.len();
        let read = self.cached.read(position, &mut into[..good]);
        if read == 0 && good < asked && position < self.len() { None } else { Some(read) }
    }

    /// Whether writing so much of a page works: without all of it, the rest must be read first.
    pub(super) fn takes(&self, page: usize, count: usize) -> bool {
        count == PAGE || !self.unreadable.contains(&page)
    }

    pub(super) fn cached_bytes(&self) -> Vec<u8> {
        self.cached.bytes()
    }

    pub(super) fn durable_bytes(&self) -> Vec<u8> {
        self.durable.bytes()
    }

    /// The pages that a range touches.
    pub(super) fn pages_of(position: u64, count: usize) -> impl Iterator<Item = usize> {
        spans(position, count).map(|(index, _, _)| index)
    }

    pub(super) fn is_dirty(&self, page: usize) -> bool {
        self.dirty.contains_key(&page)
    }

    /// Whether the cache and the disk may differ.
    pub(super) fn is_pending(&self) -> bool {
        let clean = self.dirty.is_empty() && self.lengths.is_empty() && self.stale.is_empty();
        !clean || self.errors > 0
    }

    /// Where the first page is; no other file's is there, and none is where it was before an overwrite moved it.
    pub(super) fn place(&self, inode: u64) -> Option<u64> {
        let base = inode.wrapping_mul(super::machine::MOST_BYTES);
        self.blocks.contains(&0).then(|| base.wrapping_add(self.moves * PAGE as u64))
    }

    pub(super) fn write(&mut self, position: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.writes += 1;
        for (index, start, part) in spans(position, bytes.len()) {
            let bytes = &bytes[part];
            let touched = sector_mask(start, bytes.len());
            self.unreadable.remove(&index);
            let page = match Page::whole(bytes) {
                Some(page) => Arc::new(page),
                None => {
                    let mut page = self.cached.take_page(index);
                    Arc::make_mut(&mut page).bytes_mut()[start..start + bytes.len()]
                        .copy_from_slice(bytes);
                    page
                }
            };
            self.cached.set_page(index, Some(Arc::clone(&page)));
            self.note_version(index, touched, page);
        }
        let end = position + bytes.len() as u64;
        if end > self.cached.len {
            self.cached.len = end;
            self.lengths.push((self.writes, end));
        }
    }

    fn note_version(&mut self, index: usize, touched: u8, page: Arc<Page>) {
        // The kernel writes back whole pages: one that the disk missed before goes there as a whole with this write.
        let sectors = if self.stale.contains(&index) { ALL_SECTORS } else { touched };
        let version = Version { write: self.writes, sectors, page };
        self.dirty.entry(index).or_default().push(version);
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len == self.cached.len {
            return;
        }
        self.writes += 1;
        self.lengths.push((self.writes, len));
        let (first, rest) = split(len);
        let old_pages = self.cached.page_count();
        let shrinks = len < self.cached.len;
        self.cached.len = len;
        if !shrinks {
            return;
        }
        self.cached.cut_to_len();
        // What is cut off may still be on the disk, or not, and reads as zeroes if the file grows again.
        let zero = Arc::new(Page::default());
        for index in first..old_pages {
            let page = self.cached.page(index).cloned().unwrap_or_else(|| Arc::clone(&zero));
            let touched = if index == first && rest > 0 {
                sector_mask(rest, PAGE - rest)
            } else {
                ALL_SECTORS
            };
            self.note_version(index, touched, page);
        }
        self.blocks.retain(|block| *block < first + usize::from(rest > 0));
    }

    /// Everything that is dirty reaches the disk.
    pub(super) fn sync(&mut self) {
        for index in std::mem::take(&mut self.dirty).into_keys() {
            let page = self.cached.page(index).cloned();
            self.durable.set_page(index, page);
            self.stale.remove(&index);
        }
        self.lengths.clear();
        self.durable.len = self.cached.len;
        self.durable.cut_to_len();
    }

    /// These pages reach the disk, and the length.
    pub(super) fn sync_pages(&mut self, pages: &[usize]) {
        for &index in pages {
            if self.dirty.remove(&index).is_some() {
                let page = self.cached.page(index).cloned();
                self.durable.set_page(index, page);
                self.stale.remove(&index);
            }
        }
        self.lengths.clear();
        self.durable.len = self.cached.len;
        self.durable.cut_to_len();
    }

    /// A direct write to these pages that failed: the disk gets what `reached` says, and reads show what the disk has, as
    /// no page of the cache stands before it.
    pub(super) fn fail_pages(
        &mut self,
        inode: u64,
        pages: &[usize],
        sectors: Sectors,
        reached: &mut dyn Chooser,
    ) {
        for &index in pages {
            if let Some(versions) = self.dirty.remove(&index) {
                choose_page(&mut self.durable, inode, index, &versions, sectors, u64::MAX, reached);
                let page = self.durable.page(index).cloned();
                self.cached.set_page(index, page);
                self.stale.remove(&index);
            }
        }
        self.cached.cut_to_len();
    }

    /// A write-back that failed: of the dirty pages the disk gets what `reached` says, and all are clean after it.
    /// Lengths stay pending, as they go to the disk another way (the journal).
    pub(super) fn fail_sync(&mut self, inode: u64, sectors: Sectors, reached: &mut dyn Chooser) {
        for (index, versions) in std::mem::take(&mut self.dirty) {
            choose_page(&mut self.durable, inode, index, &versions, sectors, u64::MAX, reached);
            self.stale.insert(index);
        }
    }

    /// A write that the device confirms and loses: the cache has it, the disk never gets it.
    pub(super) fn write_lost(&mut self, position: u64, bytes: &[u8]) {
        self.write(position, bytes);
        for index in Self::pages_of(position, bytes.len()) {
            if let Some(versions) = self.dirty.get_mut(&index) {
                versions.retain(|version| version.write != self.writes);
                if versions.is_empty() {
                    self.dirty.remove(&index);
                    self.stale.insert(index);
                }
            }
        }
    }

    /// The kernel drops every clean page; reads show what the disk holds.
    pub(super) fn evict(&mut self) {
        let stale = std::mem::take(&mut self.stale);
        for index in stale {
            if self.dirty.contains_key(&index) {
                self.stale.insert(index);
            } else {
                let page = self.durable.page(index).cloned();
                self.cached.set_page(index, page);
            }
        }
        self.cached.cut_to_len();
    }

    /// Loses the cache: each unit keeps one version, the length too.
    pub(super) fn power_cut(&mut self, inode: u64, sectors: Sectors, chooser: &mut dyn Chooser) {
        if sectors == Sectors::Prefix {
            self.cut_prefix(inode, chooser);
        } else {
            // The length first: what lies beyond it is no choice.
            let lengths = std::mem::take(&mut self.lengths).into_iter().map(|(_, len)| len);
            let options = distinct(self.durable.len, lengths.collect());
            let len = options[ask(chooser, Choice::Length { inode }, options.len())];
            self.durable.len = len;
            for (index, versions) in std::mem::take(&mut self.dirty) {
                choose_page(&mut self.durable, inode, index, &versions, sectors, len, chooser);
            }
        }
        self.settle();
    }

    fn cut_prefix(&mut self, inode: u64, chooser: &mut dyn Chooser) {
        let dirty = std::mem::take(&mut self.dirty);
        let lengths = std::mem::take(&mut self.lengths);
        let mut writes: Vec<u64> = lengths.iter().map(|(write, _)| *write).collect();
        writes.extend(dirty.values().flatten().map(|version| version.write));
        writes.sort_unstable();
        writes.dedup();
        let kept = ask(chooser, Choice::Writes { inode }, writes.len() + 1);
        let Some(last) = kept.checked_sub(1).map(|at| writes[at]) else {
            return;
        };
        for (index, versions) in dirty {
            for version in versions.iter().filter(|version| version.write <= last) {
                apply(&mut self.durable, index, version);
            }
        }
        if let Some((_, len)) = lengths.iter().rfind(|(write, _)| *write <= last) {
            self.durable.len = *len;
        }
    }

    /// What is on the disk is all there is.
    fn settle(&mut self) {
        self.durable.cut_to_len();
        self.cached = self.durable.clone();
        self.stale.clear();
        (self.copies, self.errors, self.error_seen) = (0, 0, false);
        let (last, rest) = split(self.durable.len);
        self.blocks.retain(|block| *block < last + usize::from(rest > 0));
    }

    pub(super) fn damage(
        &mut self,
        position: u64,
        count: usize,
        mut change: impl FnMut(usize, &mut [u8]),
    ) {
        self.durable.poke(position, count, &mut change);
        self.cached.poke(position, count, &mut change);
    }

    /// A hash of what reads show.
    pub(super) fn fingerprint(&self) -> u64 {
        self.cached.fingerprint()
    }
}

/// Lets each unit of one dirty page take one of its versions, as far as the file is long.
fn choose_page(
    durable: &mut Image,
    inode: u64,
    index: usize,
    versions: &[Version],
    sectors: Sectors,
    len: u64,
    chooser: &mut dyn Chooser,
) {
    let unit = if sectors == Sectors::Atomic4K { PAGE } else { SECTOR };
    let zero = [0; PAGE];
    let garbage = [0xa5; SECTOR];
    let page_start = (index * PAGE) as u64;
    let inside = usize::try_from(len.saturating_sub(page_start)).unwrap_or(PAGE).min(PAGE);
    for start in (0..inside).step_by(unit) {
        let range = start..inside.min(start + unit);
        let mask = sector_mask(start, unit);
        let written = versions.iter().filter(|version| version.sectors & mask != 0);
        let mut written: Vec<&[u8]> =
            written.map(|version| &version.page.bytes()[range.clone()]).collect();
        if sectors == Sectors::Garbage && !written.is_empty() {
            written.insert(0, &garbage[..range.len()]);
        }
        let old = &durable.page(index).map_or(&zero, |page| page.bytes())[range.clone()];
        let options = distinct(old, written);
        let position = page_start + start as u64;
        let picked = ask(chooser, Choice::Bytes { inode, position }, options.len());
        if picked > 0 {
            let mut chosen = [0; PAGE];
            chosen[range.clone()].copy_from_slice(options[picked]);
            durable.page_mut(index)[range.clone()].copy_from_slice(&chosen[range]);
        }
    }
}

fn apply(durable: &mut Image, index: usize, version: &Version) {
    let page = durable.page_mut(index);
    for sector in 0..PAGE / SECTOR {
        if version.sectors & (1 << sector) != 0 {
            let range = sector * SECTOR..(sector + 1) * SECTOR;
            page[range.clone()].copy_from_slice(&version.page.bytes()[range]);
        }
    }
}

/// The old version, the newest one, and between them all that differ from both and from each other.
fn distinct<T: Copy + PartialEq>(old: T, newer: Vec<T>) -> Vec<T> {
    let Some((newest, between)) = newer.split_last() else {
        return vec![old];
    };
    let mut options = vec![old];
    for version in between {
        if version != newest && !options.contains(version) {
            options.push(*version);
        }
    }
    if options.len() > 1 || old != *newest {
        options.push(*newest);
    }
    options
}

fn sector_mask(start: usize, length: usize) -> u8 {
    let mut mask = 0;
    for sector in start / SECTOR..(start + length).div_ceil(SECTOR) {
        mask |= 1 << sector;
    }
    mask
}
