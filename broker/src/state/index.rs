//! Orders and sums over a queue's entries, so that no question walks through all of them.

use super::live::{Live, State};
use crate::event::Place;
use crate::name::ConsumerName;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    /// Leases by when they end; those whose end is not known are not in it.
    pub(super) leases: BTreeSet<(u64, Place)>,
    /// What is ready again.
    pub(super) again: BTreeSet<Place>,
    /// What is dead.
    pub(super) dead: BTreeSet<Place>,
    /// How many each named consumer has in flight; each has some.
    holders: BTreeMap<ConsumerName, u64>,
    /// How many those without a name have.
    unnamed: u64,
    pub(super) in_flight: u64,
    /// Of what is ready again, what was delivered before.
    pub(super) redelivered: u64,
    /// Bytes of all entries, and of the dead ones.
    pub(super) bytes: u64,
    pub(super) dead_bytes: u64,
}

impl Index {
    /// The name as the others in flight share it, so that each costs a pointer.
    pub(super) fn share(&self, name: &ConsumerName) -> ConsumerName {
        self.holders.get_key_value(name).map_or(name, |(name, _)| name).clone()
    }

    pub(super) fn held_by(&self, consumer: Option<&ConsumerName>) -> u64 {
        consumer.map_or(self.unnamed, |name| self.holders.get(name).copied().unwrap_or(0))
    }

    /// Takes an entry in, as it is now.
    pub(super) fn link(&mut self, place: Place, live: &Live) {
        self.bytes += u64::from(live.bytes);
        if live.state.in_flight() {
            self.in_flight += 1;
            match &live.consumer {
                None => self.unnamed += 1,
                Some(name) => *self.holders.entry(name.clone()).or_insert(0) += 1,
            }
        }
        match live.state {
            State::Leased if live.until_ms < u64::MAX => {
                self.leases.insert((live.until_ms, place));
            }
            State::Leased | State::Exhausted => {}
            State::Late | State::Returned | State::Untouched => {
                self.again.insert(place);
                self.redelivered += u64::from(live.state != State::Untouched);
            }
            State::Dead(_) => {
                self.dead.insert(place);
                self.dead_bytes += u64::from(live.bytes);
            }
        }
    }

    /// Lets go of an entry, as it was linked.
    pub(super) fn unlink(&mut self, place: Place, live: &Live) {
        self.bytes -= u64::from(live.bytes);
        if live.state.in_flight() {
            self.in_flight -= 1;
            match &live.consumer {
                None => self.unnamed -= 1,
                Some(name) => self.release(name),
            }
        }
        match live.state {
            State::Leased => {
                self.leases.remove(&(live.until_ms, place));
            }
            State::Exhausted => {}
            State::Late | State::Returned | State::Untouched => {
                self.again.remove(&place);
                self.redelivered -= u64::from(live.state != State::Untouched);
            }
            State::Dead(_) => {
                self.dead.remove(&place);
                self.dead_bytes -= u64::from(live.bytes);
            }
        }
    }

    fn release(&mut self, name: &ConsumerName) {
        if let Some(count) = self.holders.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.holders.remove(name);
            }
        }
    }
}
