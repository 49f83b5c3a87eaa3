//! Whether somebody else used the machine while we measured.

use serde::Serialize;
use std::collections::BTreeMap;

/// Share of the machine's processor time from which on others are said to have disturbed.
const OTHERS: f64 = 0.05;
/// Load of the last minute before the start, likewise.
const LOAD: f64 = 0.5;
/// Flag of a kernel thread in `/proc/PID/stat`: what our disk calls cost there is ours.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Ticks of the clock, summed over the processors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    all: u64,
    idle: u64,
    steal: u64,
    /// Of programs and of the kernel for them; interrupts are neither.
    work: u64,
    ours: u64,
    kernel: u64,
}

/// What was seen of one round.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Noise {
    /// Shares of the machine's processor time.
    pub(crate) others: f64,
    pub(crate) steal: f64,
    pub(crate) idle: f64,
    /// Why the round does not count as quiet.
    pub(crate) note: Option<String>,
}

/// Load of the last minute.
pub(crate) fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

pub(crate) fn load_note(load: f64) -> Option<String> {
    (load > LOAD).then(|| format!("load {load:.2} before the start"))
}

/// Times of a process, parent, flags, from its `stat`. The name may hold blanks and brackets.
fn process(stat: &str) -> Option<(u64, u64, u64, u64)> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<i64>().ok().map(|n| n.max(0) as u64);
    // State, parent, …, flags (6), …, user, system, user and system of children that were waited for.
    let own = number(11)? + number(12)?;
    Some((number(1)?, number(6)?, own, own + number(13)? + number(14)?))
}

/// Sums what is ours: this process, and below it all that live; those that ended are in their parent's sums.
fn shares(processes: &BTreeMap<u64, (u64, u64, u64, u64)>, root: u64) -> (u64, u64) {
    let below = |mut pid: u64| {
        while let Some((parent, ..)) = processes.get(&pid) {
            if pid == root {
                return true;
            }
            pid = *parent;
        }
        false
    };
    let (mut ours, mut kernel) = (0, 0);
    for (pid, (_, flags, own, with_ended)) in processes {
        if flags & KERNEL_THREAD != 0 {
            kernel += own;
        } else if below(*pid) {
            ours += with_ended;
        }
    }
    (ours, kernel)
}

pub(crate) fn sample() -> Sample {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let times: Vec<u64> = text
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .skip(1)
        .map(|n| n.parse().unwrap())
        .collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
    let mut processes = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // It may have ended by now.
        if let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) {
            processes.extend(process(&stat).map(|about| (pid, about)));
        }
    }
    let (ours, kernel) = shares(&processes, u64::from(std::process::id()));
    Sample {
        all: times[..8].iter().sum(),
        idle: times[3] + times[4],
        steal: times[7],
        work: times[0] + times[1] + times[2],
        ours,
        kernel,
    }
}

impl Sample {
    /// What happened from here to there.
    pub(crate) fn until(&self, after: &Self) -> Noise {
        let all = after.all.saturating_sub(self.all).max(1) as f64;
        let idle = after.idle.saturating_sub(self.idle) as f64 / all;
        let steal = after.steal.saturating_sub(self.steal) as f64 / all;
        let ours = after.ours.saturating_sub(self.ours) + after.kernel.saturating_sub(self.kernel);
        let others = after.work.saturating_sub(self.work).saturating_sub(ours) as f64 / all;
        let mut notes = Vec::new();
        if others > OTHERS {
            notes.push(format!("others took {:.0}% of the processors", others * 100.0));
        }
        if steal > OTHERS {
            notes.push(format!("{:.0}% of them was stolen", steal * 100.0));
        }
        let note = (!notes.is_empty()).then(|| notes.join(", "));
        Noise { others, steal, idle, note }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_brackets() {
        let stat = "42 (a) (b) c) S 7 42 42 0 -1 4194304 1 2 3 4 10 20 30 40 20 0";
        assert_eq!(process(stat), Some((7, 4_194_304, 30, 100)));
    }

    #[test]
    fn ours_are_those_below_us() {
        let processes = BTreeMap::from([
            (1, (0, 0, 5, 5)),
            (2, (0, KERNEL_THREAD, 7, 7)),
            (10, (1, 0, 11, 13)),
            (11, (10, 0, 17, 17)),
            (20, (1, 0, 19, 19)),
        ]);
        assert_eq!(shares(&processes, 10), (13 + 17, 7));
    }

    #[test]
    fn others_are_what_is_left() {
        let before = Sample { all: 0, idle: 0, steal: 0, work: 0, ours: 0, kernel: 0 };
        let after = Sample { all: 1000, idle: 300, steal: 20, work: 600, ours: 400, kernel: 50 };
        let noise = before.until(&after);
        assert_eq!((noise.others, noise.steal, noise.idle), (0.15, 0.02, 0.3));
        assert!(noise.note.unwrap().contains("others took 15%"));
        let after = Sample { work: 490, ..after };
        assert!(before.until(&after).note.is_none());
    }
}
