//! Publishes as admission lets them: delays are waited out, and refusals for as long as the command line allows.

use super::handover::Handover;
use super::tally::Tally;
use crate::failure::{Exit, Failure};
use crate::output;
use humantime::format_duration;
use plimsoll::error::{AppendError, CommitError, PublishError};
use plimsoll::log::Appended;
use plimsoll::permit::{Decision, PermitError};
use plimsoll::{Level, LimitReason, Limited, Log, NewRecord, Node, WriteClass};
use serde_json::{Value, json};
use std::fmt::Display;
use std::time::{Duration, Instant};

/// Why a batch is not in the log.
#[derive(Debug)]
pub(crate) enum NotAppended {
    /// It was refused or failed.
    Error(PublishError),
    /// It waited, nothing of it written, and a signal came.
    Stopped(i32),
    /// Standard output cannot be written to.
    Output(Failure),
}

impl From<AppendError> for NotAppended {
    fn from(error: AppendError) -> Self {
        Self::Error(error.into())
    }
}

impl From<Limited> for NotAppended {
    fn from(limited: Limited) -> Self {
        Self::Error(limited.into())
    }
}

impl From<CommitError> for NotAppended {
    fn from(error: CommitError) -> Self {
        Self::Error(error.into())
    }
}

impl From<Failure> for NotAppended {
    fn from(failure: Failure) -> Self {
        Self::Output(failure)
    }
}

/// What pressure has cost so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// How often a batch was delayed; one that was refused after it, again.
    pub(crate) delayed: u64,
    /// All their delays.
    pub(crate) delay: Duration,
    /// Refusals, each try counted.
    pub(crate) refused: u64,
    /// All waits for another try.
    pub(crate) waited: Duration,
}

/// What was told last, so that each change is told once and not with every batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    Free,
    Slowed,
    /// Refused, since then.
    Waiting(Instant),
}

/// The way into a log.
#[derive(Debug)]
pub(crate) struct Way<'a> {
    node: &'a Node,
    log: Log,
    handover: &'a Handover,
    /// How long one batch waits that is refused.
    timeout: Duration,
    as_json: bool,
    course: Course,
    /// Of the batch that was appended last.
    last_delay: Duration,
    cost: Cost,
}

impl<'a> Way<'a> {
    /// The way into `log`; what ends the waits comes through `handover`.
    pub(crate) fn new(
        node: &'a Node,
        log: Log,
        handover: &'a Handover,
        timeout: Duration,
        as_json: bool,
    ) -> Self {
        let (course, cost) = (Course::Free, Cost::default());
        let last_delay = Duration::ZERO;
        Self { node, log, handover, timeout, as_json, course, last_delay, cost }
    }

    /// What pressure has cost.
    pub(crate) fn cost(&self) -> Cost {
        self.cost
    }

    /// Appends a batch and waits until it is durable.
    pub(crate) fn publish(
        &mut self,
        records: &[NewRecord<'_>],
        tally: &Tally,
    ) -> Result<Appended, NotAppended> {
        let bytes = records.iter().map(|new| (new.headers.len() + new.payload.len()) as u64).sum();
        let (mut refused_since, mut found_no_room) = (None, false);
        loop {
            let (permit, wait) = match self.log.admit(WriteClass::Publish, bytes) {
                Decision::Admit(permit) => (permit, Duration::ZERO),
                Decision::Delay { wait, permit } => (permit, wait),
                Decision::Refuse(limited) => {
                    self.wait_for_room(limited, &mut refused_since, tally)?;
                    found_no_room = false;
                    continue;
                }
            };
            if !wait.is_zero() {
                self.delay(wait, tally)?;
            }
            match self.log.append(permit, records) {
                Ok(ticket) => {
                    self.last_delay = wait;
                    return Ok(ticket.wait()?);
                }
                // In all of these nothing was written, so none is written twice. The machine slept, or the clock that waits
                // is a little ahead of the one that checks:
                Err(AppendError::Permit(PermitError::Expired | PermitError::TooEarly { .. })) => {}
                Err(AppendError::Limited(limited)) => {
                    self.wait_for_room(limited, &mut refused_since, tally)?;
                }
                // The disk, or a quota, is full before its free space says so. From here on the node refuses by itself.
                Err(AppendError::Disk(error)) if error.is_no_space() && !found_no_room => {
                    found_no_room = true;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn delay(&mut self, wait: Duration, tally: &Tally) -> Result<(), NotAppended> {
        self.cost.delayed += 1;
        self.cost.delay += wait;
        if self.course == Course::Free {
            self.course = Course::Slowed;
            let (reason, level, why) = self.worst();
            self.tell(
                tally,
                format_args!("appends are slowed: {why}"),
                json!({
                    "event": "slowed", "reason": reason.name(), "level": level.name(), "detail": why,
                }),
            )?;
        }
        self.pause(wait)
    }

    /// Waits until it is time for another try, or gives up.
    fn wait_for_room(
        &mut self,
        limited: Limited,
        since: &mut Option<Instant>,
        tally: &Tally,
    ) -> Result<(), NotAppended> {
        self.cost.refused += 1;
        let now = Instant::now();
        let since = *since.get_or_insert(now);
        let left = self.timeout.saturating_sub(now.saturating_duration_since(since));
        if left.is_zero() {
            return Err(limited.into());
        }
        if !matches!(self.course, Course::Waiting(_)) {
            self.course = Course::Waiting(now);
            let timeout = format_duration(self.timeout);
            self.tell(
                tally,
                format_args!("waiting, for {timeout} at most: {limited}"),
                json!({
                    "event": "waiting", "reason": limited.reason.name(),
                    "level": limited.level.name(), "retry_after_ms": limited.retry_after_ms(),
                    "detail": &*limited.detail,
                }),
            )?;
        }
        // The hint is between 1 and 1.25 times what the node has all wait, so that not all come back at once. The last try
        // is when the time is over.
        let hint = Duration::from_millis(limited.retry_after_ms());
        self.pause(hint.min(left))?;
        self.cost.waited += now.elapsed();
        Ok(())
    }

    /// To be called when a batch is in and was told: tells what has ended by it.
    pub(crate) fn go_on(&mut self, tally: &Tally) -> Result<(), Failure> {
        if self.course == Course::Free {
            return Ok(());
        }
        let level = self.node.pressure().level;
        if let Course::Waiting(since) = self.course {
            let waited = since.elapsed();
            self.course = if level > Level::Ok { Course::Slowed } else { Course::Free };
            let slowed = if level > Level::Ok { ", slowed" } else { "" };
            self.tell(
                tally,
                format_args!("appends go on{slowed}, after {}", seconds(waited)),
                json!({
                    "event": "resumed", "level": level.name(), "waited_ms": millis(waited),
                }),
            )?;
        } else if self.last_delay.is_zero() && level == Level::Ok {
            self.course = Course::Free;
            let cost = self.cost;
            self.tell(
                tally,
                format_args!("appends are no longer slowed; so far {}", delays(&cost)),
                json!({ "event": "unslowed", "level": level.name() }),
            )?;
        }
        Ok(())
    }

    /// What there is least of, and why that is so.
    fn worst(&self) -> (LimitReason, Level, String) {
        let pressure = self.node.pressure();
        let memory = &pressure.memory;
        let disk = pressure.disks.iter().max_by_key(|disk| (disk.level, disk.permille));
        let worse = |permille| (memory.level, memory.permille) > permille;
        match disk.filter(|disk| !worse((disk.level, disk.permille))) {
            Some(disk) => (LimitReason::Disk, disk.level, disk.to_string()),
            None => (LimitReason::Memory, memory.level, memory.to_string()),
        }
    }

    fn tell(&self, tally: &Tally, text: impl Display, event: Value) -> Result<(), Failure> {
        if self.as_json {
            return output::line(event);
        }
        tally.note(text);
        Ok(())
    }

    fn pause(&self, time: Duration) -> Result<(), NotAppended> {
        self.handover.pause(time).map_or(Ok(()), |signal| Err(NotAppended::Stopped(signal)))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn delays(cost: &Cost) -> String {
    let times = crate::numbers::count(cost.delayed, "time");
    format!("delayed {times}, {} in all", seconds(cost.delay))
}

/// `48 ms`, `3.2 s`.
fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return format!("{} ms", time.as_millis());
    }
    format!("{:.1} s", time.as_secs_f64())
}

impl Cost {
    /// For the end of the sum; nothing where there was no pressure.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        if self.delayed > 0 {
            out = format!("; {}", delays(self));
        }
        if self.refused > 0 {
            let times = crate::numbers::count(self.refused, "time");
            out = format!("{out}; refused {times}, waited {} for room", seconds(self.waited));
        }
        out
    }

    /// For programs.
    pub(crate) fn insert(&self, object: &mut serde_json::Map<String, Value>) {
        for (name, value) in [
            ("delays", self.delayed),
            ("delayed_ms", millis(self.delay)),
            ("refusals", self.refused),
            ("waited_ms", millis(self.waited)),
        ] {
            object.insert(name.to_owned(), value.into());
        }
    }
}

impl NotAppended {
    /// As a failure, unless the engine has said more.
    pub(crate) fn into_failure(self) -> Result<Failure, PublishError> {
        match self {
            Self::Error(error) => Err(error),
            Self::Stopped(signal) => Ok(Failure::new(Exit::Signal(signal), "interrupted")),
            Self::Output(failure) => Ok(failure),
        }
    }
}
