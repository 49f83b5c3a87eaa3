//! Readers and the files that are truncated under them.

use crate::outside::wait_for;
use crate::place::{Place, Queue, each, options};
use plimsoll::{Node, Offset, Reader, WriteClass};
use std::path::Path;

/// Descriptors of this process for files below `dir` that have no name any more.
fn deleted_open(dir: &Path) -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links
        .filter(|link| link.starts_with(dir) && link.to_string_lossy().contains("(deleted)"))
        .count()
}

fn used(place: &Place) -> u64 {
    let node = plimsoll::fs::FileSystem::space(&plimsoll::fs::OsFileSystem, place.path()).unwrap();
    node.total - node.available
}

/// Readers that are dropped hold no deleted file, and one that is slow holds back no more than the segment that it is in:
/// the others go, though they are newer.
#[test]
fn case_A14_dropped_readers_hold_nothing_and_a_slow_one_only_its_segment() {
    each("case_A14_dropped_readers_hold_nothing_and_a_slow_one_only_its_segment", |place| {
        let kind = place.kind;
        let mut options = options();
        // What is freed shall show in what is free.
        options.limits.pool.budget = "0%".parse().unwrap();
        let node = Node::open(place.data(), options).unwrap();
        crate::place::wait_for_kept_back(&node);
        let mut queue = Queue::new(&node, "queue");
        (0..100).for_each(|_| queue.publish(WriteClass::Publish, 4, 40_000).unwrap());
        let segments = queue.log.segments();
        assert!(segments.len() > 10, "{segments:?}");
        let before = used(place);
        // What the log has reserved since is no matter of what was freed.
        let freed =
            |node: &Node| (before + node.stats().reserved_bytes).saturating_sub(used(place));

        // Twenty consumers, one in each of some segments, that go away without a word.
        let reader = |at: usize| -> Reader {
            let mut reader = queue.log.read_from(Offset(segments[at].base.0)).unwrap();
            reader.next().unwrap().unwrap();
            reader
        };
        let crowd: Vec<_> = (0..20).map(|number| reader(number % segments.len())).collect();
        drop(crowd);
        let mut slow = reader(3);
        let pinned = segments[3].capacity;
        queue.truncate(0);
        let all: u64 = segments[..segments.len() - 1].iter().map(|segment| segment.capacity).sum();
        wait_for("all but the slow reader's segment", || {
            let freed = freed(&node);
            // The file system's own blocks come and go.
            (freed + pinned + (256 << 10) >= all).then_some(())
        });
        assert!(deleted_open(place.path()) <= 1, "{kind}");
        assert_eq!(node.stats().pinned_bytes, pinned, "{kind}");
        println!(
            "{kind}: {all} bytes truncated, {} freed beside a reader in {pinned}",
            freed(&node)
        );
        // It reads what it stands in to the end, and is told then where the log begins.
        let mut read = 0;
        let gone = loop {
            match slow.next() {
                Ok(Some(_)) => read += 1,
                Ok(None) => panic!("{kind}: the end after {read}"),
                Err(gone) => break gone,
            }
        };
        let rest = segments[4].base.0 - segments[3].base.0 - 1;
        assert_eq!(read, rest, "{kind}: {gone}");
        drop(slow);
        wait_for("the last bytes", || (freed(&node) + (256 << 10) >= all).then_some(()));
        assert_eq!((deleted_open(place.path()), node.stats().pinned_bytes), (0, 0), "{kind}");
        queue.check();
        drop(queue);
        node.close().unwrap();
    });
}
