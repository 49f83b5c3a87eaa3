//! Checks that need no crash: damage, and staging that is full.

use super::constructed::segment;
use super::scripts::empty;
use super::world::World;
use plimsoll::error::{Damage, Stopped};
use plimsoll::format::layout::ClassSizes;
use plimsoll::format::{RECORDS_POSITION, WINDOW};
use plimsoll::fs::sim::NothingPersisted;

/// What the log `a` says after a restart that finds damage.
fn damage(world: &World) -> Option<Damage> {
    let mut world = world.fork();
    world.faulty = true;
    world.start();
    world.open("a");
    match world.log("a").stopped() {
        Some(Stopped::Damaged(damage)) => Some(damage),
        None => None,
        Some(other) => panic!("neither damaged nor open: {other}"),
    }
}

/// I4, B4: a flipped byte in the middle of the live file is damage, as later records say that it was durable.
pub fn damage_in_the_middle() {
    let mut world = empty();
    world.start();
    world.open("a");
    for _ in 0..7 {
        world.append("a", &[512]);
    }
    let world = world.fork();
    world.fs.flip(segment("a", 0), 8192 + 2 * 512 + 100, 1).unwrap();
    let damage = damage(&world).expect("the damage is seen");
    assert_eq!((damage.position, damage.offset.map(|offset| offset.0)), (8192 + 1024, Some(2)));
}

/// I4: a flipped bit of a header is damage, also in a field of which any value is legal.
pub fn a_flipped_header() {
    let mut world = empty();
    world.start();
    world.open("a");
    world.append("a", &[512]);
    let world = world.fork();
    // In the time of creation.
    world.fs.flip(segment("a", 0), 33, 1).unwrap();
    let damage = damage(&world).expect("the damage is seen");
    assert_eq!(damage.position, 508);
}

/// I4, I8: of damage so long that no record is left behind it within the window only a checkpoint can tell: what was further
/// than the window from the end is not taken for a torn tail, so that its offsets are not given out again.
pub fn damage_longer_than_the_window() {
    const RECORD: usize = 24 * 1024;
    let main = 8 << 20;
    let mut world = World::new(1, ClassSizes { tiny: 65536, small: 65536, main });
    world.start();
    world.open("a");
    while world.log("a").segments().last().is_none_or(|last| last.capacity < 4 << 20) {
        world.append("a", &[RECORD]);
    }
    let base = world.log("a").segments().pop().expect("a file").base.0;
    let window = WINDOW / RECORD as u64;
    while world.log("a").durable().0 < base + window * 2 {
        world.append("a", &[RECORD; 8]);
    }
    assert_eq!(world.log("a").segments().pop().expect("a file").base.0, base);
    let far = world.log("a").durable().0 - window - 1;
    let mut world = world.fork();
    world.fs.power_cut(&mut NothingPersisted);
    world.fs.zero(segment("a", base), RECORDS_POSITION + WINDOW / 4..main).unwrap();
    world.faulty = true;
    world.start();
    world.open("a");
    let next = world.log("a").durable().0;
    match world.log("a").stopped() {
        Some(Stopped::Damaged(_)) => {}
        _ => assert!(next >= far, "I8: {next} is next, and {far} was vouched for"),
    }
}

/// An append that finds staging full commits by itself, and waits for nobody.
pub fn staging_is_full() {
    let mut world = World::new(1, ClassSizes::from_main(8 << 20));
    world.start();
    world.open("a");
    let staged: Vec<_> = (0..300).map(|_| world.stage("a", &[16 * 1024])).collect();
    for staged in staged {
        assert!(world.settle(staged.expect("it was staged")));
    }
    world.read("a");
}

#[test]
fn i4_damage_in_the_middle() {
    damage_in_the_middle();
}

#[test]
fn i4_damage_longer_than_the_window() {
    for path in super::commits::CommitPath::BOTH {
        path.on(damage_longer_than_the_window);
    }
}

#[test]
fn i4_a_flipped_header() {
    a_flipped_header();
}

#[test]
fn append_leads_when_staging_is_full() {
    staging_is_full();
}
