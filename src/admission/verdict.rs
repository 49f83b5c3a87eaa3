//! What a class of write gets at a level of pressure: a pure table.

use crate::permit::LimitReason;
use crate::planted::{self, Fault};
use crate::pressure::Gauge;
use crate::types::{Level, WriteClass};
use std::time::Duration;

/// What is done with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Admit,
    /// Not before this time has passed, and whose doing it is.
    Delay(Duration, LimitReason),
    Refuse(LimitReason),
}

/// Decides; the worse of disk and memory counts.
pub(super) fn verdict(
    class: WriteClass,
    disk: Gauge,
    memory: Gauge,
    max_delay: Duration,
) -> Verdict {
    let worse = disk.level.max(memory.level);
    if worse == Level::Ok {
        return Verdict::Admit;
    }
    let everything = planted::is(Fault::AcknowledgeRefused).then_some(Level::Hard);
    let Some(refused_from) = class.refused_from().or(everything) else { return Verdict::Admit };
    if worse >= refused_from {
        let disk_first = disk.level >= memory.level;
        return Verdict::Refuse(if disk_first { LimitReason::Disk } else { LimitReason::Memory });
    }
    // Catching up is bounded by a window for each log, so there is nothing to slow.
    if class != WriteClass::Publish {
        return Verdict::Admit;
    }
    let share = |gauge: Gauge| {
        if gauge.level == Level::Ok { 0 } else { u32::from(gauge.permille.min(1_000)) }
    };
    let (by_disk, by_memory) = (share(disk), share(memory));
    let reason = if by_disk >= by_memory { LimitReason::Disk } else { LimitReason::Memory };
    match max_delay * by_disk.max(by_memory) / 1_000 {
        Duration::ZERO => Verdict::Admit,
        delay => Verdict::Delay(delay, reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(50);

    fn at(level: Level, permille: u16) -> Gauge {
        Gauge { level, permille }
    }

    fn by_disk(class: WriteClass, level: Level) -> Verdict {
        verdict(class, at(level, 500), Gauge::default(), DELAY)
    }

    #[test]
    fn each_class_at_each_level() {
        let (admit, refuse) = (Verdict::Admit, Verdict::Refuse(LimitReason::Disk));
        let delay = Verdict::Delay(DELAY / 2, LimitReason::Disk);
        for (class, wanted) in [
            (WriteClass::Publish, [admit, delay, refuse, refuse]),
            (WriteClass::Replicate, [admit, admit, admit, refuse]),
            (WriteClass::Acknowledge, [admit; 4]),
            (WriteClass::Coordination, [admit; 4]),
            (WriteClass::Recovery, [admit; 4]),
        ] {
            assert_eq!(Level::ALL.map(|level| by_disk(class, level)), wanted, "{class}");
        }
    }

    #[test]
    fn the_delay_grows_in_a_line_from_nothing_at_soft_to_all_at_hard() {
        let delay = |permille| {
            let disk = at(Level::Soft, permille);
            match verdict(WriteClass::Publish, disk, Gauge::default(), DELAY) {
                Verdict::Admit => Duration::ZERO,
                Verdict::Delay(delay, _) => delay,
                Verdict::Refuse(_) => panic!("refused at soft"),
            }
        };
        let micros = [0, 1, 250, 500, 1_000, u16::MAX].map(|permille| delay(permille).as_micros());
        assert_eq!(micros, [0, 50, 12_500, 25_000, 50_000, 50_000]);
    }

    #[test]
    fn the_worse_of_disk_and_memory_counts_and_is_named() {
        let publish = |disk, memory| verdict(WriteClass::Publish, disk, memory, DELAY);
        let (soft, hard) = (at(Level::Soft, 100), at(Level::Hard, 1_000));
        assert_eq!(publish(soft, hard), Verdict::Refuse(LimitReason::Memory));
        assert_eq!(publish(hard, hard), Verdict::Refuse(LimitReason::Disk));
        let worse = at(Level::Soft, 200);
        assert_eq!(publish(soft, worse), Verdict::Delay(DELAY / 5, LimitReason::Memory));
        assert_eq!(publish(worse, soft), Verdict::Delay(DELAY / 5, LimitReason::Disk));
        // A gauge at ok may lie between its lines: it delays nothing.
        assert_eq!(publish(at(Level::Ok, 900), at(Level::Soft, 0)), Verdict::Admit);
    }
}
