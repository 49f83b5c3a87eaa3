//! Names that are in the page cache only.

use super::support::*;
use crate::fs::FileSystem;
use crate::fs::sim::{Fault, NothingPersisted, OpKind, What};
use crate::recovery::Tail;
use std::path::Path;

/// Everything of the log is durable but the name of its file.
pub(super) fn a_name_in_the_cache_only() {
    let fs = machine(1);
    let begin = begin(0);
    let file = fs.create(&begin.path).unwrap();
    file.set_len(CAPACITY).unwrap();
    file.write_at(0, &begin.spare().encode()).unwrap();
    let mut writer = begin.reuse(file);
    writer.append_all(3);
    fs.process_death();
    assert_eq!(recovered_records(&fs), expected(3));
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(recovered_records(&fs), expected(3));
}

#[test]
fn case_B10_a_name_that_recovery_showed_is_durable() {
    a_name_in_the_cache_only();
}

#[test]
fn names_are_synced_up_to_the_directory_of_all_logs_and_before_the_listing() {
    let fs = machine(1);
    fs.record(true);
    recovered(&fs);
    let trace = fs.trace();
    let synced: Vec<_> = trace.iter().take_while(|op| op.kind == OpKind::SyncDir).collect();
    let paths: Vec<_> = synced.iter().map(|op| op.path.as_path()).collect();
    assert_eq!(paths, [Path::new(SPARES), Path::new(DIR), Path::new("/data/logs")]);
    assert_eq!(trace[3].kind, OpKind::List);
}

#[test]
fn where_names_cannot_be_made_durable_the_log_opens_for_reading() {
    for nth in 1..3 {
        let fs = machine(1);
        let mut writer = begin(0).take(&fs);
        writer.append_all(3);
        writer.stage(&payload(3));
        writer.write().unwrap();
        let spare = begin(4);
        spare.place(&fs, &spare.spare());
        fs.process_death();
        fs.record(true);
        fs.inject(Fault::nth(OpKind::SyncDir, nth, What::Errno(libc::EIO)));
        let found = recovered(&fs);
        let Tail::ReadOnly { reason, .. } = &found.tail else { panic!("{:?}", found.tail) };
        assert!(reason.contains("/data/logs"), "{reason}");
        assert_eq!(changes(&fs), Vec::<String>::new());
        // The claim of the last record, which is readable or not, vouches for those before it.
        assert_eq!(records(&fs, &found), expected(3));
    }
}
