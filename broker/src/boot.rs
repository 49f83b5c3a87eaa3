//! Time for what is stored (Q5): which boot this is, and how much time has passed since a stamp.

use crate::event::Stamp;
use plimsoll::clock::Clock;
use std::sync::Arc;
use std::time::Duration;

/// The boot id that is never the same boot as any.
pub const UNKNOWN: u64 = 0;

/// 64 bits of the kernel's id of this boot; [`UNKNOWN`] where it cannot be read.
#[must_use]
#[allow(
    clippy::disallowed_methods,
    reason = "not the disk: the kernel makes these 37 bytes, and no simulated disk has them"
)]
pub fn boot_id() -> u64 {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or(UNKNOWN, |text| parse(&text))
}

/// The first 16 hexadecimal digits; [`UNKNOWN`] for what is no such id.
fn parse(text: &str) -> u64 {
    let digits: String = text.trim().chars().filter(|&letter| letter != '-').collect();
    let hex = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !hex {
        return UNKNOWN;
    }
    u64::from_str_radix(&digits[..16], 16).unwrap_or(UNKNOWN)
}

/// The broker's clock: the engine's, and which boot it counts from. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Time {
    clock: Arc<dyn Clock>,
    boot: u64,
}

impl Time {
    /// This clock in this boot of the machine. Reads one small file of the kernel's, once.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::in_boot(clock, boot_id())
    }

    /// This clock in a boot with this id; [`UNKNOWN`] is a boot that no later one is the same as.
    #[must_use]
    pub fn in_boot(clock: Arc<dyn Clock>, boot: u64) -> Self {
        Self { clock, boot }
    }

    /// Milliseconds of `CLOCK_BOOTTIME`: what deadlines in memory are counted in. Never goes back.
    #[must_use]
    pub fn boot_ms(&self) -> u64 {
        millis(self.clock.elapsed())
    }

    /// Elapsed time, which never goes back.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Unix milliseconds of the wall clock, which may step.
    #[must_use]
    pub fn wall_ms(&self) -> u64 {
        self.clock.unix_millis()
    }

    /// Which boot this is.
    #[must_use]
    pub const fn boot(&self) -> u64 {
        self.boot
    }

    /// Now, as it must be stored.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        let (boot_ms, wall_ms) = (self.boot_ms(), self.clock.unix_millis());
        Stamp { boot: self.boot, boot_ms, wall_ms }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Both are of the same boot, so that their boot times can be compared. Boot time that went back is not the same: the
/// boot id is the machine's, but a container may have a boot time of its own, which begins anew with it.
#[must_use]
pub const fn same_boot(then: &Stamp, now: &Stamp) -> bool {
    then.boot != UNKNOWN && then.boot == now.boot && then.boot_ms <= now.boot_ms
}

/// Milliseconds from `then` to `now`, from 0 to `most`: of boot time in the same boot, else of the wall clock, which may
/// have been set in between; hence the bounds.
#[must_use]
pub fn elapsed_ms(then: &Stamp, now: &Stamp, most: u64) -> u64 {
    let elapsed = if same_boot(then, now) {
        now.boot_ms - then.boot_ms
    } else {
        now.wall_ms.saturating_sub(then.wall_ms)
    };
    elapsed.min(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll::clock::ManualClock;

    const ID: &str = "0f4bb0a6-3f0f-4d2b-9d52-2b2f7a8d5c11\n";

    #[test]
    fn a_boot_is_known_by_the_first_half_of_its_id() {
        assert_eq!(parse(ID), 0x0f4b_b0a6_3f0f_4d2b);
        assert_eq!(parse(ID.trim()), parse(ID));
    }

    #[test]
    fn what_is_no_boot_id_is_the_same_as_none() {
        for bad in
            ["", "\n", "0f4bb0a6", "0f4bb0a6-3f0f-4d2b-9d52-2b2f7a8d5cxx", &ID.replace('0', "é")]
        {
            assert_eq!(parse(bad), UNKNOWN, "{bad:?}");
        }
        let stamp = Stamp { boot: UNKNOWN, boot_ms: 5, wall_ms: 5 };
        assert!(!same_boot(&stamp, &stamp));
    }

    #[test]
    fn this_machine_says_which_boot_it_is_and_says_the_same_twice() {
        assert_ne!(boot_id(), UNKNOWN);
        assert_eq!(boot_id(), boot_id());
    }

    #[test]
    fn q5_case_k1_in_one_boot_a_step_of_the_wall_clock_changes_no_age() {
        let clock = Arc::new(ManualClock::new(1_000_000_000));
        let time = Time::in_boot(Arc::<ManualClock>::clone(&clock), 7);
        let then = time.stamp();
        clock.advance(Duration::from_secs(10));
        for wall in [0, 1_000_000_000 - 3_600_000, 1_000_000_000 + 3_600_000, u64::MAX] {
            clock.set_wall(wall);
            assert_eq!(elapsed_ms(&then, &time.stamp(), 300_000), 10_000);
        }
    }

    #[test]
    fn q5_after_another_boot_the_wall_clock_counts_within_bounds() {
        let then = Stamp { boot: 7, boot_ms: 900_000, wall_ms: 1_000_000 };
        let age =
            |boot, boot_ms, wall_ms| elapsed_ms(&then, &Stamp { boot, boot_ms, wall_ms }, 300_000);
        assert_eq!(age(8, 5, 1_020_000), 20_000);
        assert_eq!(age(8, 5, 0), 0);
        assert_eq!(age(8, 5, u64::MAX), 300_000);
        assert_eq!(age(UNKNOWN, 901_000, 1_020_000), 20_000);
    }

    #[test]
    fn q5_boot_time_that_went_back_is_of_another_boot() {
        let then = Stamp { boot: 7, boot_ms: 900_000, wall_ms: 1_000_000 };
        let now = Stamp { boot: 7, boot_ms: 100, wall_ms: 1_004_000 };
        assert_eq!(elapsed_ms(&then, &now, 300_000), 4_000);
    }
}
