//! What declarations and deletions are answered.

use super::*;
use crate::api::{Declared, Fault, FaultKind};

#[test]
fn a_declaration_is_created_the_same_or_changed() {
    let mut written = Written::new();
    let a = name("a");
    let (said, record) = written.catalogue.plan_declare(&a, &settings(500), None, 5).unwrap();
    assert_eq!(said, Declared::Created);
    written.catalogue.apply(&record.unwrap()).unwrap();
    let queue = written.catalogue.get(&a).unwrap().clone();
    assert_eq!((queue.id, queue.revision), (QueueId(1), 1));
    assert_eq!((queue.created_ms, queue.changed_ms), (5, 5));
    for if_match in [None, Some(1)] {
        let same = written.catalogue.plan_declare(&a, &settings(500), if_match, 6).unwrap();
        assert_eq!(same, (Declared::Same(1), None));
    }
    let (said, record) = written.catalogue.plan_declare(&a, &settings(600), Some(1), 7).unwrap();
    assert_eq!(said, Declared::Changed(2));
    written.catalogue.apply(&record.unwrap()).unwrap();
    let queue = written.catalogue.get_id(QueueId(1)).unwrap();
    assert_eq!((queue.revision, queue.settings.lease_ms), (2, 600));
    assert_eq!((queue.created_ms, queue.changed_ms), (5, 7));
}

#[test]
fn other_settings_need_the_right_revision() {
    let mut written = Written::new();
    written.declare("a", &settings(500), None);
    let plan = |queue: &str, lease, if_match| {
        written.catalogue.plan_declare(&name(queue), &settings(lease), if_match, 5).unwrap_err()
    };
    assert!(matches!(plan("a", 600, None), Fault::OtherSettings { revision: 1, .. }));
    assert!(matches!(plan("a", 600, Some(2)), Fault::OtherRevision { revision: 1, .. }));
    // The revision is looked at even where the settings are those that it has.
    assert!(matches!(plan("a", 500, Some(2)), Fault::OtherRevision { revision: 1, .. }));
    for wanted in [0, 1] {
        assert!(matches!(plan("b", 500, Some(wanted)), Fault::OtherRevision { revision: 0, .. }));
    }
}

#[test]
fn what_is_out_of_bounds_is_invalid() {
    let mut written = Written::new();
    written.declare("a", &settings(500), None);
    let kind = |queue: &str, settings: &QueueSettings, if_match| {
        written
            .catalogue
            .plan_declare(&name(queue), settings, if_match, 5)
            .map_err(|fault| fault.kind())
    };
    assert_eq!(kind("b", &settings(1), None), Err(FaultKind::Invalid));
    let elsewhere = |data_dir| QueueSettings { data_dir, ..settings(500) };
    assert!(kind("b", &elsewhere(1), None).is_ok());
    assert_eq!(kind("b", &elsewhere(2), None), Err(FaultKind::Invalid));
    assert_eq!(kind("a", &elsewhere(1), Some(1)), Err(FaultKind::Invalid));
    assert_eq!(kind("a", &elsewhere(1), None), Err(FaultKind::OtherSettings));
}

#[test]
fn a_deletion_needs_the_queue_and_its_revision() {
    let mut written = Written::new();
    written.declare("a", &settings(500), None);
    let (a, b) = (name("a"), name("b"));
    let fault = |queue, if_match| written.catalogue.plan_delete(queue, if_match, 5).unwrap_err();
    assert!(matches!(fault(&b, None), Fault::NoQueue(_)));
    assert!(matches!(fault(&b, Some(1)), Fault::NoQueue(_)));
    assert!(matches!(fault(&a, Some(2)), Fault::OtherRevision { revision: 1, .. }));
    let (queue, record) = written.catalogue.plan_delete(&a, Some(1), 5).unwrap();
    assert_eq!(queue.id, QueueId(1));
    written.catalogue.apply(&record).unwrap();
    assert!(written.catalogue.get(&a).is_none() && written.catalogue.get_id(QueueId(1)).is_none());
    assert!(written.catalogue.apply(&record).is_err());
}

#[test]
fn a_deleted_queues_number_is_never_given_again() {
    let mut written = Written::new();
    for round in 1..=3 {
        written.declare("a", &settings(500), None);
        assert_eq!(written.catalogue.get(&name("a")).unwrap().id, QueueId(round));
        written.delete("a");
        written.compact();
    }
    assert_eq!(written.load().unwrap().next_id(), QueueId(4));
}

#[test]
fn queues_are_listed_by_name() {
    let mut written = Written::new();
    for queue in ["b", "é", "a", "aa", "B"] {
        written.declare(queue, &settings(500), None);
    }
    let names =
        |after| written.catalogue.after(after).map(|queue| queue.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names(None), ["B", "a", "aa", "b", "é"]);
    assert_eq!(
        written.catalogue.iter().map(|queue| queue.name.as_str()).collect::<Vec<_>>(),
        names(None)
    );
    assert_eq!(names(Some("a")), ["aa", "b", "é"]);
    // The text need not be a name.
    assert_eq!(names(Some("")), names(None));
    assert_eq!(names(Some("ab\n")), ["b", "é"]);
    assert_eq!(names(Some("\u{10ffff}")), [""; 0]);
}

#[test]
fn case_j1_no_name_reaches_a_path_and_no_two_share_one() {
    let long = "x".repeat(255);
    // One code point, and two that look the same.
    let forms = ["\u{e9}", "e\u{301}", "A", "a", "CON", "con"];
    let paths =
        ["../x", "a/../../x", "..%2fx", "%2e%2e/x", "/etc/x", "a b", "...", "~", "*", &long];
    let mut written = Written::new();
    let mut logs = std::collections::BTreeSet::new();
    for queue in forms.iter().chain(&paths) {
        written.declare(queue, &settings(500), None);
        let id = written.catalogue.get(&name(queue)).unwrap().id;
        let log = logs::queue(id, crate::api::Band::DEFAULT);
        assert!(log.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'/')), "{log}");
        assert!(logs.insert(log), "{queue} shares a directory");
    }
    assert_eq!(written.load().unwrap(), written.catalogue);
    for bad in ["", ".", "..", "a\0b", "a\nb", "\u{85}", &"x".repeat(256), &"é".repeat(128)] {
        assert!(QueueName::new(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn there_are_only_so_many_queues() {
    let mut catalogue = Catalogue::new(format()).unwrap();
    for number in 0..QUEUES_MAX {
        let planned = catalogue.plan_declare(&name(&number.to_string()), &settings(500), None, 0);
        catalogue.apply(&planned.unwrap().1.unwrap()).unwrap();
    }
    let more = catalogue.plan_declare(&name("more"), &settings(500), None, 0);
    assert_eq!(more.unwrap_err().kind(), FaultKind::Invalid);
    assert!(catalogue.plan_declare(&name("7"), &settings(600), Some(1), 0).is_ok());
}
