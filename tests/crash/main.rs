//! Crashes at every operation of the simulated file system, and checks of what is left against an oracle.
//!
//! `PLIMSOLL_CRASH_FULL=1` tries every second crash too; a failing state is printed with what replays it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "not the engine: a test"
)]

mod explore;
mod oracle;
mod scripts;
mod world;

use explore::must_hold;
use scripts::plan;

macro_rules! plans {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                must_hold(plan(stringify!($name)));
            }
        )*

        #[test]
        fn every_plan_is_tried() {
            let tried = [$(stringify!($name)),*];
            for plan in scripts::PLANS {
                assert!(tried.contains(&plan.name), "plan {} is not tried", plan.name);
            }
        }
    };
}

plans! {
    append_first
    append_single
    append_batch
    append_shared
    roll_batch
    roll_single
}

/// Replays what a failing test printed.
#[test]
fn replay() {
    let Ok(how) = std::env::var("PLIMSOLL_CRASH_REPLAY") else { return };
    let words: Vec<&str> = how.split_whitespace().collect();
    let (name, rest) = words.split_first().expect("the name of a plan");
    explore::replay(&plan(name), rest).expect("a point and a crash");
}
