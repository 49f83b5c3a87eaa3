//! The trace checker on small traces: the right one passes, and each rule taken out is found.

use super::trace::{check, parse};

const GOOD: &str = r#"
1 mkdir("/d/logs/a", 0750) = 0
1 fsync(4</d/logs>) = 0
1 openat(AT_FDCWD</x>, "/d/spares/1.seg", O_RDWR|O_CREAT, 0640) = 5</d/spares/1.seg>
1 rename("/d/spares/1.seg", "/d/logs/a/0.seg") = 0
1 fsync(6</d/logs/a>) = 0
1 fsync(7</d/spares>) = 0
2 pwrite64(5</d/logs/a/0.seg>, "\0\1@a#1@xyz\0", 4096, 8192) = 4096
2 fdatasync(5</d/logs/a/0.seg> <unfinished ...>
3 pwrite64(9</d/logs/b/0.seg>, "@b#1@", 5, 0) = 5
2 <... fdatasync resumed>) = 0
2 write(1<pipe:[7]>, "ack a 1 0\n", 10) = 10
2 +++ exited with 0 +++
"#;

fn rules(trace: &str) -> Vec<&'static str> {
    check(trace, "/d").violations.iter().map(|violation| violation.rule).collect()
}

/// The good trace with one text in the place of another.
#[track_caller]
fn changed(from: &str, to: &str) -> Vec<&'static str> {
    assert!(GOOD.contains(from), "{from}");
    rules(&GOOD.replace(from, to))
}

#[test]
fn the_right_order_passes() {
    let checked = check(GOOD, "/d");
    assert_eq!((checked.acks, checked.writes, checked.syncs), (1, 2, 4));
    assert!(checked.violations.is_empty(), "{:?}", checked.violations);
}

#[test]
fn a_lying_sync_is_found() {
    assert_eq!(changed("resumed>) = 0", "resumed>) = 0 (INJECTED)"), ["not synced"]);
}

#[test]
fn a_failed_or_missing_sync_is_found() {
    assert_eq!(changed("resumed>) = 0", "resumed>) = -1 EIO (Input/output error)"), ["not synced"]);
    assert_eq!(
        changed("fdatasync(5</d/logs/a/0.seg>", "fdatasync(5</d/logs/b/0.seg>"),
        ["not synced"]
    );
}

#[test]
fn a_sync_that_is_tried_again_after_an_error_proves_nothing() {
    let again = "resumed>) = -1 EIO (Input/output error)\n2 fdatasync(5</d/logs/a/0.seg>) = 0";
    assert_eq!(changed("resumed>) = 0", again), ["not synced"]);
}

#[test]
fn an_answer_before_the_sync_came_back_is_found() {
    let early = "3 write(1<pipe:[7]>, \"ack a 1 0\\n\", 10) = 10\n2 <... fdatasync resumed>) = 0";
    assert_eq!(changed("2 <... fdatasync resumed>) = 0", early), ["not synced"]);
}

#[test]
fn a_sync_that_began_before_the_write_was_over_is_found() {
    let trace = "1 pwrite64(5</d/f>, \"@a#1@\", 5, 0 <unfinished ...>
2 fdatasync(5</d/f>) = 0
1 <... pwrite64 resumed>) = 5
1 write(1<p>, \"ack a 1 0\\n\", 10) = 10";
    assert_eq!(rules(trace), ["not synced"]);
}

#[test]
fn a_record_that_is_in_no_write_is_found() {
    assert_eq!(changed("@a#1@", "@a#2@"), ["never written"]);
    assert_eq!(changed("@a#1@", "@a#11@"), ["never written"]);
    let elsewhere = changed("pwrite64(5</d/logs/a/0.seg>", "pwrite64(5</tmp/x>");
    assert_eq!(elsewhere, ["never written"]);
}

#[test]
fn a_directory_that_was_not_synced_is_found() {
    assert_eq!(changed("fsync(6</d/logs/a>) = 0", ""), ["name not synced"]);
    assert_eq!(changed("fsync(7</d/spares>) = 0", ""), ["name not synced"]);
    assert_eq!(changed("fsync(4</d/logs>) = 0", ""), ["name not synced"]);
    assert_eq!(
        changed("fsync(6</d/logs/a>) = 0", "fsync(6</d/logs/a>) = 0 (INJECTED)"),
        ["name not synced"]
    );
    // Before the rename it says nothing about the name.
    let early = GOOD.replace("1 fsync(6</d/logs/a>) = 0\n", "");
    let early = early.replace("1 rename(", "1 fsync(6</d/logs/a>) = 0\n1 rename(");
    assert_eq!(rules(&early), ["name not synced"]);
}

#[test]
fn a_record_written_again_into_another_file_counts_there() {
    let healed = r#"
1 pwrite64(5</d/a>, "@a#1@", 5, 0) = 5
1 fdatasync(5</d/a>) = -1 EIO (Input/output error) (INJECTED)
1 pwrite64(6</d/b>, "@a#1@", 5, 0) = 5
1 fdatasync(6</d/b>) = 0
1 write(1<p>, "ack a 1 0\n", 10) = 10
"#;
    assert_eq!(rules(healed), [""; 0]);
}

#[test]
fn a_file_that_is_written_again_after_a_failure_is_found() {
    let again = r#"
1 pwrite64(5</d/a>, "@a#1@", 5, 0) = 5
1 fdatasync(5</d/a>) = -1 EIO (Input/output error) (INJECTED)
1 rename("/d/a", "/d/b") = 0
1 pwrite64(5</d/b>, "@a#2@", 5, 0) = 5
1 pwrite64(5</d/b>, "@a#3@", 5, 0) = 5
"#;
    assert_eq!(rules(again), ["failed file written again"]);
    let failed = again.replace("fdatasync(5</d/a>)", "pwrite64(5</d/a>, \"x\", 1, 0)");
    assert_eq!(rules(&failed), ["failed file written again"]);
    let open = "1 openat(AT_FDCWD</x>, \"/d/b\", O_RDWR) = 7</d/b>\n1 pwrite64(5</d/b>, \"@a#2@";
    assert_eq!(rules(&again.replace("1 pwrite64(5</d/b>, \"@a#2@", open)), [""; 0]);
    // Another file of the name is another file.
    let new = again.replace("rename(\"/d/a\", \"/d/b\")", "unlink(\"/d/a\")");
    assert_eq!(rules(&new.replace("/d/b", "/d/a")), [""; 0]);
    assert_eq!(rules(&again.replace("-1 EIO (Input/output error) (INJECTED)", "0")), [""; 0]);
}

#[test]
fn a_write_that_is_its_own_sync_counts() {
    let trace = "1 pwritev2(5</d/a>, [{iov_base=\"@a#1@\", iov_len=5}], 1, 0, RWF_DSYNC) = 5
1 write(1<p>, \"ack a 1 0\\n\", 10) = 10";
    assert_eq!(rules(trace), [""; 0]);
    assert_eq!(rules(&trace.replace("RWF_DSYNC", "0")), ["not synced"]);
}

#[test]
fn calls_are_counted_by_thread_and_paths_are_found() {
    let calls = parse(
        "1 openat(AT_FDCWD</x>, \"rel\", O_RDONLY) = 3</x/rel>
1 openat(4</d>, \"logs\", O_RDONLY) = -1 ENOSPC (No space left on device) (INJECTED)
2 openat(AT_FDCWD</x>, \"/d/a, \\\"b\", O_RDONLY) = 3</d/a, b>
1 renameat(4</d>, \"a\", 5</e>, \"b\") = 0
1 --- SIGCHLD {si_signo=SIGCHLD} ---",
    );
    let seen: Vec<_> =
        calls.iter().map(|call| (call.thread, call.nth, call.is_inside("/d"))).collect();
    assert_eq!(seen, [(1, 1, false), (1, 2, true), (2, 1, true), (1, 1, true)]);
    assert_eq!(calls[1].paths(), ["/d/logs"]);
    assert_eq!(calls[3].paths(), ["/d/a", "/e/b"]);
    assert!(calls[1].injected() && !calls[0].injected());
}

#[test]
fn a_write_that_syncs_itself_speaks_for_itself_alone() {
    let durable = "pwritev2(5</d/logs/a/0.seg>, [{iov_base=\"@a#1@\", iov_len=4096}], 1, 8192, RWF_DSYNC) = 4096\n2 ";
    let good = GOOD.replace("2 fdatasync(5</d/logs/a/0.seg> <unfinished ...>\n", "");
    let good = good.replace("2 <... fdatasync resumed>) = 0\n", "");
    assert_eq!(rules(&good), ["not synced"]);
    let by_itself = good.replace("pwrite64(5<", &format!("{durable}pwrite64(6<"));
    let (before, after) = by_itself.split_once("2 pwrite64(6<").unwrap();
    let by_itself = format!("{before}{}", after.split_once('\n').unwrap().1);
    assert!(rules(&by_itself).is_empty(), "{by_itself}");
    assert_eq!(rules(&by_itself.replace("RWF_DSYNC", "0")), ["not synced"]);
    assert_eq!(rules(&by_itself.replace(") = 4096", ") = -1 EIO (x)")), ["never written"]);
    // Another record's, in the same file, later.
    let other = durable.replace("@a#1@", "@a#2@");
    assert_eq!(
        rules(&good.replace("3 pwrite64", &format!("2 {other}\n3 pwrite64"))),
        ["not synced"]
    );
}
