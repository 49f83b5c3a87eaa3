//! What happens to the free space of a node in random lives where levels have an effect: it falls and rises, in bytes and in
//! inodes; the call that asks for it fails, hangs or lies; limits change; clocks jump. And what must hold then.

use super::random::Random;
use super::spares::space;
use super::world::World;
use plimsoll::fs::Space;
use plimsoll::fs::sim::{Fault, OpKind, Then, What, When};
use plimsoll::types::Fraction;
use plimsoll::{Level, Limited, Limits, Size, WriteClass};
use std::time::Duration;

/// Changes one thing, and looks at what follows from it.
pub fn change(world: &mut World, random: &mut Random) {
    if world.dead() || !world.is_up() {
        return;
    }
    match random.below(12) {
        // From plenty to nothing; what is told need not be so.
        0..=3 => {
            let thousandths = random.one_of(&[0, 5, 15, 40, 60, 80, 110, 150, 300, 500]);
            let available = space().total / 1_000 * thousandths;
            world.say(format_args!("{thousandths} thousandths are said to be free"));
            world.fs.set_space(Some(Space { available, ..space() }));
        }
        4 => {
            let inodes_available = random.one_of(&[0, 3, 12_000, 60_000, 1 << 19]);
            world.fs.set_space(Some(Space { inodes_available, ..space() }));
        }
        5 => {
            let lies = [
                Space::default(),
                Space { available: u64::MAX, inodes_available: u64::MAX, ..space() },
                Space { total: u64::MAX, available: u64::MAX, ..space() },
            ];
            world.fs.set_space(Some(random.one_of(&lies)));
        }
        6 => {
            world.say(format_args!("free space cannot be asked for"));
            let at = When::Nth(OpKind::Space, random.below(3));
            let then = random.one_of(&[Then::Once, Then::Forever]);
            world.fs.inject(Fault { then, ..Fault::new(at, What::Errno(libc::EIO)) });
        }
        // Nobody samples for so long, as while a call hangs.
        7 => world.clock.advance(Duration::from_secs(random.one_of(&[1, 4, 6, 40]))),
        8 => world.clock.set_wall(random.one_of(&[0, 1, 1_700_000_000_000, 4_000_000_000_000])),
        9 => {
            world.options.limits = limits(random, world.options.limits.clone());
            if let Err(error) = world.node().set_limits(world.options.limits.clone()) {
                panic!("limits are refused: {error}");
            }
        }
        10 => {
            let quota = What::Errno(libc::EDQUOT);
            world.inject(Fault::new(When::Charge(random.below(40)), quota));
        }
        _ => {
            world.fs.set_space(None);
            world.clock.advance(Duration::from_secs(1));
            world.work();
        }
    }
    if random.below(2) == 0 {
        world.clock.advance(Duration::from_secs(1));
        world.work();
        looks_right(world);
    }
}

/// Limits that pass as a whole: lines at other places, and delays of nothing to a second.
fn limits(random: &mut Random, old: Limits) -> Limits {
    let mut limits = Limits { pool: old.pool, ..Limits::default() };
    let hard = 2 + random.below(20);
    let percent = |percent: u64| Fraction::percent(u32::try_from(percent).unwrap());
    limits.disk.soft.share = percent(hard + 1 + random.below(30));
    limits.disk.hard.share = percent(hard);
    limits.disk.clear = percent(1 + random.below(5));
    for line in [&mut limits.disk.soft, &mut limits.disk.hard, &mut limits.disk.reserve] {
        line.floor = Size(0);
    }
    limits.slow.max_delay = Duration::from_millis(random.one_of(&[0, 50, 1_000]));
    limits
}

/// A refusal for pressure: only of what may be refused, and for a level that refuses it, or for want of room for a file.
pub fn may_refuse(world: &World, limited: &Limited) {
    assert!(world.pressure, "a refusal where levels have no effect: {limited}");
    let from = limited.class.refused_from();
    assert!(from.is_some(), "what frees space, or keeps the node going, is refused: {limited}");
    let hint = limited.retry_after;
    let spread = Duration::from_secs(1)..=Duration::from_millis(37_500);
    assert!(spread.contains(&hint), "a hint of {hint:?}");
    // What waits for its turn is bounded, too: then a publish is refused at soft.
    let explained = Some(limited.level) >= from
        || limited.class == WriteClass::Publish && limited.level == Level::Soft
        || limited.threshold >= limited.free
        || limited.detail.contains("needs a new file");
    assert!(explained, "refused for nothing: {limited:?}");
}

/// The node says of itself what it does: levels, items and admission agree.
fn looks_right(world: &World) {
    if !world.is_up() || world.dead() {
        return;
    }
    world.say(format_args!("{:?}", world.node().attention()));
    let node = world.node();
    let pressure = node.pressure();
    let items = node.attention();
    let short = pressure.disks.iter().filter(|disk| disk.level > Level::Ok).count();
    assert_eq!(items.len(), short, "{items:?}, {:?}", pressure.disks);
    for disk in &pressure.disks {
        let lines = disk.thresholds;
        assert!(lines.soft >= lines.hard && lines.hard >= lines.reserve, "{lines:?}");
        assert!(disk.free <= disk.total && disk.permille <= 1_000, "{disk:?}");
        let above = disk.free > lines.soft.saturating_add(lines.clear);
        let inodes = disk
            .inode_thresholds
            .is_none_or(|lines| disk.inodes_available > lines.soft.saturating_add(lines.clear));
        let sampled = disk.age.is_some_and(|age| age <= Duration::from_secs(5));
        let known = sampled && disk.reason != plimsoll::pressure::DiskReason::SampleOld;
        let failed = matches!(disk.reason, plimsoll::pressure::DiskReason::SampleFailed { .. });
        if above && inodes && known && !failed && !disk.no_space {
            assert_eq!(disk.level, Level::Ok, "enough is free: {disk:?}");
        }
    }
}

/// Nothing is broken any more, and there is room: within a sample every level is ok, and publishes are admitted.
pub fn clears(world: &mut World) {
    if !world.pressure || !world.is_up() {
        return;
    }
    world.clock.advance(Duration::from_secs(1));
    world.work();
    let (pressure, items) = (world.node().pressure(), world.node().attention());
    assert_eq!(pressure.level, Level::Ok, "the pressure does not fall: {pressure:?}");
    assert!(items.is_empty(), "{items:?}");
}
