//! Looking at a log that is being written.

use super::support::*;
use crate::fs::FileSystem;
use crate::recovery::{check_segment, look};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[test]
fn case_I1_looking_at_a_live_log_never_finds_damage() {
    let fs = machine(1);
    let done = AtomicBool::new(false);
    let mut first = begin(0).take(&fs);
    first.append_all(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = first;
            for _ in 0..60 {
                while writer.position < CAPACITY - 400 {
                    writer.append_all(1);
                }
                let freed = writer.begin.path.clone();
                writer = begin(writer.next).take(&fs);
                writer.append_all(2);
                fs.remove_file(&freed).unwrap();
            }
            done.store(true, Relaxed);
        });
        let (mut looks, mut last) = (0, 0);
        while !done.load(Relaxed) || looks == 0 {
            let look = look(&fs, Path::new(DIR)).unwrap();
            assert_eq!(look.damage, None);
            let next = look.end().next.0;
            assert!(next >= last, "{next} after {last}");
            (looks, last) = (looks + 1, next);
            for (at, segment) in look.segments.iter().enumerate() {
                match check_segment(&fs, LOG, segment, look.segments.get(at + 1)) {
                    Ok(check) => assert_eq!(check.damage, None),
                    Err(error) => assert!(error.is_gone(), "{error}"),
                }
            }
        }
        assert!(looks > 10, "{looks}");
    });
}
