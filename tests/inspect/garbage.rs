//! Whatever stands in a data directory: no panic, nothing changed, and repair either succeeds or says why not.

use crate::image::LOG;
use crate::store::{header, segment, spare};
use plimsoll::clock::ManualClock;
use plimsoll::format::header::{Header, InUse, Origin};
use plimsoll::fs::FileSystem;
use plimsoll::fs::sim::SimFileSystem;
use plimsoll::inspect::{self, Depth, LogReader, Outcome};
use plimsoll::repair;
use plimsoll::types::{LogId, Offset};
use std::path::Path;
use std::sync::Arc;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// A header that is valid and may be absurd.
    fn header(&mut self) -> Header {
        let edges = [0, 1, 10, 20, 25, 1 << 32, u64::MAX - 1];
        let base = edges[self.below(7) as usize];
        let previous_end = edges[self.below(7) as usize].min(base);
        let log = if self.below(4) == 0 { LogId([9; 16]) } else { LOG };
        let origin = if previous_end < base { Origin::Repair } else { Origin::Heal };
        let in_use = InUse {
            log,
            base: Offset(base),
            previous_end: Offset(previous_end),
            previous_millis: self.below(u64::MAX),
            origin,
        };
        let in_use = (self.below(4) != 0).then_some(in_use);
        Header { in_use, ..header(1 + self.below(5) as u16, LOG, 0, 0) }
    }
}

fn put(fs: &SimFileSystem, path: &Path, bytes: &[u8]) {
    let file = fs.create(path).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
}

#[test]
fn any_files_in_any_state_are_looked_at_read_and_repaired_without_a_panic() {
    let mut random = Random(0x853c_49e6_748f_ea9b);
    let (mut repaired, mut refused) = (0, 0);
    for round in 0..400u64 {
        let fs = SimFileSystem::new(round);
        for name in ["logs/a", "spares", "trash", "quarantine"] {
            fs.prepare_dir(Path::new("/data").join(name)).unwrap();
        }
        let names = [0, 10, 20, 25, 30, 1 << 50];
        for name in names {
            if random.below(3) == 0 {
                continue;
            }
            let base = name;
            let (mut image, _) = segment(&header(2, LOG, base, base), random.below(12));
            match random.below(6) {
                0 | 1 => {}
                2 => image.put(0, &random.header().encode()),
                3 => image.put(0, &spare(2).encode()),
                4 => image.bytes.truncate(random.below(20_000) as usize),
                _ => {
                    let from = random.below(9000) as usize;
                    let len = random.below(6000) as usize;
                    image.bytes[from..from + len].iter_mut().for_each(|byte| *byte = 0xa5);
                }
            }
            put(&fs, &Path::new("/data/logs/a").join(format!("{name:020}.seg")), &image.bytes);
        }
        fs.sync_dir(Path::new("/data/logs/a")).unwrap();
        let before = fs.fingerprint();
        fs.record(true);
        let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
        let _ = inspect::node(&fs, Path::new("/data"), Depth::Records, &|| ());
        let _ = inspect::verify(Arc::clone(&shared), Path::new("/data"), &|| (), &mut |_| ());
        if let Ok(mut reader) = LogReader::open(shared, Path::new("/data/logs/a"), None) {
            for _ in 0..100 {
                let _ = reader.next();
            }
            let _ = reader.refresh();
        }
        let _ = repair::plan(&fs, Path::new("/data"), None);
        // I11: no call was made that could change anything.
        let changing: Vec<_> = fs.trace().into_iter().filter(|op| op.kind.changes()).collect();
        assert!(changing.is_empty(), "round {round}: {changing:?}");
        fs.record(false);
        assert_eq!(fs.fingerprint(), before, "round {round}");
        let clock = ManualClock::new(1_800_000_000_000);
        match repair::repair(&fs, &clock, Path::new("/data"), None) {
            Ok(done) if done.plan.logs.iter().all(|log| log.refused.is_none()) => {
                let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
                let report = inspect::verify(shared, Path::new("/data"), &|| (), &mut |_| ());
                assert!(
                    report.outcome <= Outcome::TornTail,
                    "round {round}: {:?} {:?} {:?}",
                    report.findings,
                    report.files_with_findings,
                    done.plan,
                );
                repaired += 1;
            }
            Ok(_) => refused += 1,
            Err(error) => panic!("round {round}: {error}"),
        }
    }
    assert!(repaired > 200 && refused > 0, "{repaired} repaired, {refused} refused");
}
