//! What a correct engine may show: it stands outside the simulated file system, and knows of every record that was
//! handed to a log what the engine answered.
//!
//! Each record's payload begins with its number here, so whatever is read can be told apart from everything else that
//! was ever appended to any log in any life; the rest of it is filler that all share, so that halves of two records can
//! make a whole one if the engine lets them.

use plimsoll::error::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// What the engine said of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Said {
    /// Nothing: the process died first. It may be there or not.
    Nothing,
    /// Durable, at this offset.
    Confirmed(u64),
    /// Never to be seen.
    NotWritten,
    /// It may be there or not.
    Unknown,
}

/// One record that was handed to a log, and never changes after that: forks of a machine share it.
#[derive(Debug, Hash)]
pub struct Record {
    log: String,
    /// Which log of that name: deleting begins another.
    incarnation: u32,
    /// Number of the first record of its batch.
    batch: usize,
    headers: Vec<u8>,
    payload: Vec<u8>,
}

/// A record, and what was said of it.
#[derive(Clone, Debug)]
pub struct Written {
    said: Said,
    record: Arc<Record>,
    /// Of the record.
    hash: u64,
}

impl Written {
    fn new(record: Record) -> Self {
        let mut hasher = DefaultHasher::new();
        record.hash(&mut hasher);
        Self { said: Said::Nothing, record: Arc::new(record), hash: hasher.finish() }
    }
}

impl Hash for Written {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.said, self.hash).hash(state);
    }
}

impl Deref for Written {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.record
    }
}

/// One record as the engine shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub offset: u64,
    pub headers: Vec<u8>,
    pub payload: Vec<u8>,
}

/// A log as the engine shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub head: u64,
    pub next: u64,
    pub records: Vec<Shown>,
}

/// What is known of one log.
#[derive(Clone, Debug, Default, Hash)]
pub struct Model {
    incarnation: u32,
    /// `open_log` said that it is there.
    exists: bool,
    /// A deletion was asked for, and not answered.
    deleting: bool,
    /// The highest offset that a truncation was asked for.
    truncate_asked: u64,
    /// The highest head that a truncation promised.
    head_promised: u64,
    /// What a reader or a recovery showed, by offset.
    shown: BTreeMap<u64, usize>,
}

/// See the top of the file.
#[derive(Clone, Debug, Default, Hash)]
pub struct Oracle {
    written: Vec<Written>,
    logs: BTreeMap<String, Model>,
    incarnations: u32,
    life: u32,
    /// Every directory that was on the way to a log.
    folders: BTreeSet<String>,
}

const FILLER: u8 = b'.';

impl Oracle {
    /// To tell states apart.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    pub fn begin_life(&mut self) {
        self.life += 1;
    }

    /// The names of the logs that may be there.
    pub fn names(&self) -> Vec<String> {
        self.logs.keys().cloned().collect()
    }

    /// Whether a log of this name may be there.
    pub fn knows(&self, log: &str) -> bool {
        self.logs.contains_key(log)
    }

    fn model(&mut self, log: &str) -> &mut Model {
        self.logs.get_mut(log).unwrap_or_else(|| panic!("log {log} was never opened"))
    }

    // What is asked of the engine, and what it answers.

    pub fn opening(&mut self, log: &str) {
        if !self.logs.contains_key(log) {
            self.incarnations += 1;
            let incarnation = self.incarnations;
            let folders = log.match_indices('/').map(|(at, _)| log[..at].to_owned());
            self.folders.extend(folders);
            self.logs.insert(log.to_owned(), Model { incarnation, ..Model::default() });
        }
    }

    pub fn opened(&mut self, log: &str) {
        self.model(log).exists = true;
    }

    /// The log has no records. If a deletion of it failed, it was done all the same, and this is another log.
    pub fn opened_empty(&mut self, log: &str) {
        if self.model(log).deleting {
            self.logs.remove(log);
            self.opening(log);
        }
    }

    pub fn deleting(&mut self, log: &str) {
        self.model(log).deleting = true;
    }

    pub fn deleted(&mut self, log: &str) {
        self.logs.remove(log);
    }

    /// Makes the records of a batch, each taking `lens` bytes in the file before padding. Gives the number of the first.
    pub fn appending(&mut self, log: &str, lens: &[usize]) -> usize {
        let (life, incarnation) = (self.life, self.model(log).incarnation);
        let batch = self.written.len();
        for &len in lens {
            let number = self.written.len();
            // Every third has headers, within the same length.
            let headers = if number % 3 == 2 { b"\x01\x01\x00k=....".to_vec() } else { Vec::new() };
            let mut payload = format!("{number:06}:{log}:{life}:").into_bytes();
            let payload_len = len.saturating_sub(32 + headers.len());
            assert!(payload_len >= payload.len(), "record of {len} bytes holds no number");
            payload.resize(payload_len, FILLER);
            let log = log.to_owned();
            self.written.push(Written::new(Record { log, incarnation, batch, headers, payload }));
        }
        batch
    }

    /// Takes bytes that the test made itself.
    pub fn appending_payload(&mut self, log: &str, behind_number: &[u8]) -> usize {
        let number = self.appending(log, &[128]);
        let Record { log, incarnation, batch, headers, payload } = &*self.written[number];
        let record = Record {
            log: log.clone(),
            incarnation: *incarnation,
            batch: *batch,
            headers: headers.clone(),
            payload: [payload, behind_number].concat(),
        };
        self.written[number] = Written::new(record);
        number
    }

    /// Headers and payloads of the batch that begins with record `batch`.
    pub fn batch(&self, batch: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let records = self.written[batch..].iter().take_while(|record| record.batch == batch);
        records.map(|record| (record.headers.clone(), record.payload.clone())).collect()
    }

    fn answer(&mut self, batch: usize, mut said: impl FnMut(u64) -> Said) {
        let records = self.written[batch..].iter_mut().take_while(|record| record.batch == batch);
        for (at, record) in records.enumerate() {
            record.said = said(at as u64);
        }
    }

    /// The engine confirmed a batch from offset `first` on.
    pub fn confirmed(&mut self, batch: usize, first: u64) {
        let (log, incarnation) = (&self.written[batch].log, self.written[batch].incarnation);
        for (number, other) in self.written.iter().enumerate() {
            let Said::Confirmed(offset) = other.said else { continue };
            if other.log == *log && other.incarnation == incarnation {
                assert!(
                    (number < batch) == (offset < first) && offset != first,
                    "I8: log {log}: record {batch} was confirmed at {first}, record {number} at {offset}"
                );
            }
        }
        self.answer(batch, |at| Said::Confirmed(first + at));
    }

    pub fn refused(&mut self, batch: usize, outcome: Outcome) {
        let said = match outcome {
            Outcome::NotWritten => Said::NotWritten,
            Outcome::Unknown => Said::Unknown,
        };
        self.answer(batch, |_| said);
    }

    pub fn truncating(&mut self, log: &str, before: u64) {
        let model = self.model(log);
        model.truncate_asked = model.truncate_asked.max(before);
    }

    pub fn truncated(&mut self, log: &str, head: u64) {
        let model = self.model(log);
        assert!(
            head <= model.truncate_asked.max(model.head_promised),
            "I1: log {log}: truncation went to {head}, asked for {}",
            model.truncate_asked
        );
        model.head_promised = model.head_promised.max(head);
        model.shown = model.shown.split_off(&head);
    }

    fn highest_confirmed(&self, log: &str, incarnation: u32) -> Option<u64> {
        let own = self
            .written
            .iter()
            .filter(|record| record.log == log && record.incarnation == incarnation);
        own.filter_map(|record| match record.said {
            Said::Confirmed(offset) => Some(offset),
            _ => None,
        })
        .max()
    }

    // What the engine shows.

    /// The logs on disk after a start: what was opened is there, what was deleted is not, and nothing else is but
    /// folders of logs that are gone: a directory without segments is a log without records to the format.
    pub fn check_names(&mut self, found: &[String]) {
        for name in found {
            let folder = self.folders.contains(name);
            assert!(
                self.logs.contains_key(name) || folder,
                "I6: there is a log {name} that nobody has"
            );
        }
        self.logs.retain(|name, model| {
            let there = found.contains(name);
            assert!(there || !model.exists || model.deleting, "I1: log {name} is gone");
            // What a crash left of its deletion or its making is nothing: if it is opened again it is a new one.
            there
        });
    }

    /// What a log shows now; `records` from its head on.
    pub fn check(&mut self, log: &str, view: &View) {
        let model = &self.logs[log];
        let View { head, next, records } = view;
        let (head, next) = (*head, *next);
        assert!(
            head <= model.truncate_asked,
            "I1: log {log} begins at {head}, truncation was asked for {} at most",
            model.truncate_asked
        );
        assert!(
            head >= model.head_promised,
            "log {log} begins at {head}, truncation had promised {}",
            model.head_promised
        );
        let confirmed = self.highest_confirmed(log, model.incarnation);
        assert!(
            confirmed.is_none_or(|highest| next > highest),
            "I8: log {log}: the next offset is {next}, {confirmed:?} was confirmed"
        );
        let numbers = self.numbers(log, model.incarnation, head, records);
        assert_eq!(
            head + records.len() as u64,
            next.max(head),
            "I3: log {log}: the records end before the next offset"
        );
        self.check_order(log, &numbers);
        for (&offset, &number) in &model.shown {
            let now =
                offset.checked_sub(head).and_then(|at| numbers.get(usize::try_from(at).ok()?));
            assert!(
                offset < head || now == Some(&number),
                "I2: log {log}: offset {offset} showed record {number} and now {now:?}"
            );
        }
        self.check_confirmed(log, model.incarnation, head, &numbers);
        let model = self.model(log);
        model.shown = (head..).zip(numbers).collect();
    }

    /// The number of each record shown, with its bytes compared.
    fn numbers(&self, log: &str, incarnation: u32, head: u64, records: &[Shown]) -> Vec<usize> {
        let mut numbers = Vec::with_capacity(records.len());
        for (expected, record) in (head..).zip(records) {
            let offset = record.offset;
            assert_eq!(
                offset, expected,
                "I3: log {log}: offset {offset} comes where {expected} does"
            );
            let text = String::from_utf8_lossy(&record.payload[..record.payload.len().min(40)]);
            let number = text.split(':').next().and_then(|number| number.parse::<usize>().ok());
            let Some((number, written)) =
                number.and_then(|number| Some((number, self.written.get(number)?)))
            else {
                panic!("I2: log {log}, offset {offset}: nobody wrote {text:?}");
            };
            assert_eq!(written.log, log, "I2: log {log}, offset {offset}: another log's {text:?}");
            assert_eq!(
                written.incarnation, incarnation,
                "I2: log {log}, offset {offset}: {text:?} of a log that was deleted"
            );
            assert_eq!(written.payload, record.payload, "I1: log {log}, offset {offset}: {text:?}");
            assert_eq!(written.headers, record.headers, "I1: log {log}, offset {offset}: {text:?}");
            assert_ne!(
                written.said,
                Said::NotWritten,
                "I5: log {log}, offset {offset}: {text:?} was answered `not written`"
            );
            if let Said::Confirmed(at) = written.said {
                assert_eq!(offset, at, "I1: log {log}: {text:?} was confirmed at {at}");
            }
            numbers.push(number);
        }
        numbers
    }

    /// Records come in the order in which they were handed over, each once, and of a batch comes a prefix.
    fn check_order(&self, log: &str, numbers: &[usize]) {
        for pair in numbers.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            assert!(
                before < after,
                "I2: log {log}: record {after} comes behind {before}, of a branch that was cut off"
            );
            let batch = self.written[after].batch;
            assert!(
                batch == after || before + 1 == after,
                "I2: log {log}: record {after} is there without {} of its batch",
                after - 1
            );
        }
    }

    fn check_confirmed(&self, log: &str, incarnation: u32, head: u64, numbers: &[usize]) {
        for (number, written) in self.written.iter().enumerate() {
            let Said::Confirmed(offset) = written.said else { continue };
            if written.log != log || written.incarnation != incarnation || offset < head {
                continue;
            }
            let at = usize::try_from(offset - head).unwrap_or(usize::MAX);
            assert_eq!(
                numbers.get(at),
                Some(&number),
                "I1: log {log}: record {number} was confirmed at {offset}"
            );
        }
    }
}
