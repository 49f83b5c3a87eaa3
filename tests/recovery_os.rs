//! Recovery on the real file system: the calls behind the simulated ones do what recovery needs of them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation)]
#![allow(clippy::disallowed_methods, reason = "not the engine: a test")]
#![allow(non_snake_case, reason = "tests are named for the cases and invariants that they hold")]

use plimsoll::clock::SystemClock;
use plimsoll::format::header::{Header, InUse, Origin};
use plimsoll::format::layout::ClassSizes;
use plimsoll::format::name::segment_file;
use plimsoll::format::record::{self, RecordHeader};
use plimsoll::format::{Key, RECORDS_POSITION};
use plimsoll::fs::{FileSystem, OsFileSystem};
use plimsoll::recovery::{Context, RecoverError, Recovered, Tail, look, recover};
use plimsoll::segment::{GivenUp, Reuse, SegmentSource, Spare, TakeError, Want};
use plimsoll::types::{Generation, LogId, Offset, SizeClass, WriteClass};
use std::io;
use std::path::{Path, PathBuf};

const LOG: LogId = LogId([5; 16]);
const CAPACITY: u64 = 64 * 1024;

#[derive(Debug)]
struct Deletes(PathBuf);

impl SegmentSource for Deletes {
    fn sizes(&self) -> ClassSizes {
        ClassSizes { tiny: CAPACITY, small: CAPACITY, main: CAPACITY }
    }

    fn spares_dir(&self) -> &Path {
        &self.0
    }

    fn take(&self, _: &Want<'_>) -> Result<Spare, TakeError> {
        Err(io::Error::from_raw_os_error(libc::ENOSPC).into())
    }

    fn make_room(&self, _: WriteClass) -> bool {
        false
    }

    fn give_back(&self, _: Spare) {}

    fn cannot_rename_into(&self, _: &Path) {}

    fn given_up(&self, _: GivenUp) {}

    fn lost(&self, _: GivenUp) {}

    fn give_up(&self, path: &Path, _: Reuse) -> io::Result<GivenUp> {
        OsFileSystem.remove_file(path).map(|()| GivenUp::DELETED)
    }
}

struct Node {
    _root: tempfile::TempDir,
    dir: PathBuf,
    logs: PathBuf,
    source: Deletes,
}

impl Node {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let (logs, spares) = (root.path().join("logs"), root.path().join("spares"));
        let dir = logs.join("q");
        for made in [&logs, &dir, &spares] {
            OsFileSystem.create_dir(made).unwrap();
        }
        Self { _root: root, dir, logs, source: Deletes(spares) }
    }

    fn segment(&self, base: u64) -> PathBuf {
        self.dir.join(segment_file(Offset(base)))
    }

    /// A segment with `count` records, each durable before the next was staged.
    fn write(&self, base: u64, count: u64) -> Vec<u64> {
        let file = OsFileSystem.create(&self.segment(base)).unwrap();
        file.set_len(CAPACITY).unwrap();
        let in_use = InUse {
            log: LOG,
            base: Offset(base),
            previous_end: Offset(base),
            previous_millis: 0,
            origin: Origin::Roll,
        };
        let header = Header {
            generation: Generation::FIRST,
            class: SizeClass::Tiny,
            capacity: CAPACITY,
            created_millis: 1,
            in_use: Some(in_use),
        };
        file.write_at(0, &header.encode()).unwrap();
        let key = Key::new(LOG, Generation::FIRST, Offset(base));
        let mut position = RECORDS_POSITION;
        let mut positions = Vec::new();
        for relative in 0..count {
            let payload = format!("record {}", base + relative);
            let fields = RecordHeader {
                payload_len: payload.len() as u32,
                headers_len: 0,
                generation: Generation::FIRST,
                unsynced: 0,
                relative: relative as u32,
                millis: 1000 + relative,
            };
            let mut bytes = vec![0; record::record_len(0, payload.len()) as usize];
            record::encode(&mut bytes, key, position, &fields, &[], payload.as_bytes());
            file.write_at(position, &bytes).unwrap();
            positions.push(position);
            position += bytes.len() as u64;
        }
        positions
    }

    fn recover(&self) -> Result<Recovered, RecoverError> {
        let ctx = Context { fs: &OsFileSystem, source: &self.source, clock: &SystemClock };
        recover(&ctx, &self.dir, std::slice::from_ref(&self.logs))
    }
}

#[test]
fn a_torn_end_is_cut_and_trailing_files_go() {
    let node = Node::new();
    node.write(0, 5);
    let positions = node.write(5, 7);
    let last = OsFileSystem.open_write(&node.segment(5)).unwrap();
    last.write_at(positions[6] + 20, &[0xff; 4]).unwrap();
    OsFileSystem.create(&node.segment(12)).unwrap();
    OsFileSystem.create(&node.dir.join("x.tmp")).unwrap();
    let found = node.recover().unwrap();
    let open = Tail::Open { position: positions[6], next: Offset(11), millis: 1005 };
    assert_eq!(found.tail, open);
    assert_eq!(found.segments.len(), 2);
    assert_eq!(found.report.positions_zeroed, 1);
    assert_eq!(OsFileSystem.list(&node.dir).unwrap().len(), 2);
    // A second time there is nothing left to zero, and the same is found.
    let again = node.recover().unwrap();
    assert_eq!((again.tail, again.report.positions_zeroed), (found.tail, 0));
}

#[test]
fn i11_looking_changes_no_time_of_any_file() {
    let node = Node::new();
    let positions = node.write(0, 5);
    let file = OsFileSystem.open_write(&node.segment(0)).unwrap();
    file.write_at(positions[2] + 33, &[0]).unwrap();
    let times = || {
        use std::os::unix::fs::MetadataExt;
        #[allow(clippy::disallowed_methods, reason = "to see what the engine did to the file")]
        let metadata = std::fs::metadata(node.segment(0)).unwrap();
        (metadata.mtime_nsec(), metadata.ctime_nsec(), metadata.len())
    };
    let before = times();
    let look = look(&OsFileSystem, &node.dir).unwrap();
    assert_eq!(look.damage.unwrap().position, positions[2]);
    assert_eq!(times(), before);
    // Recovery of a damaged log changes nothing either.
    assert!(matches!(node.recover().unwrap().tail, Tail::Damaged { .. }));
    assert_eq!(times(), before);
}

#[test]
fn case_J5_a_link_is_refused_and_what_it_points_to_left_alone() {
    let node = Node::new();
    node.write(0, 2);
    let victim = node.logs.join("victim");
    OsFileSystem.create(&victim).unwrap().write_at(0, b"precious").unwrap();
    std::os::unix::fs::symlink(&victim, node.segment(2)).unwrap();
    let error = node.recover().unwrap_err();
    assert!(matches!(&error, RecoverError::Link { path } if *path == node.segment(2)), "{error}");
    assert_eq!(OsFileSystem.metadata(&victim).unwrap().len, 8);
}
