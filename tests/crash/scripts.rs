//! The lives that are crashed: one plan for each kind of operation.

use super::explore::Plan;
use super::world::{SIZES, World};

fn empty() -> World {
    World::new(1, SIZES)
}

/// A log with one record, its file open and durable.
fn one_record() -> World {
    let mut world = empty();
    world.start();
    world.open("a");
    world.append("a", &[512]);
    world.close();
    world.fork()
}

/// A log with three files of rising class, the last with some room.
fn three_files() -> World {
    let mut world = empty();
    world.start();
    world.open("a");
    for _ in 0..7 {
        world.append("a", &[1024, 1024]);
    }
    world.close();
    world.fork()
}

pub(crate) const PLANS: &[Plan] = &[
    Plan::new("append_first", empty, |world| {
        world.start();
        world.open("a");
        world.append("a", &[512]);
    }),
    Plan::new("append_single", one_record, |world| {
        world.start();
        world.open("a");
        world.append("a", &[512]);
        world.append("a", &[200]);
        world.append("a", &[513]);
    }),
    Plan::new("append_batch", one_record, |world| {
        world.start();
        world.open("a");
        world.append("a", &[512, 512, 512]);
        world.append("a", &[1024, 100, 512]);
    }),
    Plan::new("append_shared", one_record, |world| {
        world.start();
        world.open("a");
        let first = world.stage("a", &[512]);
        let second = world.stage("a", &[512, 512]);
        second.map(|staged| world.settle(staged));
        first.map(|staged| world.settle(staged));
    }),
    Plan::new("roll_batch", one_record, |world| {
        world.start();
        world.open("a");
        // From the tiny file over the small one into a main one.
        world.append("a", &[1024; 14]);
    }),
    Plan::new("roll_single", one_record, |world| {
        world.start();
        world.open("a");
        for _ in 0..5 {
            world.append("a", &[3000]);
        }
    }),
];

/// The plan of this name.
pub(crate) fn plan(name: &str) -> Plan {
    *PLANS.iter().find(|plan| plan.name == name).unwrap_or_else(|| panic!("no plan {name}"))
}
