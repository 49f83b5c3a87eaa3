//! Where marks are kept: dense, in a table that can be asked what it takes, with the orders that are needed: by age, and by
//! place for those that are not carried.

use super::Mark;
use crate::api::{Band, QueueId, Seq};
use crate::event::Place;
use hashbrown::HashTable;
use plimsoll::Offset;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// What one mark is counted with: its slot (72 bytes) and its age (16), which grow by a quarter, and its place in a table (5
/// bytes, in at most 32/7 as many: a table doubles when it is full, and counts as full what was removed).
pub const MARK_BYTES: usize = (72 + 16) * 5 / 4 + 24;

/// What one list of a queue's band is counted with: 24 bytes in a tree whose nodes are half full at least.
const LIST_BYTES: usize = 64;

/// No slot.
const NONE: u32 = u32::MAX;

/// What a key is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its publish is under way.
    Claimed,
    /// Its message is stored.
    Stored {
        /// What is known of it.
        mark: Mark,
        /// It is in the marks log too.
        carried: bool,
        /// When it is over.
        expires: u64,
    },
}

/// A key and what it is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: u128,
    pub(super) queue: QueueId,
    pub(super) state: State,
}

/// An entry as it is kept. `previous` and `next` are of the list of its band: of marks that are not carried, by offset.
#[derive(Clone, Copy, Debug)]
struct Slot {
    low: u64,
    high: u64,
    queue: QueueId,
    content: u64,
    seq: Seq,
    offset: Offset,
    expires: u64,
    bytes: u32,
    previous: u32,
    next: u32,
    band: Band,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Claimed,
    Stored,
    Carried,
}

impl Slot {
    fn new(entry: &Entry) -> Self {
        let (low, high) = halves(entry.id);
        let mut slot = Self {
            low,
            high,
            queue: entry.queue,
            content: 0,
            seq: Seq(0),
            offset: Offset::ZERO,
            expires: 0,
            bytes: 0,
            previous: NONE,
            next: NONE,
            band: Band::DEFAULT,
            kind: Kind::Claimed,
        };
        if let State::Stored { mark, carried, expires } = entry.state {
            slot.kind = if carried { Kind::Carried } else { Kind::Stored };
            slot.expires = expires;
            (slot.content, slot.seq, slot.bytes) = (mark.content, mark.seq, mark.bytes);
            (slot.band, slot.offset) = (mark.place.band, mark.place.offset);
        }
        slot
    }

    fn entry(&self) -> Entry {
        let state = if self.kind == Kind::Claimed {
            State::Claimed
        } else {
            let place = Place { band: self.band, offset: self.offset };
            let mark = Mark { content: self.content, seq: self.seq, bytes: self.bytes, place };
            State::Stored { mark, carried: self.kind == Kind::Carried, expires: self.expires }
        };
        let id = u128::from(self.high) << 64 | u128::from(self.low);
        Entry { id, queue: self.queue, state }
    }

    const fn list(&self) -> (QueueId, Band) {
        (self.queue, self.band)
    }
}

#[allow(clippy::cast_possible_truncation, reason = "both halves are taken")]
const fn halves(id: u128) -> (u64, u64) {
    (id as u64, (id >> 64) as u64)
}

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

/// All entries.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// Without holes: the last one moves into the place of one that leaves.
    slots: Vec<Slot>,
    /// Slots by the lower half of the id, which is a hash already, and keyed.
    table: HashTable<u32>,
    /// When marks are over, and the lower half of their id. One whose mark left otherwise is skipped when its turn comes.
    ages: BinaryHeap<Reverse<(u64, u64)>>,
    /// Marks that are not carried.
    lists: BTreeMap<(QueueId, Band), List>,
    /// Slots that are no claims.
    marks: usize,
}

impl Store {
    pub(super) fn get(&self, id: u128) -> Option<Entry> {
        Some(self.slots[self.find(id)?].entry())
    }

    fn find(&self, id: u128) -> Option<usize> {
        let (low, high) = halves(id);
        let is =
            |&at: &u32| (self.slots[at as usize].low, self.slots[at as usize].high) == (low, high);
        self.table.find(low, is).map(|&at| at as usize)
    }

    /// Puts an entry in, in the place of one with the same id.
    pub(super) fn insert(&mut self, entry: Entry) {
        self.remove(entry.id);
        let slot = Slot::new(&entry);
        let at = self.slots.len();
        grow(at, self.slots.capacity(), |more| self.slots.reserve_exact(more));
        self.slots.push(slot);
        let slots = &self.slots;
        self.table.insert_unique(slot.low, number(at), |&at| slots[at as usize].low);
        if slot.kind == Kind::Claimed {
            return;
        }
        self.marks += 1;
        grow(self.ages.len(), self.ages.capacity(), |more| self.ages.reserve_exact(more));
        self.ages.push(Reverse((slot.expires, slot.low)));
        if slot.kind == Kind::Stored {
            self.link(at);
        }
        if self.ages.len() > self.marks + self.marks / 4 + 64 {
            self.tidy();
        }
    }

    pub(super) fn remove(&mut self, id: u128) {
        if let Some(at) = self.find(id) {
            self.remove_at(at);
        }
    }

    fn remove_at(&mut self, at: usize) {
        let slot = self.slots[at];
        if slot.kind == Kind::Stored {
            self.unlink(at);
        }
        if slot.kind != Kind::Claimed {
            self.marks -= 1;
        }
        let number_of = number(at);
        if let Ok(found) = self.table.find_entry(slot.low, |&other| other == number_of) {
            found.remove();
        }
        let last = self.slots.len() - 1;
        self.slots.swap_remove(at);
        if at < last {
            self.moved(last, at);
        }
    }

    /// The slot that was at `from` is at `to`: whoever names it says so.
    fn moved(&mut self, from: usize, to: usize) {
        let slot = self.slots[to];
        let (from, to) = (number(from), number(to));
        if let Some(at) = self.table.find_mut(slot.low, |&other| other == from) {
            *at = to;
        }
        if slot.kind == Kind::Stored {
            self.join(slot.list(), slot.previous, to);
            self.join(slot.list(), to, slot.next);
        }
    }

    /// Makes two slots of a list neighbours; [`NONE`] is its end.
    fn join(&mut self, list: (QueueId, Band), left: u32, right: u32) {
        let ends = self.lists.entry(list).or_insert(List { head: NONE, tail: NONE });
        match self.slots.get_mut(left as usize) {
            Some(slot) => slot.next = right,
            None => ends.head = right,
        }
        match self.slots.get_mut(right as usize) {
            Some(slot) => slot.previous = left,
            None => ends.tail = left,
        }
        if ends.head == NONE {
            self.lists.remove(&list);
        }
    }

    /// Puts a slot into its list, by offset: at the end as a rule, as messages are stored in order.
    fn link(&mut self, at: usize) {
        let slot = self.slots[at];
        let list = slot.list();
        let mut left = self.lists.get(&list).map_or(NONE, |list| list.tail);
        let mut right = NONE;
        while let Some(other) =
            self.slots.get(left as usize).filter(|other| other.offset > slot.offset)
        {
            (left, right) = (other.previous, left);
        }
        self.join(list, left, number(at));
        self.join(list, number(at), right);
    }

    fn unlink(&mut self, at: usize) {
        let slot = self.slots[at];
        self.join(slot.list(), slot.previous, slot.next);
    }

    /// Marks that are not carried and lie before `before`, by offset.
    pub(super) fn uncarried(
        &self,
        queue: QueueId,
        band: Band,
        before: Offset,
    ) -> impl Iterator<Item = Entry> {
        let head =
            self.lists.get(&(queue, band)).and_then(|list| self.slots.get(list.head as usize));
        std::iter::successors(head, |slot| self.slots.get(slot.next as usize))
            .take_while(move |slot| slot.offset < before)
            .map(Slot::entry)
    }

    pub(super) fn set_carried(&mut self, id: u128, seq: Seq) {
        let Some(at) = self.find(id) else { return };
        if self.slots[at].kind == Kind::Stored && self.slots[at].seq == seq {
            self.unlink(at);
            self.slots[at].kind = Kind::Carried;
        }
    }

    /// The mark that an age is of.
    fn aged(slots: &[Slot], table: &HashTable<u32>, (expires, low): (u64, u64)) -> Option<usize> {
        let is =
            |slot: &Slot| slot.low == low && slot.expires == expires && slot.kind != Kind::Claimed;
        table.find(low, |&at| is(&slots[at as usize])).map(|&at| at as usize)
    }

    pub(super) fn expire(&mut self, now: u64) {
        while let Some(&Reverse(age)) = self.ages.peek().filter(|age| age.0.0 <= now) {
            self.ages.pop();
            if let Some(at) = Self::aged(&self.slots, &self.table, age) {
                self.remove_at(at);
            }
        }
        self.shrink();
    }

    /// `false` if there is no mark.
    pub(super) fn remove_oldest(&mut self) -> bool {
        while let Some(Reverse(age)) = self.ages.pop() {
            if let Some(at) = Self::aged(&self.slots, &self.table, age) {
                self.remove_at(at);
                return true;
            }
        }
        false
    }

    pub(super) fn next_expiry(&self) -> Option<u64> {
        self.ages.peek().map(|age| age.0.0)
    }

    pub(super) fn remove_queue(&mut self, queue: QueueId) {
        // From the end, so that what moves into a hole was looked at already.
        for at in (0..self.slots.len()).rev() {
            if self.slots[at].queue == queue {
                self.remove_at(at);
            }
        }
        self.tidy();
        self.shrink();
    }

    /// Makes the ages anew, one for each mark.
    fn tidy(&mut self) {
        let marks = self.slots.iter().filter(|slot| slot.kind != Kind::Claimed);
        self.ages.clear();
        self.ages.extend(marks.map(|slot| Reverse((slot.expires, slot.low))));
    }

    /// Gives memory back when less than half of it is used.
    fn shrink(&mut self) {
        let len = self.slots.len();
        if self.slots.capacity() / 2 > len + 128 {
            let room = |len: usize| len + len / 4 + 64;
            self.slots.shrink_to(room(len));
            self.ages.shrink_to(room(self.ages.len()));
            let slots = &self.slots;
            self.table.shrink_to(len, |&at| slots[at as usize].low);
        }
    }

    pub(super) const fn marks(&self) -> usize {
        self.marks
    }

    /// What the limit on memory counts.
    pub(super) fn cost(&self) -> usize {
        self.slots.len() * MARK_BYTES + self.lists.len() * LIST_BYTES
    }

    pub(super) fn bytes(&self) -> usize {
        let slots = self.slots.capacity() * size_of::<Slot>();
        let ages = self.ages.capacity() * size_of::<Reverse<(u64, u64)>>();
        slots + ages + self.table.allocation_size() + self.lists.len() * LIST_BYTES
    }
}

/// Grows by a quarter, not by doubling: half of a doubled vector may be empty, and must be counted all the same.
fn grow(len: usize, capacity: usize, reserve: impl FnOnce(usize)) {
    if len == capacity {
        reserve(len / 4 + 64);
    }
}

#[allow(clippy::cast_possible_truncation, reason = "so many slots would take 300 GB")]
const fn number(at: usize) -> u32 {
    at as u32
}
