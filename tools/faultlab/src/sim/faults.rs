//! Lets each call of a script fail in each way, once; then the life goes on, and ends in every kind of crash.

use super::caught::caught;
use super::crash::Crash;
use super::explore::Plan;
use super::world::World;
use plimsoll::error::Stopped;
use plimsoll::fs::sim::{Fault, OpKind, Reached, What};

/// What can go wrong at a call of this kind.
fn ways(kind: OpKind) -> Vec<What> {
    let mut ways = vec![What::Errno(libc::EIO)];
    match kind {
        OpKind::Sync => {
            ways.extend(
                [Reached::Everything, Reached::Some(11)]
                    .map(|reached| What::FailedSync { errno: libc::EIO, reached }),
            );
            ways.extend([What::FailedSync { errno: libc::ENOSPC, reached: Reached::Nothing }]);
            ways.push(What::DoneThen(libc::EIO));
        }
        OpKind::Write => ways.extend([
            What::Errno(libc::ENOSPC),
            What::Short(0),
            What::Short(100),
            What::Short(700),
            What::Interrupted,
            What::DoneThen(libc::EIO),
        ]),
        OpKind::Read => ways.extend([What::Short(1), What::Short(100), What::Interrupted]),
        OpKind::Create | OpKind::CreateDir | OpKind::Rename => {
            ways.extend([What::Errno(libc::ENOSPC), What::DoneThen(libc::EIO)]);
        }
        OpKind::RemoveFile | OpKind::RemoveDir | OpKind::SyncDir | OpKind::SetLen => {
            ways.push(What::DoneThen(libc::EIO));
        }
        OpKind::Open => ways.extend([What::Errno(libc::EMFILE), What::Errno(libc::ENFILE)]),
        OpKind::Allocate => ways.extend([What::Errno(libc::ENOSPC), What::Errno(libc::EINTR)]),
        _ => {}
    }
    ways
}

/// With nothing broken any more, every log goes on, or has said that it must be opened again and goes on then.
pub fn goes_on(world: &mut World) {
    world.mend();
    if !world.is_up() {
        world.start();
    }
    for log in world.oracle.names() {
        world.open(&log);
        match world.log(&log).stopped() {
            None => {}
            Some(Stopped::Failed(_)) => panic!("log {log}: opening did not open it again"),
            // Nothing can be promised of what could not be read or written at open; the next start can.
            Some(Stopped::ReadOnly(_)) => {
                world.start();
                world.open(&log);
            }
            Some(other) => panic!("I4: log {log}: {other}"),
        }
        world.read(&log);
        if !world.append(&log, &[512]) {
            // A second failure in a row: it says so, and opening it again is the cure.
            let stopped = world.log(&log).stopped();
            assert!(
                matches!(stopped, Some(Stopped::Failed(_))),
                "log {log} does not go on: {stopped:?}"
            );
            world.open(&log);
            world.read(&log);
            world.must_append(&log, &[512]);
        }
        world.read(&log);
    }
}

fn crashes() -> [Crash; 6] {
    [Crash::Death, Crash::Evict, Crash::All, Crash::Nothing, Crash::Seed(1), Crash::Seed(2)]
}

/// Lets every call of the plan's script fail; gives how much was tried: calls, faults, states.
pub fn survive(plan: &Plan) -> (usize, usize, usize) {
    let base = (plan.prepare)();
    let mut trial = base.fork();
    trial.fs.record(true);
    (plan.script)(&mut trial);
    let trace = trial.fs.trace();
    let (mut faults, mut states) = (0, 0);
    for op in &trace {
        for what in ways(op.kind) {
            faults += 1;
            let run = |crash: Option<&Crash>, then_on: bool| {
                let mut world = base.fork();
                world.faulty = true;
                world.fs.inject(Fault::at_op(op.number, what));
                (plan.script)(&mut world);
                if then_on {
                    goes_on(&mut world);
                }
                world.abandon();
                if let Some(crash) = crash {
                    crash.strike(&world.fs);
                    world.fs.clear_faults();
                    world.faulty = false;
                    super::explore::settle(&mut world);
                }
            };
            let mut check = |crash: Option<&Crash>, then_on: bool| {
                states += 1;
                if let Err(violation) = caught(|| run(crash, then_on)) {
                    let (kind, path) = (op.kind, op.path.display());
                    panic!(
                        "{violation}\n{}: call {} ({kind:?} {path}) with {what:?}, goes on: {then_on}, {crash:?}",
                        plan.name, op.number
                    );
                }
            };
            check(None, true);
            for crash in &crashes() {
                check(Some(crash), false);
                check(Some(crash), true);
            }
        }
    }
    (trace.len(), faults, states)
}

macro_rules! survives {
    ($($test:ident: $plan:literal;)*) => {
        $(
            #[test]
            fn $test() {
                let (calls, faults, states) = survive(&super::plan($plan));
                println!("{}: {calls} calls, {faults} faults, {states} states", $plan);
            }
        )*
    };
}

survives! {
    every_call_of_a_first_start_may_fail: "first_start";
    every_call_of_a_first_append_may_fail: "append_first";
    every_call_of_an_append_may_fail: "append_batch";
    every_call_of_a_roll_may_fail: "roll_batch";
    every_call_of_a_truncation_may_fail: "truncate";
    every_call_of_a_staged_truncation_may_fail: "truncate_staged";
    every_call_of_a_swap_may_fail: "idle_swap";
    every_call_of_a_swap_in_place_may_fail: "idle_swap_in_place";
    every_call_of_a_deletion_may_fail: "delete";
    every_call_of_a_checkpoint_may_fail: "idle_checkpoint";
    every_call_of_a_close_may_fail: "close";
    every_call_of_a_recovery_may_fail: "recovery_of_a_torn_batch";
    every_call_of_a_recovery_of_a_roll_may_fail: "recovery_of_a_roll";
    every_call_of_a_recovery_that_zeroes_may_fail: "recovery_that_zeroes";
    every_call_of_giving_up_may_fail: "pool_give_up";
    every_call_of_stamping_what_was_given_up_may_fail: "pool_stamp_given_up";
    every_call_of_stamping_what_only_the_cache_moved_may_fail: "pool_stamp_moved_in_the_cache";
    every_call_of_a_roll_into_a_reused_file_may_fail: "pool_roll_into_reused";
    every_call_of_reserving_ahead_may_fail: "pool_reserved_ahead";
    every_call_of_a_recovery_that_gives_back_may_fail: "pool_trailing_given_back";
    every_call_of_making_ahead_may_fail: "pool_made_ahead";
    every_call_of_filling_what_is_kept_back_may_fail: "pool_kept_back_is_filled_again";
    every_call_of_the_last_generation_may_fail: "pool_last_generation_3";
    every_call_of_releasing_may_fail: "pool_released";
}
