//! No byte is free, and the process dies: it starts there, and what is acknowledged makes room again.

use crate::child::{Other, say};
use crate::outside::wait_for;
use crate::place::{Place, each, open, options, refusal, wait_for_kept_back};
use plimsoll::{Level, Log, NewRecord, Node, Offset, WriteClass};
use std::path::Path;
use std::time::Duration;

const RECORD: usize = 16_000;

fn record(number: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(RECORD, number.to_le_bytes()[0]);
    bytes
}

fn number(payload: &[u8]) -> u64 {
    u64::from_le_bytes(payload[..8].try_into().unwrap())
}

/// The child that is killed: publishes until it is refused.
pub(crate) fn fill_and_wait(dir: &Path) {
    let node = Node::open(dir, options()).unwrap();
    wait_for_kept_back(&node);
    // A directory for another log would find no room later.
    let (queue, _acks) = (open(&node, "queue"), open(&node, "acks"));
    let mut next = 0;
    loop {
        let batch: Vec<_> = (next..next + 16).map(record).collect();
        let batch: Vec<_> = batch.iter().map(|bytes| NewRecord::new(bytes)).collect();
        match queue.publish(WriteClass::Publish, &batch) {
            Ok(appended) => next = appended.first.0 + appended.count,
            Err(error) => {
                refusal(error);
                break;
            }
        }
    }
    say(&format!("segments {}", queue.segments().len()));
    say(&format!("published {next}"));
    std::thread::sleep(Duration::from_secs(600));
}

/// The highest record that is acknowledged durably, and that all before it are.
fn acknowledged(acks: &Log) -> Option<u64> {
    let mut reader = acks.read_from(acks.head()).unwrap();
    let mut last = None;
    while let Some(record) = reader.next().unwrap() {
        let ack = number(&record.payload);
        assert!(last.is_none_or(|last| ack == last + 1), "{ack} after {last:?}");
        last = Some(ack);
    }
    last
}

/// The child that starts on the full disk, and consumes.
pub(crate) fn drain(dir: &Path) {
    let node = Node::open(dir, options()).unwrap();
    say(&format!("level {}", node.pressure().level));
    let (queue, acks) = (open(&node, "queue"), open(&node, "acks"));
    assert!(queue.stopped().is_none(), "{:?}", queue.stopped());
    let refused = queue.publish(WriteClass::Publish, &[NewRecord::new(b"more")]).map_err(refusal);
    say(&format!("refused {}", refused.is_err()));
    let done = acknowledged(&acks);
    say(&format!("acknowledged {}", done.map_or(0, |done| done + 1)));
    let first = done.map_or(0, |done| done + 1);
    // Nothing that is not acknowledged is lost; what is may still stand in the first segment.
    assert!(queue.head().0 <= first, "{:?} of {first}", queue.head());
    let mut reader = queue.read_from(Offset(first)).unwrap();
    let mut freed = 0;
    for next in first.. {
        let Some(record) = reader.next().unwrap() else { break };
        assert_eq!((record.offset.0, number(&record.payload)), (next, next));
        acks.publish(WriteClass::Acknowledge, &[NewRecord::new(&next.to_le_bytes())])
            .unwrap_or_else(|error| panic!("acknowledging {next}: {error}"));
        let truncated = queue.truncate_before(Offset(next + 1)).unwrap();
        assert!(truncated.segments_freed <= 1, "one by one");
        freed += truncated.segments_freed;
        if next % 50 == 0 || truncated.segments_freed > 0 {
            say(&format!("done {next}"));
        }
    }
    drop(reader);
    say(&format!("freed {freed}"));
    say(&format!("drained {}", queue.durable().0));
    wait_for("ok", || (node.pressure().level == Level::Ok).then_some(()));
    wait_for("a publish", || queue.publish(WriteClass::Publish, &[NewRecord::new(b"more")]).ok());
    node.close().unwrap();
    say("well");
}

/// The disk is full to the last byte, with messages and a little from outside, and the process is killed. It starts there,
/// reads, refuses publishes, and drains the queue with an acknowledgement for each record, killed once more in the midst of
/// it: nothing that was acknowledged comes back, nothing else is lost, and in the end it is back at ok without a restart.
#[test]
fn case_A7_A11_a_node_starts_and_drains_at_no_free_byte() {
    each("case_A7_A11_a_node_starts_and_drains_at_no_free_byte", starts_and_drains);
}

fn starts_and_drains(place: &Place) {
    let (kind, dir) = (place.kind, place.data());
    let mut child = Other::start("fill", &dir, None, 0);
    let (segments, published) = (child.number("segments"), child.number("published"));
    assert!(segments >= 30, "{kind}: {segments}");
    place.fill();
    child.kill();

    let mut child = Other::start("drain", &dir, None, 0);
    assert_eq!(child.hear("level").unwrap(), "reserve", "{kind}");
    assert_eq!(child.hear("refused").unwrap(), "true", "{kind}");
    let mut done = 0;
    while done < published / 2 {
        done = child.number("done");
    }
    child.kill();

    // As full as before: what the first half gave back is taken from outside.
    place.fill();
    let mut child = Other::start("drain", &dir, None, 0);
    assert_eq!(child.hear("level").unwrap(), "reserve", "{kind}");
    let acknowledged = child.number("acknowledged");
    assert!(acknowledged > done, "{kind}: {done} was acknowledged, {acknowledged} are");
    let freed = child.number("freed");
    place.empty();
    assert_eq!(child.number("drained"), published, "{kind}");
    assert!(child.hear("well").is_some() && child.end(), "{kind}");
    println!(
        "{kind}: {published} records in {segments} segments; killed after {acknowledged} acknowledgements; the second half freed {freed}"
    );
    assert!(freed > segments / 4, "{kind}: {freed} of {segments}");
}
