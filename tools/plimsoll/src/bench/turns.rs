//! Cases that take turns of some milliseconds, so that all of them see the same disk.

use super::stats::Latencies;
use crate::failure::Failure;
use crate::signals::Interrupt;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What a turn gave.
#[derive(Debug)]
pub(crate) struct Turn {
    spent: Duration,
    /// Of each operation, in nanoseconds.
    nanos: Vec<u64>,
}

/// When a turn ends; some operations are always done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit<'a> {
    pub(crate) time: Duration,
    pub(crate) interrupt: &'a Interrupt,
}

/// What is measured.
pub(crate) trait Work {
    /// One turn.
    fn turn(&mut self, limit: Limit<'_>) -> Result<Turn, Failure>;

    /// Before a turn, outside of its time.
    fn prepare(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Which table a case is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Ways,
    Parallel,
    Sequential,
    Engine,
    /// In none: others are held against it.
    Beside,
}

/// One of those that take turns.
pub(crate) struct Case {
    pub(crate) group: Group,
    pub(crate) what: String,
    /// The file that is written to: `written` and so on.
    pub(crate) file: &'static str,
    pub(crate) bytes: usize,
    pub(crate) threads: usize,
    /// The name of the case that this one is held against.
    pub(crate) beside: Option<String>,
    /// Or why it cannot be done here.
    pub(crate) work: Result<Box<dyn Work>, String>,
    pub(crate) latencies: Latencies,
    /// Operations a second, of each round.
    pub(crate) rates: Vec<f64>,
}

impl Case {
    /// Names it for what is held against it.
    pub(crate) fn name(&self) -> String {
        name(&self.what, self.file, self.bytes, self.threads)
    }

    fn take_turn(&mut self, limit: Limit<'_>) -> Result<(), Failure> {
        let Ok(work) = &mut self.work else { return Ok(()) };
        work.prepare()?;
        let turn = work.turn(limit)?;
        let seconds = turn.spent.as_secs_f64().max(1e-9);
        self.rates.push(turn.nanos.len() as f64 / seconds);
        turn.nanos.into_iter().for_each(|nanos| self.latencies.record(nanos));
        Ok(())
    }
}

/// See [`Case::name`].
pub(crate) fn name(what: &str, file: &str, bytes: usize, threads: usize) -> String {
    format!("{what}, {file}, {bytes} B, {threads}")
}

/// How long the turns are.
const TURN_MIN: Duration = Duration::from_millis(5);
const TURN_MAX: Duration = Duration::from_millis(40);
/// Operations of a thread in a turn, at least: on a slow disk the rate of one or two would be chance.
const COUNT_MIN: usize = 4;
/// As many rounds at least, so that a median means something; where the disk is slow the run takes longer.
const ROUNDS_MIN: u32 = 3;
/// And as many as this, if there is time.
const ROUNDS_WANTED: u32 = 7;

/// The time of a turn, where `cases` share `time`.
pub(crate) fn turn_time(time: Duration, cases: usize) -> Duration {
    let cases = u32::try_from(cases).unwrap_or(u32::MAX).max(1);
    (time / cases / ROUNDS_WANTED).clamp(TURN_MIN, TURN_MAX)
}

/// Lets all of them take turns until `end`, or until a signal; gives the rounds.
pub(crate) fn run(cases: &mut [Case], limit: Limit<'_>, end: Instant) -> Result<u32, Failure> {
    let mut rounds = 0;
    while (rounds < ROUNDS_MIN || Instant::now() < end) && !limit.interrupt.is_up() {
        let mut order: Vec<usize> = (0..cases.len()).collect();
        // None always has the same one before it, whose writes the device may still be busy with.
        if rounds % 2 == 1 {
            order.reverse();
        }
        for at in order {
            if limit.interrupt.is_up() {
                return Ok(rounds);
            }
            cases[at].take_turn(limit)?;
        }
        rounds += 1;
    }
    Ok(rounds)
}

/// A turn of one thread, of at most `count` operations.
pub(crate) fn alone(
    limit: Limit<'_>,
    count: usize,
    mut once: impl FnMut() -> Result<(), Failure>,
) -> Result<Turn, Failure> {
    let begun = Instant::now();
    let (mut nanos, mut last) = (Vec::new(), Duration::ZERO);
    loop {
        once()?;
        let now = begun.elapsed();
        nanos.push(u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX));
        last = now;
        let is_over = now >= limit.time && nanos.len() >= COUNT_MIN;
        if is_over || nanos.len() >= count || limit.interrupt.is_up() {
            return Ok(Turn { spent: now, nanos });
        }
    }
}

/// A turn of several threads that begin at once, of at most `count` operations each. Each is told its number.
pub(crate) fn together(
    limit: Limit<'_>,
    threads: usize,
    count: usize,
    once: impl Fn(usize) -> Result<(), Failure> + Sync,
) -> Result<Turn, Failure> {
    let start = Barrier::new(threads);
    let one = |thread: usize| {
        start.wait();
        alone(limit, count, || once(thread))
    };
    let turns: Vec<Result<Turn, Failure>> = std::thread::scope(|scope| {
        let one = &one;
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || one(thread))).collect();
        let own = one(0);
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Turn, Failure>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        std::iter::once(own).chain(others.into_iter().map(join)).collect()
    });
    let mut all = Turn { spent: Duration::ZERO, nanos: Vec::new() };
    for turn in turns {
        let turn = turn?;
        all.spent = all.spent.max(turn.spent);
        all.nanos.extend(turn.nanos);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_short_enough_for_some_rounds_and_long_enough_for_some_operations() {
        let time = |seconds, cases| turn_time(Duration::from_secs(seconds), cases);
        assert_eq!(time(600, 20), TURN_MAX);
        assert_eq!(time(0, 20), TURN_MIN);
        assert_eq!(time(7, 50), Duration::from_millis(20));
        assert_eq!(time(1, 0), TURN_MAX);
    }

    fn limit(interrupt: &Interrupt, time: Duration) -> Limit<'_> {
        Limit { time, interrupt }
    }

    #[test]
    fn a_turn_has_some_operations_and_no_more_than_it_may() {
        let interrupt = Interrupt::default();
        let count = |time, most| {
            alone(limit(&interrupt, time), most, || Ok(())).map(|turn| turn.nanos.len()).unwrap()
        };
        assert_eq!(count(Duration::ZERO, 100), COUNT_MIN);
        assert_eq!(count(Duration::ZERO, 2), 2);
        assert_eq!(count(Duration::from_secs(3600), 100), 100);
    }

    #[test]
    fn all_threads_of_a_turn_count_and_an_error_of_one_is_that_of_the_turn() {
        let interrupt = Interrupt::default();
        let limit = limit(&interrupt, Duration::from_secs(3600));
        let turn = together(limit, 3, 5, |_| Ok(())).unwrap();
        assert_eq!(turn.nanos.len(), 15);
        let fail = |thread| match thread {
            2 => Err(Failure::usage("the third")),
            _ => Ok(()),
        };
        assert_eq!(together(limit, 3, 5, fail).unwrap_err().message(), "the third");
    }

    /// Counts its turns.
    struct Counted(std::rc::Rc<std::cell::Cell<u32>>, Duration);

    impl Work for Counted {
        fn turn(&mut self, _: Limit<'_>) -> Result<Turn, Failure> {
            self.0.set(self.0.get() + 1);
            Ok(Turn { spent: self.1, nanos: vec![1000; 2] })
        }
    }

    #[test]
    fn cases_have_a_rate_of_each_round_however_late_it_is() {
        let counter = std::rc::Rc::default();
        let case = |work: Result<Box<dyn Work>, String>| Case {
            group: Group::Ways,
            what: String::new(),
            file: "",
            bytes: 1,
            threads: 1,
            beside: None,
            work,
            latencies: Latencies::new(),
            rates: Vec::new(),
        };
        let counted = Counted(std::rc::Rc::clone(&counter), Duration::from_secs(1));
        let mut cases = [case(Ok(Box::new(counted))), case(Err("EINVAL".into()))];
        let interrupt = Interrupt::default();
        let rounds = run(&mut cases, limit(&interrupt, TURN_MIN), Instant::now()).unwrap();
        assert_eq!((rounds, counter.get()), (ROUNDS_MIN, ROUNDS_MIN));
        assert_eq!(cases[0].rates, [2.0; 3]);
        assert_eq!(cases[0].latencies.percentiles().samples, 6);
        assert!(cases[1].rates.is_empty());
    }
}
