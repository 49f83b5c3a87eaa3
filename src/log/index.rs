//! Where records stand in a segment: a sparse index, built by one walk on first use and kept in a node-wide cache.

use crate::error::Damage;
use crate::segment::{FileId, Step, Walker};
use crate::types::Offset;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// One entry for so many bytes of records.
const STEP: u64 = 64 * 1024;

/// A record's place, and the largest stamp before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: Offset,
    pub(crate) position: u64,
    pub(crate) millis_before: u64,
}

/// The index of one segment, as far as it was walked.
#[derive(Debug)]
pub(crate) struct Index {
    places: Vec<Place>,
    /// Where the walk goes on.
    reached: Place,
}

impl Index {
    /// An index of nothing; `start` is the segment's first record.
    pub(crate) fn new(start: Place) -> Self {
        Self { places: vec![start], reached: start }
    }

    /// How far it reaches.
    pub(crate) fn reached(&self) -> Place {
        self.reached
    }

    /// The last entry at or before `offset`.
    pub(crate) fn before_offset(&self, offset: Offset) -> Place {
        let at = self.places.partition_point(|place| place.offset <= offset);
        self.places[at.saturating_sub(1)]
    }

    /// The last entry before which no stamp reaches `millis`.
    pub(crate) fn before_time(&self, millis: u64) -> Place {
        let at = self.places.partition_point(|place| place.millis_before < millis);
        self.places[at.saturating_sub(1)]
    }

    /// Walks on until `done` says so or the walk stops.
    pub(crate) fn extend<F>(
        &mut self,
        walker: &mut Walker<F>,
        mut done: impl FnMut(&Place) -> bool,
        damage: impl FnOnce(u64, Offset, String) -> Damage,
    ) -> io::Result<Result<(), Damage>>
    where
        F: std::ops::Deref,
        F::Target: crate::fs::File,
    {
        while !done(&self.reached) {
            let (position, offset) = (walker.position(), walker.next_offset());
            match walker.step()? {
                Step::Record(found) => {
                    let millis = self.reached.millis_before.max(found.header.millis);
                    self.reached = Place {
                        offset: walker.next_offset(),
                        position: walker.position(),
                        millis_before: millis,
                    };
                    let last = self.places.last().map_or(0, |place| place.position);
                    if self.reached.position >= last + STEP {
                        self.places.push(self.reached);
                    }
                }
                Step::Stop(why) => return Ok(Err(damage(position, offset, why.to_string()))),
            }
        }
        Ok(Ok(()))
    }
}

/// A count of uses, and each index with the use that was its last.
type Held = (u64, HashMap<FileId, (u64, Arc<Mutex<Index>>)>);

/// The indexes that were used last, at most so many.
#[derive(Debug)]
pub(crate) struct Indexes {
    max: usize,
    held: Mutex<Held>,
}

impl Indexes {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, held: Mutex::default() }
    }

    /// The index of a segment, or a new one from `start`.
    pub(crate) fn get(&self, id: FileId, start: Place) -> Arc<Mutex<Index>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (clock, map) = &mut *held;
        *clock += 1;
        if map.len() >= self.max && !map.contains_key(&id) {
            let oldest = map.iter().min_by_key(|(_, (used, _))| *used).map(|(&id, _)| id);
            oldest.map(|oldest| map.remove(&oldest));
        }
        let entry = map.entry(id).or_insert_with(|| (0, Arc::new(Mutex::new(Index::new(start)))));
        entry.0 = *clock;
        Arc::clone(&entry.1)
    }

    pub(crate) fn forget(&self, id: FileId) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&id);
    }
}
