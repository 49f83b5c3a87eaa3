//! The main job on the machine's own file system: append, read, truncate, delete, close, open again.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use plimsoll::{LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, WriteClass};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

fn small_node(dir: &Path) -> Node {
    let mut options = NodeOptions::default();
    options.segment_size = 1 << 20;
    Node::open(dir, options).unwrap()
}

fn name(name: &str) -> LogName {
    LogName::new(name).unwrap()
}

fn payload(number: u64) -> Vec<u8> {
    let len = usize::try_from(number * 37 % 1500).unwrap();
    let mut bytes = number.to_string().into_bytes();
    bytes.resize(bytes.len().max(len), b'.');
    bytes
}

fn read_all(log: &plimsoll::Log, from: Offset) -> Vec<(u64, Vec<u8>)> {
    let mut reader = log.read_from(from).unwrap();
    std::iter::from_fn(|| reader.next().unwrap().map(|r| (r.offset.0, r.payload))).collect()
}

#[test]
fn what_is_appended_is_read_back_also_after_closing_and_opening() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut expected = Vec::new();
    for life in 0..4u64 {
        let node = small_node(&data);
        let log = node.open_log(&name("orders/eu"), LogOptions::default()).unwrap();
        assert_eq!(log.tail(), Offset(life * 1000));
        for batch in 0..100u64 {
            let payloads: Vec<_> = (0..10).map(|n| payload(life * 1000 + batch * 10 + n)).collect();
            let records: Vec<_> = payloads.iter().map(|p| NewRecord::new(p)).collect();
            let done = log.publish(WriteClass::Publish, &records).unwrap();
            assert_eq!(done.first, Offset(life * 1000 + batch * 10));
            expected.extend(payloads.into_iter().zip(done.first.0..).map(|(p, o)| (o, p)));
        }
        assert_eq!(log.durable(), log.tail());
        assert_eq!(read_all(&log, Offset::ZERO), expected);
        let middle = expected.len() / 2 + 7;
        assert_eq!(read_all(&log, Offset(middle as u64)), expected[middle..]);
        node.close().unwrap();
    }
}

#[test]
fn a_scan_takes_all_records_over_files_and_goes_on_where_it_was_broken_off() {
    let dir = tempfile::tempdir().unwrap();
    let node = small_node(dir.path());
    let log = node.open_log(&name("log"), LogOptions::default()).unwrap();
    for first in (0..4000).step_by(100) {
        let payloads: Vec<_> = (first..first + 100).map(payload).collect();
        let records: Vec<_> = payloads.iter().map(|p| NewRecord::new(p)).collect();
        log.publish(WriteClass::Publish, &records).unwrap();
    }
    assert!(log.segments().len() > 2);
    let mut reader = log.read_from(Offset(3)).unwrap();
    let mut next = 3;
    while let Some(at) = {
        let mut left = 700;
        reader.scan(|found| {
            assert_eq!((found.offset.0, found.payload), (next, &payload(next)[..]));
            next += 1;
            left -= 1;
            if left == 0 { ControlFlow::Break(found.offset) } else { ControlFlow::Continue(()) }
        })
    }
    .unwrap()
    {
        assert_eq!(
            (at.0 + 1, reader.position().0),
            (next, next),
            "the last one taken is behind it"
        );
        // Both ways of reading go on from each other.
        assert_eq!(reader.next().unwrap().unwrap().offset, Offset(next));
        next += 1;
    }
    assert_eq!((next, reader.position()), (4000, log.durable()));
    log.publish(WriteClass::Publish, &[NewRecord::new(b"one more")]).unwrap();
    let more = reader.scan(|found| ControlFlow::Break(found.payload.to_vec())).unwrap();
    assert_eq!(more.as_deref(), Some(&b"one more"[..]));
    node.close().unwrap();
}

#[test]
fn many_writers_share_commits_and_each_gets_its_own_offsets() {
    let dir = tempfile::tempdir().unwrap();
    let node = small_node(dir.path());
    let log = node.open_log(&name("shared"), LogOptions::default()).unwrap();
    let confirmed = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for writer in 0..16u64 {
            let (log, confirmed) = (log.clone(), &confirmed);
            scope.spawn(move || {
                for number in 0..200u64 {
                    let bytes = payload(writer * 1000 + number);
                    let done = log.publish(WriteClass::Publish, &[NewRecord::new(&bytes)]).unwrap();
                    confirmed.lock().unwrap().push((done.first.0, bytes));
                }
            });
        }
    });
    let mut confirmed = confirmed.into_inner().unwrap();
    confirmed.sort();
    assert_eq!(confirmed, read_all(&log, Offset::ZERO));
}

#[test]
fn dropped_tickets_are_committed_and_followers_see_them() {
    let dir = tempfile::tempdir().unwrap();
    let node = small_node(dir.path());
    let log = node.open_log(&name("dropped"), LogOptions::default()).unwrap();
    let mut reader = log.read_from(Offset::ZERO).unwrap();
    for number in 0..500u64 {
        let bytes = payload(number);
        let plimsoll::permit::Decision::Admit(permit) =
            log.admit(WriteClass::Publish, bytes.len() as u64)
        else {
            panic!("the gate is open")
        };
        drop(log.append(permit, &[NewRecord::new(&bytes)]).unwrap());
    }
    for number in 0..500u64 {
        while !reader.wait(Duration::from_secs(10)).unwrap() {}
        assert_eq!(reader.next().unwrap().unwrap().payload, payload(number));
    }
    assert!(reader.next().unwrap().is_none());
    assert!(!reader.wait(Duration::from_millis(1)).unwrap());
}

#[test]
fn truncation_frees_whole_segments_and_keeps_the_next_offset() {
    let dir = tempfile::tempdir().unwrap();
    let node = small_node(dir.path());
    let log = node.open_log(&name("t"), LogOptions::default()).unwrap();
    let bytes = vec![7; 60_000];
    for _ in 0..100 {
        log.publish(WriteClass::Publish, &[NewRecord::new(&bytes)]).unwrap();
    }
    let before = log.segments().len();
    let done = log.truncate_before(Offset(50)).unwrap();
    assert!(done.segments_freed > 0 && done.head <= Offset(50));
    assert_eq!(log.segments().len(), before - usize::try_from(done.segments_freed).unwrap());
    assert!(matches!(
        log.read_from(Offset::ZERO).unwrap_err(),
        plimsoll::error::ReadError::Gone { next, .. } if next == done.head
    ));
    let done = log.truncate_before(Offset(u64::MAX)).unwrap();
    assert!(done.head < Offset(100));
    drop(log);
    node.close().unwrap();
    let node = small_node(dir.path());
    let log = node.open_log(&name("t"), LogOptions::default()).unwrap();
    assert_eq!((log.head(), log.tail()), (done.head, Offset(100)));
    assert_eq!(log.segments().len(), 1);
}

#[test]
fn a_deleted_log_is_gone_and_its_name_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let node = small_node(dir.path());
    let log = node.open_log(&name("a/b/c"), LogOptions::default()).unwrap();
    log.publish(WriteClass::Publish, &[NewRecord::new(b"x")]).unwrap();
    node.delete_log(&name("a/b/c")).unwrap();
    assert!(log.publish(WriteClass::Publish, &[NewRecord::new(b"y")]).is_err());
    assert_eq!(node.logs().unwrap(), []);
    let log = node.open_log(&name("a"), LogOptions::default()).unwrap();
    assert_eq!(log.tail(), Offset::ZERO);
}

#[test]
fn a_second_node_on_the_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let node = small_node(dir.path());
    let log = node.open_log(&name("held"), LogOptions::default()).unwrap();
    let refused = Node::open(dir.path(), NodeOptions::default()).unwrap_err();
    assert!(matches!(refused, plimsoll::error::OpenError::Locked { .. }), "{refused}");
    // A log that can still write keeps the directory locked when the node is gone.
    drop(node);
    assert!(Node::open(dir.path(), NodeOptions::default()).is_err());
    drop(log);
    small_node(dir.path()).close().unwrap();
}

/// Files of one log mostly have the same generation, and records of one size stand in the same places in each. A block
/// that the disk reads from, or wrote into, the wrong file must not pass for records of the file that it is found in.
#[test]
fn i4_a_block_of_another_segment_at_the_same_place_is_damage() {
    use plimsoll::error::ReadError;
    use plimsoll::format::header::{Header, InUse};
    const BLOCK: usize = 4096;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let content = |number: u64| format!("{number:096}").into_bytes();
    let node = small_node(&data);
    let log = node.open_log(&name("orders"), LogOptions::default()).unwrap();
    let files = || {
        let list = std::fs::read_dir(data.join("logs/orders")).unwrap();
        let mut list: Vec<_> = list.map(|entry| entry.unwrap().path()).collect();
        // A reserved file may wait beside them.
        list.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
        list.sort();
        list
    };
    let mut count = 0;
    while files().len() < 4 {
        let payloads: Vec<_> = (count..count + 64).map(content).collect();
        let records: Vec<_> = payloads.iter().map(|p| NewRecord::new(p)).collect();
        log.publish(WriteClass::Publish, &records).unwrap();
        count += 64;
    }
    drop(log);
    node.close().unwrap();

    let [_, from, to, _] = &files()[..] else { panic!("four segments") };
    let (source, mut bytes) = (std::fs::read(from).unwrap(), std::fs::read(to).unwrap());
    let (first, second) = (Header::parse(&source).unwrap(), Header::parse(&bytes).unwrap());
    assert_eq!(first.generation, second.generation, "else the generation tells them apart");
    let InUse { base, .. } = second.in_use.unwrap();
    let block = 10 * BLOCK..11 * BLOCK;
    assert_ne!(source[block.clone()], bytes[block.clone()]);
    bytes[block.clone()].copy_from_slice(&source[block]);
    std::fs::write(to, bytes).unwrap();

    let node = small_node(&data);
    let log = node.open_log(&name("orders"), LogOptions::default()).unwrap();
    // Records of 128 bytes from 8192 on.
    let damaged = base.plus((10 * BLOCK as u64 - 8192) / 128);
    let mut reader = log.read_from(Offset::ZERO).unwrap();
    for offset in 0..damaged.0 {
        let record = reader.next().unwrap().unwrap();
        assert_eq!((record.offset.0, record.payload), (offset, content(offset)));
    }
    assert!(matches!(reader.next(), Err(ReadError::Damaged(_))));
    // Nor does a reader get there that begins in the midst of the block.
    for within in 0..32 {
        let reader = log.read_from(damaged.plus(within));
        let read = reader.and_then(|mut reader| reader.next().map(drop));
        assert!(matches!(read, Err(ReadError::Damaged(_))), "record {within} of the block");
    }
}

/// There is no index file: where records stand is found from the segment. What could disagree with it is the checkpoint.
#[test]
#[allow(non_snake_case)]
fn case_B5_a_checkpoint_that_is_missing_torn_or_of_elsewhere_loses_nothing() {
    use plimsoll::format::checkpoint::Checkpoint;
    use plimsoll::format::header::Header;
    use plimsoll::types::Generation;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("logs/b5/00000000000000000000.seg");
    let mut expected = Vec::new();
    let node = small_node(dir.path());
    let log = node.open_log(&name("b5"), LogOptions::default()).unwrap();
    for number in 0..60 {
        log.publish(WriteClass::Publish, &[NewRecord::new(&payload(number))]).unwrap();
        expected.push((number, payload(number)));
    }
    drop(log);
    node.close().unwrap();
    let whole = std::fs::read(&file).unwrap();
    let header = Header::parse(&whole).unwrap();
    let good = Checkpoint::parse(&whole[4096..8192]).unwrap();
    assert_eq!(good.next, Offset(60), "closing left one");
    let next_use = Checkpoint { generation: Generation::new(2).unwrap(), ..good };
    let too_far = Checkpoint { position: header.capacity + 8, next: Offset(999), ..good };
    let mut torn = good.encode();
    torn[100..512].fill(0);
    for block in [[0; 4096], [0xff; 4096], torn, next_use.encode(), too_far.encode()] {
        let mut bytes = whole.clone();
        bytes[4096..8192].copy_from_slice(&block);
        std::fs::write(&file, bytes).unwrap();
        let node = small_node(dir.path());
        let log = node.open_log(&name("b5"), LogOptions::default()).unwrap();
        assert!(log.stopped().is_none());
        assert_eq!(read_all(&log, Offset::ZERO), expected);
        assert_eq!(read_all(&log, Offset(41)), expected[41..]);
        drop(log);
        node.close().unwrap();
    }
}
