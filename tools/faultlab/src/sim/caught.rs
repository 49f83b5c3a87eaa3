//! Violations are panics; this turns one into its words, without the noise.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Panics of other threads and outside [`caught`] are printed as before.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
}

/// Runs `run`; gives the message if it panics.
pub fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    install();
    let before = QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    QUIET.set(before);
    result.map_err(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().map_or("a panic", |text| text).to_owned(),
    })
}

/// A violation in one line, without what the macro says of itself.
pub fn first_line(what: &str) -> String {
    let line = what.lines().next().unwrap_or_default();
    if line.starts_with("assertion ") && line.ends_with(" failed") {
        // It has no words of its own: what was compared says more than nothing.
        let compared = what.lines().skip(1).map(str::trim);
        return compared.take(2).collect::<Vec<_>>().join(", ");
    }
    match line.split_once("` failed: ") {
        Some((before, rest)) if before.starts_with("assertion ") => rest.to_owned(),
        _ => line.to_owned(),
    }
}

/// What two violations have in common that are of one kind: the invariant if one is named, or else the words without the
/// numbers.
pub fn kind_of(what: &str) -> String {
    let line = first_line(what);
    if let Some((id, _)) = line.split_once(':')
        && id.starts_with('I')
        && id.len() < 4
    {
        return id.to_owned();
    }
    let mut words = String::new();
    for letter in line.chars().take(60) {
        match letter {
            '0'..='9' if words.ends_with('#') => {}
            '0'..='9' => words.push('#'),
            _ => words.push(letter),
        }
    }
    words
}

#[test]
fn violations_of_one_kind_are_told_by_their_invariant() {
    assert_eq!(kind_of("assertion `left == right` failed: I3: log a: 1\n left: 1"), "I3");
    assert_eq!(kind_of("I1: log a: record 3"), kind_of("I1: log b: record 17"));
    assert_eq!(kind_of("log a takes 512 bytes"), "log a takes # bytes");
}
