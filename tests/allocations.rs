//! Appending and reading record after record ask for no memory, and a look at one record for little.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use plimsoll::permit::Decision;
use plimsoll::{
    Log, LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, Reader, WriteClass,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::ops::ControlFlow;

struct Counting;

thread_local! {
    /// Calls and bytes of this thread.
    static ASKED: Cell<(u64, usize)> = const { Cell::new((0, 0)) };
}

// SAFETY: every call is handed on to the system's allocator as it came; counting touches no memory of the heap.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (calls, bytes) = ASKED.get();
        ASKED.set((calls + 1, bytes + layout.size()));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn asked<T>(by: impl FnOnce() -> T) -> (T, u64, usize) {
    let before = ASKED.get();
    let result = by();
    let after = ASKED.get();
    (result, after.0 - before.0, after.1 - before.1)
}

fn next(reader: &mut Reader) -> Option<usize> {
    reader.next_with(|found| black_box(found.payload).len()).unwrap()
}

/// A log of `count` records of 1000 bytes.
fn log(dir: &std::path::Path, count: usize) -> (Node, Log) {
    let node = Node::open(dir.join("data"), NodeOptions::default()).unwrap();
    let log = node.open_log(&LogName::new("log").unwrap(), LogOptions::default()).unwrap();
    let payload = [7; 1000];
    let batch = vec![NewRecord::new(&payload); 500];
    for _ in 0..count / batch.len() {
        log.publish(WriteClass::Publish, &batch).unwrap();
    }
    (node, log)
}

#[test]
fn appends_ask_for_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    // Far enough from the end of a file that the next one is not asked for meanwhile.
    let (node, log) = log(dir.path(), 16_000);
    let payload = [7; 1000];
    let publish = |records: &[NewRecord<'_>]| {
        log.publish(WriteClass::Publish, records).unwrap();
    };
    let one = [NewRecord::new(&payload)];
    let batch = [NewRecord::new(&payload); 20];
    publish(&batch);
    // What is kept of the last block grows to what it needs at most.
    (0..50).for_each(|_| publish(&one));
    let ((), calls, _) = asked(|| (0..50).for_each(|_| publish(&one)));
    assert_eq!(calls, 0, "for 50 durable appends");
    let ((), calls, _) = asked(|| (0..50).for_each(|_| publish(&batch)));
    assert_eq!(calls, 0, "for 50 batches");
    let ((), calls, _) = asked(|| {
        for _ in 0..50 {
            let permit = match log.admit(WriteClass::Publish, 1000) {
                Decision::Admit(permit) | Decision::Delay { permit, .. } => permit,
                Decision::Refuse(limited) => panic!("{limited}"),
            };
            log.append(permit, &one).unwrap().wait().unwrap();
        }
    });
    assert_eq!(calls, 0, "for 50 appends with a ticket");
    node.close().unwrap();
}

#[test]
fn record_after_record_asks_for_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    // All but the first few hundred records are in two files.
    let (node, log) = log(dir.path(), 16_000);
    let mut reader = log.read_from(Offset::ZERO).unwrap();
    // The buffer grows to its full size first.
    for _ in 0..4000 {
        next(&mut reader).unwrap();
    }
    let ((), calls, _) = asked(|| {
        for _ in 0..2000 {
            next(&mut reader).unwrap();
        }
    });
    assert_eq!(calls, 0, "for 2000 records, one by one");
    let (records, calls, bytes) = asked(|| {
        let mut records = 0;
        let end = reader.scan(|found| {
            black_box(found.payload);
            records += 1;
            ControlFlow::<()>::Continue(())
        });
        assert!(end.unwrap().is_none());
        records
    });
    assert_eq!(records, 10_000);
    assert!(
        calls < 50 && bytes < 64 << 10,
        "{calls} calls, {bytes} bytes, also into the next file"
    );
    drop(reader);
    node.close().unwrap();
}

#[test]
fn a_look_at_the_newest_record_takes_little() {
    let dir = tempfile::tempdir().unwrap();
    let (node, log) = log(dir.path(), 500);
    let payload = [7; 1000];
    let mut reader = log.read_from(log.durable()).unwrap();
    log.publish(WriteClass::Publish, &[NewRecord::new(&payload)]).unwrap();
    // Finds out where in its file the record is, which a reader of the same file then knows.
    assert_eq!(next(&mut reader), Some(1000));
    let last = Offset(log.durable().0 - 1);
    let (read, _, bytes) = asked(|| next(&mut log.read_from(last).unwrap()));
    assert_eq!(read, Some(1000));
    assert!(bytes < 64 << 10, "{bytes} bytes for one record that is found");
    for round in 0..20 {
        assert_eq!(next(&mut reader), None);
        log.publish(WriteClass::Publish, &[NewRecord::new(&payload)]).unwrap();
        let (read, calls, bytes) = asked(|| next(&mut reader));
        assert_eq!(read, Some(1000));
        // On its way to the end it may have had a larger buffer, which it gave back.
        let most = if round == 0 { 32 << 10 } else { 0 };
        assert!(bytes <= most, "{calls} calls, {bytes} bytes for one more at the end");
    }
    drop(reader);
    node.close().unwrap();
}

#[test]
fn a_reader_at_the_end_gives_its_large_buffer_back() {
    let dir = tempfile::tempdir().unwrap();
    let (node, log) = log(dir.path(), 8000);
    let mut reader = log.read_from(Offset::ZERO).unwrap();
    while next(&mut reader).is_some() {}
    let payload = [7; 1000];
    log.publish(WriteClass::Publish, &[NewRecord::new(&payload)]).unwrap();
    let (read, calls, bytes) = asked(|| next(&mut reader));
    assert_eq!(read, Some(1000));
    assert!(
        calls > 0 && bytes < 32 << 10,
        "{calls} calls, {bytes} bytes: a small one in its place"
    );
    drop(reader);
    node.close().unwrap();
}
