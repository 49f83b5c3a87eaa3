//! The read-only reader, on stores built by hand and beside a running node.

use crate::image::LOG;
use crate::store::{empty, flip, header, payload, put, segment, three};
use plimsoll::error::ReadError;
use plimsoll::fs::OsFileSystem;
use plimsoll::inspect::LogReader;
use plimsoll::types::Offset;
use plimsoll::{LogName, LogOptions, NewRecord, Node, NodeOptions, WriteClass};
use std::path::Path;
use std::sync::Arc;

fn open(dir: &Path, from: Option<u64>) -> Result<LogReader, ReadError> {
    LogReader::open(Arc::new(OsFileSystem), dir, from.map(Offset))
}

fn read(reader: &mut LogReader) -> Vec<u64> {
    let mut offsets = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        let offset = record.offset.unwrap().0;
        assert_eq!(record.payload, payload(offset));
        offsets.push(offset);
    }
    offsets
}

#[test]
fn reads_what_is_vouched_for_and_counts_what_stands_behind() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    three(dir.path(), "a", LOG);
    let log = dir.path().join("logs/a");
    assert_eq!(read(&mut open(&log, None).unwrap()), (0..30).collect::<Vec<_>>());
    assert_eq!(read(&mut open(&log, Some(17)).unwrap()), (17..30).collect::<Vec<_>>());
    assert!(matches!(open(&log, Some(31)), Err(ReadError::Beyond { end: Offset(30), .. })));
    // Without a checkpoint nothing vouches for the last record.
    put(dir.path(), "a", 20, &segment(&header(3, LOG, 20, 20), 10).0.bytes);
    let mut reader = open(&log, None).unwrap();
    assert_eq!(read(&mut reader), (0..29).collect::<Vec<_>>());
    assert_eq!((reader.end(), reader.behind()), (Offset(29), 1));
    // One more commit: now the former last one is claimed.
    put(dir.path(), "a", 20, &segment(&header(3, LOG, 20, 20), 12).0.bytes);
    assert!(reader.refresh().unwrap());
    assert_eq!(read(&mut reader), [29, 30]);
    assert_eq!(reader.behind(), 1);
    // A new segment vouches for all of the one before.
    put(dir.path(), "a", 32, &segment(&header(4, LOG, 32, 32), 2).0.bytes);
    assert!(reader.refresh().unwrap());
    assert_eq!(read(&mut reader), [31, 32]);
    assert!(!reader.refresh().unwrap());
}

#[test]
fn what_was_truncated_or_reused_is_gone_and_not_damaged() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    let files = three(dir.path(), "a", LOG);
    let log = dir.path().join("logs/a");
    let mut reader = open(&log, None).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().offset, Some(Offset(0)));
    // Given up and used by another log meanwhile, under the reader's open file.
    let other = segment(&header(9, crate::image::EARLIER_LOG, 0, 0), 3).0.bytes;
    std::fs::write(&files[0].0, other).unwrap();
    std::fs::remove_file(&files[0].0).unwrap();
    let mut last = 0;
    let gone = loop {
        match reader.next() {
            Ok(Some(record)) => last = record.offset.unwrap().0,
            other => break other,
        }
    };
    // What the reader had in its buffer may still come, and then it is told.
    assert!(last < 10, "{last}");
    assert!(matches!(gone, Err(ReadError::Gone { next: Offset(10), .. })) || last == 9, "{gone:?}");
    let mut reader = open(&log, None).unwrap();
    assert_eq!(reader.head(), Offset(10));
    assert_eq!(read(&mut reader), (10..30).collect::<Vec<_>>());
    assert!(matches!(open(&log, Some(3)), Err(ReadError::Gone { next: Offset(10), .. })));
}

#[test]
fn damage_ends_the_reading_with_file_and_position() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    let files = three(dir.path(), "a", LOG);
    flip(&files[1].0, files[1].1[4] + 34);
    let mut reader = open(&dir.path().join("logs/a"), None).unwrap();
    for offset in 0..14 {
        assert_eq!(reader.next().unwrap().unwrap().offset, Some(Offset(offset)));
    }
    let Err(ReadError::Damaged(damage)) = reader.next() else { panic!("damage is not read over") };
    assert_eq!((damage.file, damage.position), (files[1].0.clone(), files[1].1[4]));
    assert_eq!(damage.offset, Some(Offset(14)));
}

#[test]
fn a_declared_gap_is_told_once_and_reading_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    put(dir.path(), "a", 0, &segment(&header(1, LOG, 0, 0), 10).0.bytes);
    let (mut image, _) = segment(&header(1, LOG, 15, 10), 5);
    image.checkpoint();
    put(dir.path(), "a", 15, &image.bytes);
    let mut reader = open(&dir.path().join("logs/a"), None).unwrap();
    for _ in 0..10 {
        reader.next().unwrap().unwrap();
    }
    let gone = reader.next();
    assert!(
        matches!(gone, Err(ReadError::Gone { wanted: Offset(10), next: Offset(15) })),
        "{gone:?}"
    );
    assert_eq!(read(&mut reader), (15..20).collect::<Vec<_>>());
}

#[test]
fn follows_a_running_node_through_rolls_and_truncations() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = NodeOptions::default();
    options.segment_size = 1 << 20;
    let node = Node::open(dir.path(), options).unwrap();
    let log = node.open_log(&LogName::new("live").unwrap(), LogOptions::default()).unwrap();
    log.publish(WriteClass::Publish, &[NewRecord::new(&payload(0))]).unwrap();
    let mut reader = open(&dir.path().join("logs/live"), None).unwrap();
    let total = 3000u64;
    let mut next = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for offset in 1..total {
                log.publish(WriteClass::Publish, &[NewRecord::new(&payload(offset))]).unwrap();
                if offset % 500 == 0 {
                    log.truncate_before(Offset(offset.saturating_sub(1500))).unwrap();
                }
            }
        });
        let patience = std::time::Instant::now();
        while next < total - 1 {
            match reader.next() {
                Ok(Some(record)) => {
                    assert_eq!(record.offset, Some(Offset(next)));
                    assert_eq!(record.payload, payload(next));
                    next += 1;
                }
                Ok(None) => {
                    reader.refresh().unwrap();
                }
                Err(ReadError::Gone { next: there, .. }) => next = there.0,
                Err(error) => panic!("{error}"),
            }
            assert!(patience.elapsed().as_secs() < 60, "stuck at {next}");
        }
    });
    node.close().unwrap();
}
