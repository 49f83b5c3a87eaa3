//! The log as a whole: what is loaded is what was written, and nothing is guessed.

use super::*;
use proptest::prelude::*;

#[test]
fn an_empty_log_has_no_beginning() {
    assert_eq!(
        Written { log: Vec::new(), ..Written::new() }.load(),
        Err(BadCatalogue::NoBeginning)
    );
    assert_eq!(Written::new().load(), Ok(Catalogue::new(format()).unwrap()));
}

#[test]
fn a_record_that_does_not_fit_is_an_error_at_its_offset() {
    let declare = |id, queue: &str, revision| Record::Declare {
        id: QueueId(id),
        name: name(queue),
        settings: settings(500),
        revision,
        at_ms: 0,
    };
    let elsewhere = |id, queue: &str, revision, data_dir| match declare(id, queue, revision) {
        Record::Declare { id, name, at_ms, .. } => {
            let settings = QueueSettings { data_dir, ..settings(500) };
            Record::Declare { id, name, settings, revision, at_ms }
        }
        other => other,
    };
    let queue = |id| {
        Record::Queue(QueueMeta {
            id: QueueId(id),
            name: name("q"),
            settings: settings(500),
            revision: 1,
            created_ms: 0,
            changed_ms: 0,
        })
    };
    for (record, reason) in [
        (Record::Format(format()), "second time"),
        (declare(2, "b", 2), "begins at revision 2"),
        (declare(3, "a", 1), "has the name"),
        (declare(0, "b", 1), "given before"),
        (declare(1, "b", 1), "another name"),
        (declare(1, "a", 1), "at revision 1"),
        (declare(1, "a", 3), "at revision 1"),
        (elsewhere(1, "a", 2, 1), "another directory"),
        (elsewhere(2, "b", 1, 2), "not there"),
        (Record::Delete { id: QueueId(2), at_ms: 0 }, "no queue"),
        (queue(2), "outside"),
        (Record::End { queues: 1 }, "did not begin"),
    ] {
        let mut written = Written::new();
        written.declare("a", &settings(500), None);
        written.write(&record);
        written.ends_badly(reason);
    }
    let mut written = Written::new();
    written.log[0] = declare(1, "a", 1).encode();
    written.ends_badly("not the format");
    written.log[0] = b"{\"v\":1,\"kind\":\"format\"".to_vec();
    written.ends_badly("EOF");
    written.log[0] = Record::Format(Format { shards: 0, ..format() }).encode();
    written.ends_badly("shards");
    let twice = vec![Id([1; 16]), Id([1; 16])];
    written.log[0] = Record::Format(Format { directories: twice, ..format() }).encode();
    written.ends_badly("twice");
}

#[test]
fn a_compaction_that_is_not_what_it_was_made_of_is_an_error() {
    let compacted = |change: fn(&mut Vec<Record>)| {
        let mut written = Written::new();
        written.declare("a", &settings(500), None);
        written.declare("b", &settings(500), None);
        let mut records = written.catalogue.compaction();
        change(&mut records);
        records.iter().for_each(|record| written.write(record));
        written
    };
    let whole = compacted(|_| ());
    assert_eq!(whole.load(), Ok(whole.catalogue.clone()));
    compacted(|records| {
        records.remove(1);
    })
    .ends_badly("not 2");
    compacted(|records| {
        records.truncate(2);
        records.push(Record::End { queues: 1 });
    })
    .ends_badly("not what it was made of");
    compacted(|records| {
        records[0] = Record::Begin { format: format(), next_id: QueueId(4) };
    })
    .ends_badly("not what it was made of");
    compacted(|records| {
        records[0] = Record::Begin { format: format(), next_id: QueueId(2) };
    })
    .ends_badly("is given");
}

#[test]
fn a_gap_is_an_error() {
    let mut written = Written::new();
    written.declare("a", &settings(500), None);
    written.declare("b", &settings(500), None);
    let records = [(Offset(0), &written.log[0]), (Offset(2), &written.log[2])];
    let gap = BadCatalogue::Gap { expected: Offset(1), found: Offset(2) };
    assert_eq!(Catalogue::load(records), Err(gap));
}

#[test]
fn nothing_is_read_from_what_is_left_before_a_compaction() {
    let mut written = Written::new();
    written.declare("a", &settings(500), None);
    written.compact();
    written.declare("b", &settings(500), None);
    written.delete("a");
    let begin = written.log.len();
    written.compact();
    written.declare("c", &settings(500), None);
    // A log frees whole files: its first record may be any up to the compaction's beginning.
    for from in 0..=begin {
        assert_eq!(written.load_from(from), Ok(written.catalogue.clone()), "from {from}");
    }
    // Beyond that something is missing, and nothing is made up for it.
    for from in begin + 1..written.log.len() {
        assert_eq!(written.load_from(from), Err(BadCatalogue::NoBeginning), "from {from}");
    }
}

#[test]
fn the_loader_says_what_may_be_freed_and_how_much_came_since() {
    let mut written = Written::new();
    written.declare("a", &settings(500), None);
    let facts = |written: &Written| {
        let mut loader = Loader::default();
        for (at, record) in written.log.iter().enumerate() {
            loader.push(Offset(at as u64), record).unwrap();
        }
        (loader.begin_offset(), loader.records_since())
    };
    assert_eq!(facts(&written), (Some(Offset(0)), 2));
    let compaction = written.catalogue.compaction();
    // Nothing is freed before the end is there.
    compaction[..2].iter().for_each(|record| written.write(record));
    assert_eq!(facts(&written), (Some(Offset(0)), 4));
    written.compact();
    assert_eq!(facts(&written), (Some(Offset(4)), 0));
    written.delete("a");
    assert_eq!(facts(&written), (Some(Offset(4)), 1));
}

#[test]
fn a_log_is_compacted_when_it_is_large_in_proportion() {
    let mut written = Written::new();
    assert!(!written.catalogue.wants_compaction(999));
    assert!(written.catalogue.wants_compaction(1_000));
    for number in 0..300 {
        written.declare(&number.to_string(), &settings(500), None);
    }
    assert!(!written.catalogue.wants_compaction(1_199));
    assert!(written.catalogue.wants_compaction(1_200));
}

#[derive(Clone, Debug)]
enum Step {
    Declare(u8, u64, Option<u64>),
    Delete(u8),
    Compact,
    /// A crash: only so many records of a compaction are there.
    Cut(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u8..6, 100_u64..103, proptest::option::of(1_u64..4))
            .prop_map(|(queue, lease, if_match)| Step::Declare(queue, lease, if_match)),
        2 => (0_u8..6).prop_map(Step::Delete),
        1 => Just(Step::Compact),
        1 => any::<prop::sample::Index>().prop_map(Step::Cut),
    ]
}

proptest! {
    #[test]
    fn what_is_planned_and_applied_is_what_is_loaded(steps in prop::collection::vec(step(), 0..60)) {
        let mut written = Written::new();
        let mut given = std::collections::BTreeSet::new();
        for (now, step) in (0_u64..).zip(steps) {
            let catalogue = &written.catalogue;
            let record = match step {
                Step::Declare(queue, lease, if_match) => {
                    let queue = name(&queue.to_string());
                    let new = catalogue.get(&queue).is_none();
                    let planned = catalogue.plan_declare(&queue, &settings(lease), if_match, now);
                    let record = planned.ok().and_then(|planned| planned.1);
                    if let (true, Some(Record::Declare { id, .. })) = (new, &record) {
                        prop_assert!(given.insert(*id), "a number is given twice");
                    }
                    record
                }
                Step::Delete(queue) => {
                    let planned = catalogue.plan_delete(&name(&queue.to_string()), None, now);
                    planned.ok().map(|planned| planned.1)
                }
                Step::Compact => {
                    written.compact();
                    None
                }
                Step::Cut(at) => {
                    let records = catalogue.compaction();
                    records[..at.index(records.len())].iter().for_each(|record| written.write(record));
                    None
                }
            };
            if let Some(record) = record {
                written.catalogue.apply(&record).unwrap();
                written.write(&record);
            }
            prop_assert_eq!(written.load(), Ok(written.catalogue.clone()));
        }
        // A compaction alone is the whole.
        let begin = written.log.len();
        written.compact();
        prop_assert_eq!(written.load_from(begin), Ok(written.catalogue.clone()));
    }

    #[test]
    fn a_changed_log_panics_nowhere(
        at: prop::sample::Index,
        byte: prop::sample::Index,
        change in 1_u8..,
    ) {
        let mut written = Written::new();
        written.declare("a", &settings(500), None);
        written.compact();
        written.declare("b", &settings(500), None);
        let at = at.index(written.log.len());
        let record = &mut written.log[at];
        let byte = byte.index(record.len());
        record[byte] ^= change;
        let _ = written.load();
    }
}
