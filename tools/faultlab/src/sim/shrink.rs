//! A smaller case of the same violation: fewer lives, fewer actions, and power cuts that lose less, so that what stays
//! lost is the cause.

use super::case::{Case, What};
use super::caught::{caught, kind_of};
use super::crash::Crash;
use super::explore::{self, Ends, live, second_life};
use super::lives::{self, Met, Run};
use super::planted::under;
use plimsoll::fs::sim::SimFileSystem;
use std::time::{Duration, Instant};

/// Tries smaller ones until none fails any more, or the time is over.
struct Shrinking {
    best: Case,
    /// Of which kind the violation must stay.
    kind: String,
    until: Instant,
}

/// Makes a case smaller; gives it back as it is if it does not fail.
pub fn shrink(case: &Case, patience: Duration) -> Case {
    let Some(what) = case.violation() else { return case.clone() };
    let until = Instant::now() + patience;
    let mut shrinking = Shrinking { best: case.clone(), kind: kind_of(&what), until };
    match &case.what {
        What::Plan(..) => shrinking.plan(),
        What::Lives(_) => shrinking.lives(),
        What::Check(_) => {}
    }
    shrinking.best
}

impl Shrinking {
    /// Takes a case if it fails in the same way.
    fn take(&mut self, what: What) -> bool {
        if Instant::now() >= self.until || what == self.best.what {
            return false;
        }
        let case = Case { what, ..self.best.clone() };
        let fails = case.violation().is_some_and(|what| kind_of(&what) == self.kind);
        if fails {
            self.best = case;
        }
        fails
    }

    fn ends(&self) -> Ends {
        match &self.best.what {
            What::Plan(_, ends) => ends.clone(),
            _ => Ends::new(),
        }
    }

    fn take_ends(&mut self, ends: Ends) -> bool {
        let What::Plan(name, _) = &self.best.what else { return false };
        let name = name.clone();
        self.take(What::Plan(name, ends))
    }

    fn plan(&mut self) {
        // Without the second crash, or without any.
        let ends = self.ends();
        for count in 0..ends.len() {
            if self.take_ends(ends[..count].to_vec()) {
                break;
            }
        }
        // The second first: of what the first one loses less is needed then.
        for at in (0..self.ends().len()).rev() {
            let mut ends = self.ends();
            ends[at].point.bytes = 0;
            self.take_ends(ends);
            let with = |this: &Self, crash| {
                let mut ends = this.ends();
                ends[at].crash = Some(crash);
                ends
            };
            let ends = self.ends();
            let Some(crash) = &ends[at].crash else { continue };
            let Some(fs) = self.machine_of_plan(at) else { continue };
            let take = |this: &mut Self, crash| {
                let ends = with(this, crash);
                this.take_ends(ends)
            };
            self.crash(crash, &fs, take);
        }
    }

    /// The machine just before the crash that ends life `at`.
    fn machine_of_plan(&self, at: usize) -> Option<SimFileSystem> {
        let What::Plan(name, ends) = &self.best.what else { return None };
        let plan = super::plan(name);
        let run = || {
            let first = live(&explore::begin(&plan), Some(ends[0].point), plan.script);
            if at == 0 {
                return first.fs;
            }
            if let Some(crash) = &ends[0].crash {
                crash.strike(&first.fs);
            }
            live(&first, Some(ends[1].point), second_life(&plan)).fs
        };
        caught(|| self.best.path.on(|| under(self.best.planted, run))).ok()
    }

    /// Tries gentler crashes than this one of `fs`; `take` puts one in its place and says whether it still fails.
    fn crash(
        &mut self,
        crash: &Crash,
        fs: &SimFileSystem,
        mut take: impl FnMut(&mut Self, Crash) -> bool,
    ) {
        let gentler = [Crash::All, Crash::Death, Crash::Evict];
        let than = gentler.iter().position(|other| other == crash).unwrap_or(gentler.len());
        for crash in &gentler[..than] {
            if take(self, crash.clone()) {
                return;
            }
        }
        let Some(Crash::But(lost)) = crash.as_but(fs) else { return };
        if !take(self, Crash::But(lost.clone())) {
            return;
        }
        // Whole runs of them first, then one by one.
        let mut lost = lost;
        let mut size = lost.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < lost.len() {
                let mut fewer = lost.clone();
                fewer.drain(at..(at + size).min(lost.len()));
                if take(self, Crash::But(fewer.clone())) {
                    lost = fewer;
                } else {
                    at += size;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }

    fn run(&self) -> Run {
        match &self.best.what {
            What::Lives(run) => run.clone(),
            _ => Run::default(),
        }
    }

    /// Changes the run; gives whether it still fails.
    fn change(&mut self, change: impl FnOnce(&mut Run)) -> bool {
        let mut run = self.run();
        change(&mut run);
        self.take(What::Lives(run))
    }

    fn lives(&mut self) {
        let mut met = Met::default();
        let run = self.run();
        let go = || caught(|| lives::run(&run, false, &mut met)).err();
        under(self.best.planted, go);
        for life in met.actions.keys().rev() {
            self.change(|run| run.without_lives.extend([*life]));
        }
        let without = self.run().without_lives;
        let left: Vec<(u64, u64)> =
            met.actions.into_iter().filter(|(life, _)| !without.contains(life)).collect();
        for &(life, actions) in &left {
            let mut size = actions;
            while size > 0 {
                for from in (0..actions).step_by(usize::try_from(size).unwrap_or(usize::MAX)) {
                    let part = (from..actions.min(from + size)).map(|action| (life, action));
                    self.change(|run| run.without_actions.extend(part));
                }
                size /= 2;
            }
            self.change(|run| run.undoomed.extend([life]));
        }
        for &(life, _) in left.iter().rev() {
            let Some((crash, fs)) = self.machine_of_lives(life) else { continue };
            let take =
                |this: &mut Self, crash| this.change(|run| run.crashes.extend([(life, crash)]));
            self.crash(&crash, &fs, take);
        }
    }

    /// The crash that ends a life, and the machine just before it.
    fn machine_of_lives(&self, life: u64) -> Option<(Crash, SimFileSystem)> {
        let run = self.run();
        let look = || lives::before_crash(&run, life);
        caught(|| under(self.best.planted, look)).ok().flatten()
    }
}
