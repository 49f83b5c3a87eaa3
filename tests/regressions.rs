//! Replays what the fuzz targets once found, and their corpora, without a fuzzer; and runs some random inputs besides.
//!
//! Each file below `tests/regressions/<target>/` is an input, as libFuzzer writes it. `fuzz/README.md` says how to find
//! more. `PLIMSOLL_RANDOM_INPUTS` sets how many random inputs are tried, from `PLIMSOLL_RANDOM_SEED` on.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, missing_docs)]
#![allow(clippy::cast_possible_truncation, reason = "bytes made from numbers")]
#![allow(
    unreachable_pub,
    reason = "what is shared with the fuzz targets is a module of a library there"
)]

#[path = "../fuzz/src/directory.rs"]
mod directory;
#[path = "../fuzz/src/operations.rs"]
mod operations;

use arbitrary::{Arbitrary, Unstructured};
use std::path::Path;

/// Runs one input as the fuzz target does; panics if the input is no good.
fn run<'a, T: Arbitrary<'a>>(bytes: &'a [u8], run: impl FnOnce(&T)) {
    run(&T::arbitrary_take_rest(Unstructured::new(bytes)).unwrap());
}

fn replay(target: &str, run: fn(&[u8])) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut inputs = Vec::new();
    for dir in [root.join("tests/regressions"), root.join("fuzz/seeds")] {
        let Ok(entries) = std::fs::read_dir(dir.join(target)) else { continue };
        inputs.extend(entries.map(|entry| entry.unwrap().path()));
    }
    inputs.sort();
    assert!(!inputs.is_empty(), "no inputs for {target}");
    inputs.iter().for_each(|input| tried(&input.display(), &std::fs::read(input).unwrap(), run));
}

fn random(run: fn(&[u8])) {
    let number = |name: &str, default| {
        std::env::var(name).map_or(default, |text| text.parse::<u64>().unwrap())
    };
    let first = number("PLIMSOLL_RANDOM_SEED", 0);
    for seed in first..first + number("PLIMSOLL_RANDOM_INPUTS", 100) {
        tried(&format_args!("random seed {seed}"), &random_bytes(seed), run);
    }
}

/// Says which input it was when one fails.
fn tried(name: &dyn std::fmt::Display, bytes: &[u8], run: fn(&[u8])) {
    if let Err(panic) = std::panic::catch_unwind(|| run(bytes)) {
        eprintln!("failed: {name}");
        if let Some(dir) = std::env::var_os("PLIMSOLL_RANDOM_SAVE") {
            let file = name.to_string().replace(['/', ' '], "-");
            std::fs::write(Path::new(&dir).join(file), bytes).unwrap();
        }
        std::panic::resume_unwind(panic);
    }
}

/// Bytes by a seed: mostly small numbers, which mean more.
fn random_bytes(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    };
    let len = 16 + step() % 700;
    (0..len).map(|_| step() as u8).collect()
}

fn operations(bytes: &[u8]) {
    run(bytes, operations::run);
}

fn directories(bytes: &[u8]) {
    run(bytes, directory::run);
}

#[test]
fn directories_that_once_failed_and_the_corpus() {
    replay("recover_dir", directories);
}

#[test]
fn random_directories_open_again_as_before() {
    random(directories);
}

#[test]
fn operations_that_once_failed_and_the_corpus() {
    replay("operations", operations);
}

#[test]
fn random_operations_keep_the_invariants() {
    random(operations);
}

/// The checks are worth something only if they notice a broken engine. Those left out need rot, or reuse of files, which
/// these operations do not do, or are too rare for a test of this length.
#[cfg(debug_assertions)]
#[test]
fn random_operations_notice_planted_faults() {
    use plimsoll::planted::{self, Fault};
    let found = |fault| {
        (0..200).any(|seed| {
            let bytes = random_bytes(seed);
            let run = || planted::with(fault, || operations(&bytes));
            std::panic::catch_unwind(run).is_err()
        })
    };
    let noticed = [
        Fault::NamesNotSyncedAtOpen,
        Fault::TailNotWrittenAgain,
        Fault::FirstCommitWithoutHeader,
        Fault::FirstCommitWithoutDirectory,
        Fault::FirstCommitWithoutSparesDirectory,
        Fault::NewHeaderBeforeOldSync,
        Fault::TruncateInAnyOrder,
        Fault::ConfirmedBeforeSync,
        Fault::SyncRetried,
        Fault::OffsetsRestartWhenEmpty,
        Fault::ShortWriteTakenAsWhole,
    ];
    for fault in noticed {
        assert!(found(fault), "{fault:?} goes unnoticed");
    }
}
