//! Against a model: the same answers, whatever is done in whatever order.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Claim(u8, u8),
    Release(u8, u8),
    Stored(u8, u8, u8, u64),
    Pass(u64),
    Expire,
    RemoveQueue(u8),
    Carry(u8, u8, u64, bool),
    Restored(u8, u8, u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let queue = || 0_u8..3;
    let key = || 0_u8..12;
    let band = || 0_u8..2;
    prop_oneof![
        3 => (queue(), key()).prop_map(|(queue, key)| Step::Claim(queue, key)),
        2 => (queue(), key()).prop_map(|(queue, key)| Step::Release(queue, key)),
        6 => (queue(), key(), band(), 0_u64..3).prop_map(|(q, k, b, c)| Step::Stored(q, k, b, c)),
        3 => (0..WINDOW / 2).prop_map(Step::Pass),
        1 => Just(Step::Expire),
        1 => queue().prop_map(Step::RemoveQueue),
        3 => (queue(), band(), 0_u64..80, any::<bool>())
            .prop_map(|(queue, band, before, note)| Step::Carry(queue, band, before, note)),
        2 => (queue(), key(), 0_u64..80, 0..WINDOW * 2).prop_map(|(q, k, o, a)| Step::Restored(q, k, o, a)),
    ]
}

/// A key in the model: none for a claim.
type Known = Option<(Mark, u64, bool)>;

#[derive(Default)]
struct Model(BTreeMap<(u8, u8), Known>);

impl Model {
    fn look(&self, queue: u8, key: u8, content: u64, now: u64) -> Look {
        match self.0.get(&(queue, key)) {
            Some(None) => Look::InProgress,
            Some(Some((mark, expires, _))) if *expires > now => {
                if mark.content == content {
                    Look::Stored { seq: mark.seq, bytes: mark.bytes.into() }
                } else {
                    Look::OtherContent(mark.seq)
                }
            }
            _ => Look::New,
        }
    }

    fn carry(&self, queue: u8, band: Band, before: Offset, now: u64) -> Vec<(Mark, u64)> {
        let of_queue = self.0.range((queue, 0)..=(queue, u8::MAX)).filter_map(|(_, known)| *known);
        let mut found: Vec<_> = of_queue
            .filter(|(mark, expires, carried)| {
                mark.place.band == band && mark.place.offset < before && *expires > now && !carried
            })
            .map(|(mark, expires, _)| (mark, WINDOW - (expires - now)))
            .collect();
        found.sort_by_key(|(mark, _)| mark.place.offset);
        found
    }
}

proptest! {
    #[test]
    fn marks_are_those_of_the_model(steps in prop::collection::vec(step(), 0..120)) {
        let mut marks = marks();
        let mut model = Model::default();
        let mut now = 0;
        // Restored ones come before all others, as at a load, and claims after them.
        let (mut next, mut loading) = (100_u64, true);
        for step in steps {
            loading &= matches!(step, Step::Restored(..));
            match step {
                Step::Claim(queue, key) => {
                    if model.look(queue, key, 0, now) == Look::New {
                        marks.claim(QueueId(queue.into()), &key.to_string());
                        model.0.insert((queue, key), None);
                    }
                }
                Step::Release(queue, key) => {
                    marks.release(QueueId(queue.into()), &key.to_string());
                    if model.0.get(&(queue, key)) == Some(&None) {
                        model.0.remove(&(queue, key));
                    }
                }
                Step::Stored(queue, key, band, content) => {
                    next += 1;
                    let place = Place { band: Band::new(band).unwrap(), offset: Offset(next) };
                    let mark = Mark { content, place, ..at(next) };
                    marks.stored(QueueId(queue.into()), &key.to_string(), mark, now);
                    model.0.insert((queue, key), Some((mark, now + WINDOW, false)));
                }
                Step::Pass(time) => now += time,
                Step::Expire => {
                    marks.expire(now);
                    model.0.retain(|_, known| known.is_none_or(|(_, expires, _)| expires > now));
                }
                Step::RemoveQueue(queue) => {
                    marks.remove_queue(QueueId(queue.into()));
                    model.0.retain(|&(of, _), _| of != queue);
                }
                Step::Carry(queue, band, before, note) => {
                    let (band, before) = (Band::new(band).unwrap(), Offset(before * 3));
                    let found = marks.carry(QueueId(queue.into()), band, before, now);
                    let pairs: Vec<_> = found.iter().map(|found| (found.mark, found.age_ms)).collect();
                    prop_assert_eq!(&pairs, &model.carry(queue, band, before, now));
                    if note {
                        marks.carried(&found);
                        let seqs: Vec<_> = found.iter().map(|found| found.mark.seq).collect();
                        for known in model.0.values_mut().flatten() {
                            known.2 |= seqs.contains(&known.0.seq);
                        }
                    }
                }
                Step::Restored(queue, key, offset, age) if loading => {
                    // Two messages are at two places.
                    let mark = at(offset * 40 + u64::from(queue) * 12 + u64::from(key));
                    let at = stamp(0, now, WINDOW * 3);
                    marks.restore_message(QueueId(queue.into()), &key.to_string(), mark, WINDOW * 3 - age, &at);
                    let old = model.0.get(&(queue, key)).copied().flatten();
                    if age < WINDOW && old.is_none_or(|old| old.0.seq < mark.seq) {
                        model.0.insert((queue, key), Some((mark, now + WINDOW - age, false)));
                    }
                }
                Step::Restored(..) => {}
            }
            let stored = model.0.values().flatten();
            let live = stored.clone().filter(|known| known.1 > now).count();
            prop_assert!((live..=stored.count()).contains(&marks.len()));
            for queue in 0..3 {
                for key in 0..12 {
                    let (q, k) = (QueueId(queue.into()), key.to_string());
                    prop_assert_eq!(marks.look(q, &k, 1, now), model.look(queue, key, 1, now));
                }
            }
        }
        marks.expire(u64::MAX);
        prop_assert_eq!(marks.len(), 0);
    }
}
