//! Whether others used the processors meanwhile.

use std::fs;

/// Ticks of the processors since the start of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    all: u64,
    idle: u64,
    steal: u64,
    /// Of this process.
    own: u64,
}

/// Shares of all processors' time, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quiet {
    /// Other processes and the kernel's own threads.
    pub(crate) others: f64,
    /// Another virtual machine had the processor.
    pub(crate) steal: f64,
}

/// The kernel's threads that write for us are others, too.
const OTHERS_MAX: f64 = 0.15;
const STEAL_MAX: f64 = 0.02;

impl Quiet {
    pub(crate) fn is_quiet(&self) -> bool {
        self.others <= OTHERS_MAX && self.steal <= STEAL_MAX
    }
}

impl Ticks {
    /// As of now; `None` where the kernel does not tell.
    pub(crate) fn now() -> Option<Self> {
        let all = fs::read_to_string("/proc/stat").ok()?;
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        Self::parse(&all, &own)
    }

    fn parse(all: &str, own: &str) -> Option<Self> {
        let line = all.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let fields: Vec<u64> =
            line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in the first two.
        let steal = *fields.get(7)?;
        // The name of the process may hold anything, so what counts is what is behind its last bracket.
        let own: Vec<&str> = own.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |at: usize| own.get(at)?.parse::<u64>().ok();
        Some(Self {
            all: fields.iter().take(8).sum(),
            idle: fields[3] + fields[4],
            steal,
            own: ticks(11)? + ticks(12)?,
        })
    }

    /// What there was until `later`; `None` of no time.
    pub(crate) fn until(&self, later: &Self) -> Option<Quiet> {
        let all = later.all.checked_sub(self.all).filter(|all| *all > 0)?;
        let since = |of: fn(&Self) -> u64| of(later).saturating_sub(of(self));
        let steal = since(|ticks| ticks.steal);
        let known = since(|ticks| ticks.idle) + since(|ticks| ticks.own) + steal;
        let share = |part: u64| part as f64 / all as f64;
        Some(Quiet { others: share(all.saturating_sub(known)), steal: share(steal) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(cpu: &str, own: &str) -> Option<Ticks> {
        let all = format!("cpu  {cpu}\ncpu0 1 1 1 1 1 1 1 1\n");
        let own = format!("7 (a ) b) S 1 1 1 0 -1 0 1 2 3 4 {own} 0 0 20");
        Ticks::parse(&all, &own)
    }

    #[test]
    fn what_is_neither_idle_nor_stolen_nor_own_is_others() {
        let before = ticks("10 0 10 100 10 0 0 0 5 0", "5 5").unwrap();
        assert_eq!(before, Ticks { all: 130, idle: 110, steal: 0, own: 10 });
        let after = ticks("40 0 30 140 10 0 0 10 9 0", "20 15").unwrap();
        // A hundred: forty idle, ten stolen, 25 own.
        let quiet = before.until(&after).unwrap();
        assert_eq!(quiet, Quiet { others: 0.25, steal: 0.1 });
        assert!(!quiet.is_quiet());
        assert!(Quiet { others: 0.1, steal: 0.0 }.is_quiet());
        assert!(!Quiet { others: 0.0, steal: 0.1 }.is_quiet());
        assert_eq!(before.until(&before), None);
        assert_eq!(ticks("1 2 3", "1 1"), None);
    }
}
