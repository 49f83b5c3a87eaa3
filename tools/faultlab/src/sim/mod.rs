//! Crashes at every operation of the simulated file system, and checks of what is left against an oracle.
//!
//! What must hold is said by panics: [`caught`] turns one into a violation, and [`case`] into a file that replays it.
pub mod acts;
pub mod aloud;
pub mod case;
pub mod caught;
pub mod checks;
pub mod commits;
pub mod constructed;
pub mod crash;
pub mod explore;
pub mod faults;
pub mod lives;
pub mod oracle;
pub mod planted;
pub mod pool;
pub mod pressure;
pub mod random;
pub mod reuse;
pub mod rot;
pub mod rules;
pub mod scripts;
pub mod shown;
pub mod shrink;
pub mod spares;
pub mod weather;
pub mod world;

#[cfg(test)]
use commits::CommitPath;
use explore::Plan;

/// Every plan.
pub fn all() -> impl Iterator<Item = &'static Plan> {
    scripts::PLANS.iter().chain(pool::PLANS)
}

/// The plan of this name, if there is one.
pub fn find(name: &str) -> Option<Plan> {
    all().find(|plan| plan.name == name).copied()
}

/// The plan of this name; panics if there is none.
pub fn plan(name: &str) -> Plan {
    find(name).unwrap_or_else(|| panic!("no plan {name}"))
}

/// Explores a plan that must hold, and prints what was tried. `PLIMSOLL_CRASH_FULL=1` leaves nothing out.
#[cfg(test)]
fn must_hold(plan: Plan) {
    let effort = explore::Effort { full: explore::full(), seed: 7 };
    for path in CommitPath::BOTH {
        match path.on(|| explore::explore(plan, effort)) {
            Ok(stats) => println!("{}, {path}: {}", plan.name, stats.words(effort)),
            Err(failure) => panic!(
                "{path}: {}\nafter {} states; in a file, for `faultlab replay`:\n{}",
                failure.what,
                failure.stats.states,
                case::of_plan(plan.name, path, None, &failure)
            ),
        }
    }
}

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
            for plan in all() {
                assert!(tried.contains(&plan.name), "plan {} is not tried", plan.name);
            }
        }
    };
}

plans! {
    first_start
    checkpoint_in_a_commit
    append_first
    append_single
    append_batch
    append_shared
    roll_batch
    roll_single
    truncate
    idle_swap
    idle_swap_in_place
    truncate_partly
    truncate_staged
    delete
    delete_in_a_folder
    idle_checkpoint
    close
    recovery_of_a_torn_batch
    recovery_of_a_roll
    heal_write
    heal_short_write
    heal_sync
    heal_sync_that_reached_some
    heal_in_a_roll
    heal_rename
    heal_rename_that_was_done
    reopen_after_a_failed_heal
    heal_dir_sync
    heal_spares_dir_sync
    heal_checkpoint_sync
    heal_in_place
    heal_at_open
    heal_waits
    heal_on_a_full_disk
    short_write
    append_over_a_torn_record
    recovery_that_zeroes
    heal_at_a_blocks_end
    leftovers_of_another_log
    leftovers_of_an_earlier_use
    checkpoint_of_an_earlier_use
    file_under_another_name
    payload_that_is_a_record
    pool_give_up
    pool_give_up_fails
    pool_stamp_given_up
    pool_stamp_ready
    pool_stamp_moved_in_the_cache
    pool_reuse
    pool_reuse_by_the_same_log
    pool_roll_into_reused
    pool_reserved_ahead
    pool_trailing_given_back
    pool_made_ahead
    pool_kept_back_is_filled_again
    pool_last_generation_1
    pool_last_generation_3
    pool_no_generation_left
    pool_released
    pool_heal_into_reused
}
