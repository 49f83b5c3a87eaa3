//! What a driver said, held against what a dump shows. Pure: it sees lines only, so each check can be tried with a history
//! that breaks it.
//!
//! A record may be in one of these states: asked for (it may appear, or not, until a whole dump has not shown it),
//! confirmed (it is there until it is truncated), gone (it must never be seen).

use super::lines::{Answer, FileKind, Request, Shown};
use std::collections::{BTreeMap, BTreeSet};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule, a word.
    pub rule: &'static str,
    /// What was seen and what was expected.
    pub detail: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asked,
    Confirmed(u64),
    /// Refused, with the answer's word.
    NotWritten,
    /// A whole dump has not shown it.
    Gone,
    Unknown,
}

/// A record of a dump: offset, number, length.
type Seen = (u64, Option<u64>, usize);

#[derive(Clone, Debug)]
struct Sent {
    len: usize,
    /// No smaller offset is right: what lies before was confirmed or shown when it was asked for.
    floor: u64,
    state: State,
}

#[derive(Debug, Default)]
struct Ledger {
    sent: BTreeMap<u64, Sent>,
    confirmed: BTreeMap<u64, u64>,
    /// Everything below may be gone: the largest offset that a truncation named.
    truncated: u64,
    /// Everything below is gone: what the last truncation that was answered said, and the last dump.
    head: u64,
    /// What the last whole dump showed.
    shown: BTreeMap<u64, u64>,
    /// One past the largest offset that was confirmed or shown.
    next: u64,
    /// Whether a dump has shown the log.
    known: bool,
}

/// Feeds on a history, and says what is wrong with it.
#[derive(Debug, Default)]
pub struct Oracle {
    logs: BTreeMap<String, Ledger>,
    violations: Vec<Violation>,
    /// Confirmations, and records looked at.
    pub acks: u64,
    pub checked: u64,
    /// Dumps whose files were held against the disk.
    pub files_checked: u64,
}

impl Oracle {
    fn broken(&mut self, rule: &'static str, detail: String) {
        self.violations.push(Violation { rule, detail });
    }

    /// What was wrong since this was last asked.
    pub fn take_violations(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }

    /// The next offset that a log's record may have, as far as is known; where a truncation may begin.
    #[must_use]
    pub fn next(&self, log: &str) -> u64 {
        self.logs.get(log).map_or(0, |ledger| ledger.next)
    }

    /// Appends that have no answer yet.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        let asked = |ledger: &Ledger| {
            ledger.sent.values().filter(|sent| sent.state == State::Asked).count()
        };
        self.logs.values().map(asked).sum()
    }

    /// The lab asked; call it before the line is on its way.
    pub fn asked(&mut self, request: &Request) {
        let ledger = self.logs.entry(request.log().to_owned()).or_default();
        match request {
            Request::Append { log, id, len, .. } => {
                let len = (*len).max(super::payload::marker(log, *id).len());
                let sent = Sent { len, floor: ledger.next, state: State::Asked };
                ledger.sent.insert(*id, sent);
            }
            Request::Truncate { before, .. } => ledger.truncated = ledger.truncated.max(*before),
        }
    }

    /// The driver answered.
    pub fn answered(&mut self, answer: &Answer) {
        match answer {
            Answer::Ack { log, id, offset } => {
                if self.settle(log, *id, State::Confirmed(*offset), "ack") {
                    self.acks += 1;
                    self.confirmed(log, *id, *offset);
                }
            }
            Answer::NotWritten { log, id, .. } => {
                self.settle(log, *id, State::NotWritten, "not-written");
            }
            Answer::Unknown { log, id, .. } => {
                self.settle(log, *id, State::Unknown, "unknown");
            }
            Answer::Truncated { log, head } => {
                let Some(ledger) = self.logs.get_mut(log) else { return };
                let truncated = ledger.truncated;
                ledger.head = ledger.head.max(*head);
                if *head > truncated {
                    self.broken(
                        "truncated too much",
                        format!(
                            "{log} begins at {head}, but was truncated before {truncated} only"
                        ),
                    );
                }
            }
            Answer::TruncateFailed { .. } => {}
        }
    }

    fn settle(&mut self, log: &str, id: u64, state: State, word: &str) -> bool {
        let sent = self.logs.get_mut(log).and_then(|ledger| ledger.sent.get_mut(&id));
        let wrong = match sent {
            None => format!("{word} {log} {id}: that was not asked for"),
            Some(sent) if sent.state != State::Asked => {
                format!("{word} {log} {id}: it was answered before ({:?})", sent.state)
            }
            Some(sent) => {
                sent.state = state;
                return true;
            }
        };
        self.broken("answer without a question", wrong);
        false
    }

    fn confirmed(&mut self, log: &str, id: u64, offset: u64) {
        let Some(ledger) = self.logs.get_mut(log) else { return };
        let floor = ledger.sent.get(&id).map_or(0, |sent| sent.floor);
        let before = ledger.confirmed.insert(offset, id);
        ledger.next = ledger.next.max(offset + 1);
        if offset < floor {
            self.broken(
                "offset went back",
                format!("{log} {id} was confirmed at {offset}, but all below {floor} was taken"),
            );
        }
        if let Some(other) = before {
            self.broken(
                "offset given twice",
                format!("{log}: {other} and {id} were both confirmed at {offset}"),
            );
        }
    }

    /// The process is gone. What it was asked and did not answer may be there or not; what it said it was asked stays
    /// open until a dump.
    pub fn ended(&mut self) {
        for ledger in self.logs.values_mut() {
            for sent in ledger.sent.values_mut() {
                if sent.state == State::Asked {
                    sent.state = State::Unknown;
                }
            }
        }
    }

    /// A line of a dump that was killed: what recovery exposed, the next one must expose too.
    pub fn glimpsed(&mut self, shown: &Shown) {
        let Shown::Record { log, offset, id: Some(id), .. } = shown else { return };
        let ledger = self.logs.entry(log.clone()).or_default();
        ledger.shown.insert(*offset, *id);
        ledger.next = ledger.next.max(offset + 1);
    }

    /// A dump; `files` are those below the data directory, as the lab found them.
    pub fn dumped(&mut self, shown: &[Shown], files: Option<&BTreeSet<String>>) {
        if shown.last() != Some(&Shown::Done) {
            self.broken("dump is not whole", "it does not end in `done`".to_owned());
            return;
        }
        let mut records: BTreeMap<&str, Vec<Seen>> = BTreeMap::new();
        let mut ends: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for one in shown {
            match one {
                Shown::Record { log, offset, id, len } => {
                    records.entry(log).or_default().push((*offset, *id, *len));
                }
                Shown::End { log, head, next } => {
                    ends.insert(log, (*head, *next));
                }
                Shown::Stopped { log, reason } => {
                    self.broken("log is stopped", format!("{log}: {reason}"));
                }
                Shown::Finding(text) => self.broken("finding", text.clone()),
                Shown::File { .. } | Shown::Done => {}
            }
        }
        for log in records.keys().filter(|log| !ends.contains_key(*log)) {
            self.broken("log without an end", (*log).to_owned());
        }
        // A log that the last dump showed does not go away, and one that has confirmed records was made.
        let missing = |(log, ledger): (&String, &Ledger)| {
            let expected = ledger.known || !ledger.confirmed.is_empty();
            (expected && !ends.contains_key(log.as_str())).then(|| log.clone())
        };
        let missing: Vec<String> = self.logs.iter().filter_map(missing).collect();
        for log in missing {
            self.broken("log is gone", log);
        }
        for (log, (head, next)) in ends {
            self.log_shown(log, head, next, records.get(log).map_or(&[][..], Vec::as_slice));
        }
        if let Some(files) = files {
            self.files_shown(shown, files);
        }
    }

    fn log_shown(&mut self, log: &str, head: u64, next: u64, records: &[Seen]) {
        self.checked += records.len() as u64;
        let mut ledger = self.logs.remove(log).unwrap_or_default();
        let mut wrong = |rule, detail| self.violations.push(Violation { rule, detail });
        // Dense, in order, from its head to its end.
        for (expected, (offset, ..)) in (head..).zip(records) {
            if expected != *offset {
                wrong(
                    "offsets are not dense",
                    format!("{log}: {offset} in the place of {expected}"),
                );
                break;
            }
        }
        if head + records.len() as u64 != next {
            wrong(
                "offsets are not dense",
                format!("{log}: {} records from {head}, but its end is {next}", records.len()),
            );
        }
        if head > ledger.truncated {
            wrong(
                "truncated too much",
                format!(
                    "{log} begins at {head}, but was truncated before {} only",
                    ledger.truncated
                ),
            );
        }
        if head < ledger.head {
            wrong(
                "truncated records are back",
                format!("{log} begins at {head}, but it began at {} before", ledger.head),
            );
        }
        let mut seen = BTreeMap::new();
        let mut at: BTreeMap<u64, u64> = BTreeMap::new();
        for &(offset, id, len) in records {
            let Some(id) = id else {
                wrong("bytes are not its own", format!("{log} {offset}"));
                continue;
            };
            at.insert(offset, id);
            if let Some(other) = seen.insert(id, offset) {
                wrong("record twice", format!("{log} {id} at {other} and at {offset}"));
            }
            let Some(sent) = ledger.sent.get(&id) else {
                // Records below what is kept are forgotten; they cannot be told from others.
                wrong("record was never asked for", format!("{log} {id} at {offset}"));
                continue;
            };
            if sent.len != len {
                wrong(
                    "bytes are not its own",
                    format!("{log} {id}: {len} bytes of {} at {offset}", sent.len),
                );
            }
            match sent.state {
                State::NotWritten => {
                    wrong("ghost", format!("{log} {id} at {offset} was answered not-written"));
                }
                State::Gone => wrong(
                    "ghost",
                    format!("{log} {id} at {offset}: an earlier dump did not show it"),
                ),
                State::Confirmed(other) if other != offset => {
                    wrong("moved", format!("{log} {id} at {offset}, confirmed at {other}"));
                }
                _ if offset < sent.floor => wrong(
                    "out of order",
                    format!(
                        "{log} {id} at {offset}: asked for when all below {} was taken",
                        sent.floor
                    ),
                ),
                _ => {}
            }
        }
        // Lost, or another in its place.
        for (what, expected) in [("confirmed", &ledger.confirmed), ("shown before", &ledger.shown)]
        {
            for (offset, id) in expected.range(head..) {
                match at.get(offset) {
                    Some(found) if found == id => {}
                    Some(found) => {
                        wrong("changed", format!("{log} {offset} holds {found}; {what}: {id}"))
                    }
                    None => wrong("lost", format!("{log} {id} at {offset}, {what}")),
                }
            }
        }
        if next < ledger.next {
            wrong("end went back", format!("{log} ends at {next}, it ended at {}", ledger.next));
        }
        ledger.learn(head, next, at);
        self.logs.insert(log.to_owned(), ledger);
    }

    /// Every file is in exactly one place.
    fn files_shown(&mut self, shown: &[Shown], files: &BTreeSet<String>) {
        let mut told: BTreeMap<&str, FileKind> = BTreeMap::new();
        for one in shown {
            let Shown::File { kind, path } = one else { continue };
            if let Some(other) = told.insert(path, *kind) {
                self.broken("file in two places", format!("{path}: {other:?} and {kind:?}"));
            }
        }
        // A driver that does not tell its files is not held to them.
        if told.is_empty() {
            return;
        }
        self.files_checked += 1;
        let in_folder =
            |path: &str| told.keys().any(|known| path.starts_with(&format!("{known}/")));
        let over: Vec<&String> = files
            .iter()
            .filter(|path| !told.contains_key(path.as_str()) && !in_folder(path))
            .collect();
        let missing: Vec<&&str> = told
            .iter()
            .filter(|(path, kind)| {
                matches!(kind, FileKind::Live | FileKind::Spare) && !files.contains(**path)
            })
            .map(|(path, _)| path)
            .collect();
        let over = over.iter().map(|path| format!("{path} is on the disk and in no place"));
        let missing = missing.iter().map(|path| format!("{path} is told and not on the disk"));
        let wrong: Vec<String> = over.chain(missing).collect();
        for detail in wrong {
            self.broken("file leaked or lost", detail);
        }
    }
}

impl Ledger {
    /// What a whole dump shows is how it is: what may have been there and is not has gone for good.
    fn learn(&mut self, head: u64, next: u64, at: BTreeMap<u64, u64>) {
        let here: BTreeSet<u64> = at.values().copied().collect();
        for (id, sent) in &mut self.sent {
            if matches!(sent.state, State::Unknown | State::Asked) && !here.contains(id) {
                sent.state = State::Gone;
            }
        }
        self.confirmed = self.confirmed.split_off(&head);
        self.head = self.head.max(head);
        self.next = self.next.max(next);
        self.shown = at;
        self.known = true;
    }
}
