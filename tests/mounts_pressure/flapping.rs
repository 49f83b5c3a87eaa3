//! Free space about a line: the level changes once, and not at each sample. Time is simulated, the disk is real.

use crate::outside::wait_for;
use crate::place::{MIB, Place, Queue, SMALL, each, options, refusal, tmpfs};
use plimsoll::clock::ManualClock;
use plimsoll::pressure::Thresholds;
use plimsoll::{Level, Node, NodeOptions, WriteClass};
use std::sync::Arc;
use std::time::Duration;

/// A node that is moved by hand.
pub(crate) struct Stepped {
    pub(crate) node: Node,
    clock: Arc<ManualClock>,
}

impl Stepped {
    pub(crate) fn open(place: &Place) -> Self {
        Self::with(place, options())
    }

    pub(crate) fn with(place: &Place, options: NodeOptions) -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000));
        let builder = Node::builder(place.data()).options(options);
        let node = builder.clock(Arc::clone(&clock) as _).without_threads().open().unwrap();
        Self { node, clock }
    }

    /// A second goes by: the samples are taken, and the workers do what they have to do.
    pub(crate) fn second(&self) -> Level {
        self.clock.advance(Duration::from_secs(1));
        for _ in 0..10_000 {
            if !self.node.step() {
                return self.level();
            }
        }
        panic!("the workers do not come to an end");
    }

    /// What is kept back is made.
    pub(crate) fn settle(&self) {
        for _ in 0..5 {
            self.second();
        }
    }

    pub(crate) fn level(&self) -> Level {
        self.node.pressure().level
    }

    pub(crate) fn lines(&self) -> Thresholds {
        self.node.pressure().disks[0].thresholds
    }

    pub(crate) fn free(&self) -> u64 {
        self.node.pressure().disks[0].free
    }
}

#[test]
fn case_A13_free_space_about_a_line_changes_the_level_once() {
    each("case_A13_free_space_about_a_line_changes_the_level_once", |place| {
        let stepped = Stepped::open(place);
        stepped.settle();
        let Thresholds { soft, hard, reserve, clear } = stepped.lines();
        for (line, level) in [(soft, Level::Soft), (hard, Level::Hard), (reserve, Level::Reserve)] {
            let mut changes = stepped.node.pressure_changes();
            let mut seen = Vec::new();
            for probe in 0..100 {
                place.leave(if probe % 2 == 0 { line - 100_000 } else { line + 100_000 });
                stepped.second();
                seen.extend(changes.wait(Duration::ZERO).map(|pressure| pressure.level));
                let items = stepped.node.attention();
                assert_eq!((items.len(), items[0].level), (1, level), "{}", place.kind);
            }
            assert_eq!(seen, [level], "{}: about {line}", place.kind);
        }
        // And back: each ends above its line and the margin, and not before.
        for (line, level, below) in [
            (reserve, Level::Reserve, Level::Hard),
            (hard, Level::Hard, Level::Soft),
            (soft, Level::Soft, Level::Ok),
        ] {
            place.leave(line + clear - 100_000);
            assert_eq!(stepped.second(), level, "{}", place.kind);
            place.leave(line + clear + 100_000);
            assert_eq!(stepped.second(), below, "{}", place.kind);
        }
        assert!(stepped.node.attention().is_empty());
        stepped.node.close().unwrap();
    });
}

/// Where one segment is more than a hundredth of the device, a segment that comes or goes must not be a change by itself:
/// a consumer frees one, somebody else takes as much and gives it back, and publishers take whatever they get.
#[test]
fn case_A13_one_segment_more_or_less_is_no_change_of_level() {
    let name = "case_A13_one_segment_more_or_less_is_no_change_of_level";
    let Some(place) = tmpfs(name, SMALL) else { return };
    let stepped = Stepped::open(&place);
    stepped.settle();
    let Thresholds { hard, clear, .. } = stepped.lines();
    let mut heap = Queue::new(&stepped.node, "heap");
    let mut last = stepped.level();
    let (mut changes, mut refused, mut size) = (Vec::new(), 0, 0);
    let mut look = |stepped: &Stepped| {
        let level = stepped.level();
        if level != last {
            changes.push((level, stepped.free()));
        }
        last = level;
    };
    for round in 0..100 {
        for _ in 0..1_000 {
            let published = heap.publish(WriteClass::Publish, 4, 60_000);
            look(&stepped);
            if let Err(error) = published {
                refusal(error);
                refused += 1;
                break;
            }
        }
        let segments = heap.log.segments();
        size = segments[4].capacity;
        assert!(size * 100 > stepped.node.pressure().disks[0].total, "{segments:?}");
        place.leave(place.available().saturating_sub(size));
        stepped.second();
        look(&stepped);
        if round % 4 == 3 {
            heap.truncate(heap.log.durable().0 - segments[1].base.0);
            look(&stepped);
        }
        place.leave(place.available() + size);
        stepped.second();
        look(&stepped);
    }
    println!("{refused} refusals in 100 rounds, {} changes: {changes:?}", changes.len());
    assert_eq!((changes[0].0, changes[1].0), (Level::Soft, Level::Hard));
    for pair in changes[1..].windows(2) {
        let [(_, before), (level, free)] = *pair else { continue };
        match level {
            // Or the next file would have come to it.
            Level::Hard => assert!(free <= hard + size, "{changes:?}"),
            _ => assert!(free > hard + clear, "{changes:?}"),
        }
        assert!(before.abs_diff(free) >= clear, "{changes:?}");
    }
    assert!(refused > 50 && changes.len() < 30, "{refused} refusals, {} changes", changes.len());
    heap.check();
    drop(heap);
    stepped.node.close().unwrap();
}

/// The same in real time: a publisher at full speed and a consumer that frees one segment after the other.
#[test]
fn case_A13_a_publisher_and_a_slower_consumer_do_not_make_the_level_flap() {
    let name = "case_A13_a_publisher_and_a_slower_consumer_do_not_make_the_level_flap";
    each(name, |place| {
        crate::changes::keep();
        let node = Node::open(place.data(), options()).unwrap();
        let mut heap = Queue::new(&node, "heap");
        let (mut freed, mut refused) = (0, 0);
        wait_for("sixty segments freed", || {
            match heap.publish(WriteClass::Publish, 4, 60_000) {
                Ok(()) => return None,
                Err(error) => refusal(error),
            };
            refused += 1;
            let segments = heap.log.segments();
            heap.truncate(heap.log.durable().0 - segments[1].base.0);
            freed += segments[0].capacity;
            (freed >= 24 * MIB).then_some(())
        });
        let said = crate::changes::said_of(&place.data());
        let clear = node.pressure().disks[0].thresholds.clear;
        println!(
            "{}: {freed} bytes freed, {refused} refusals, {} changes, margin {clear}",
            place.kind,
            said.len()
        );
        assert!(said.len() as u64 <= 3 + 2 * freed / clear, "{}: {said:?}", place.kind);
        heap.check();
        drop(heap);
        node.close().unwrap();
    });
}
