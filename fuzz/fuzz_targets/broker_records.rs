//! What the broker stores: whatever the bytes, each decoder answers and does not panic; what it takes for a record is what
//! the encoder writes; a receipt is one only as it was issued; and a log of any records is refused, or gives a state that
//! can be written and read again.

#![no_main]

use arbitrary::Arbitrary;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use plimsoll::Offset;
use plimsoll_broker::api::{Band, NewMessage, QueueId, QueueSettings, Seq};
use plimsoll_broker::catalogue::{BadCatalogue, Catalogue, Format, Id, Loader, QueueMeta, Record};
use plimsoll_broker::event::{DeliveryId, Entry, Place};
use plimsoll_broker::message::{self, MessageHead};
use plimsoll_broker::name::QueueName;
use plimsoll_broker::receipt::Receipts;
use plimsoll_broker::state::{Frame, Replay, Shard};
use plimsoll_broker::{logs, marks};

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    /// Any bytes, as each of the binary records.
    Bytes(&'a [u8]),
    /// The same behind a valid front, so that the fields are reached.
    Fields(u8, &'a [u8]),
    /// A message of the encoder's own, with a byte changed.
    Message(Message, Change),
    /// Any text, as a line of the catalogue, a receipt and a log's name.
    Text(&'a str),
    /// A receipt of ours, with a character changed.
    Receipt { key: [u8; 16], queue: u64, id: (u64, u8, u64, u32), change: Change },
    /// The catalogue's log.
    Catalogue { first: u8, lines: Vec<Line>, change: Option<(u8, Change)> },
    /// A shard's event log.
    Events(Vec<&'a [u8]>),
    /// The parts of a snapshot.
    Snapshot(Vec<&'a [u8]>),
}

#[derive(Arbitrary, Debug)]
struct Message {
    seq: u64,
    band: u8,
    total: u64,
    headers: Vec<(String, String)>,
    texts: [Option<String>; 3],
}

/// A line of the catalogue, from so small a world that lines often fit one another.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Line {
    Declare {
        id: u8,
        name: u8,
        lease: u8,
        revision: u8,
    },
    Delete(u8),
    Begin(u8),
    Queue {
        id: u8,
        name: u8,
        revision: u8,
    },
    End(u8),
    Format,
    /// A compaction as it should be, of what the lines before it give.
    Whole,
}

/// Which byte is changed, and how.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Change(u16, u8);

impl Change {
    fn apply(self, bytes: &mut [u8]) {
        if !bytes.is_empty() {
            let at = usize::from(self.0) % bytes.len();
            bytes[at] ^= self.1;
        }
    }
}

fn band(band: u8) -> Band {
    Band::new(band % 10).unwrap()
}

fn check_headers(headers: &[u8]) {
    let head = message::decode_head(headers);
    let key = message::decode_key(headers);
    let Ok((found, stored)) = message::decode(headers, Bytes::new(), 7) else { return };
    assert_eq!(head, Ok(found), "the front is read in two ways");
    assert_eq!(key, Ok(stored.content.key.as_deref()), "the key is read in two ways");
    let mut again = Vec::new();
    message::encode_headers(&found, &stored.content, &mut again);
    // What is skipped stands behind all else.
    assert!(headers.starts_with(&again), "a message that the encoder would not write");
    assert_eq!(message::decode(&again, Bytes::new(), 7), Ok((found, stored)));
}

fn check_marks(bytes: &[u8]) {
    let Ok(read) = marks::decode(bytes) else { return };
    let again = marks::encode(&read.at, &read.marks).concat();
    if !read.marks.is_empty() && bytes.len() <= marks::RECORD_MAX {
        assert_eq!(again, bytes, "marks that the encoder would not write");
    }
    let mut index = marks::Marks::new([7; 16], 64 << 10, 300_000);
    let now = plimsoll_broker::event::Stamp { boot: 1, boot_ms: 1 << 40, wall_ms: 1 << 41 };
    read.marks.iter().for_each(|mark| index.restore_carried(&read.at, mark, &now));
    assert!(index.len() <= read.marks.len());
    index.expire(u64::MAX);
    assert!(index.is_empty());
}

fn check_entry(bytes: &[u8]) {
    let Ok(entry) = Entry::decode(bytes) else { return };
    let mut again = Vec::new();
    entry.encode(&mut again);
    assert_eq!(again, bytes, "an entry that the encoder would not write");
}

fn check_message(input: Message, change: Change) {
    let Message { seq, band: number, total, headers, texts } = input;
    let [content_type, correlation_id, key] = texts;
    let content = NewMessage { payload: Bytes::new(), headers, content_type, correlation_id, key };
    let head = MessageHead { seq: Seq(seq), band: band(number), total };
    let mut bytes = Vec::new();
    message::encode_headers(&head, &content, &mut bytes);
    let fits = u16::try_from(bytes.len()).is_ok();
    assert!(fits || message::check(&content).is_err(), "too long for a record's headers");
    let read =
        message::decode(&bytes, Bytes::new(), 7).map(|(head, stored)| (head, stored.content));
    assert_eq!(read, Ok((head, content)), "not read back");
    change.apply(&mut bytes);
    check_headers(&bytes);
}

fn check_text(text: &str) {
    if let Ok(record) = Record::decode(text.as_bytes()) {
        assert_eq!(Record::decode(&record.encode()), Ok(record), "not read back");
    }
    assert_eq!(Receipts::new([7; 16]).read(QueueId(1), text), None, "a receipt is made up");
    if let Some((queue, band)) = logs::parse_queue(text) {
        assert_eq!(logs::queue(queue, band), text);
    }
}

fn check_receipt(key: [u8; 16], queue: QueueId, id: DeliveryId, change: Change) {
    let receipts = Receipts::new(key);
    let text = receipts.issue(queue, &id);
    assert_eq!(receipts.read(queue, &text), Some(id), "not read back");
    assert_eq!(receipts.read(QueueId(queue.0 ^ 1), &text), None, "a receipt of another queue");
    let mut changed = text.clone().into_bytes();
    change.apply(&mut changed);
    if let Ok(changed) = String::from_utf8(changed)
        && changed != text
    {
        assert_eq!(receipts.read(queue, &changed), None, "a changed receipt");
    }
}

fn format() -> Format {
    let directories = vec![Id([1; 16]), Id([2; 16])];
    Format { broker: Id([3; 16]), shards: 8, receipt_key: [4; 16], directories }
}

fn name(number: u8) -> QueueName {
    QueueName::new(&(number % 4).to_string()).unwrap()
}

fn settings(lease: u8) -> QueueSettings {
    QueueSettings { lease_ms: 100 + u64::from(lease % 3), ..QueueSettings::default() }
}

fn record(line: Line) -> Record {
    let queue = |id: u8| QueueId((id % 6).into());
    match line {
        Line::Declare { id, name: number, lease, revision } => Record::Declare {
            id: queue(id),
            name: name(number),
            settings: settings(lease),
            revision: (revision % 4).into(),
            at_ms: 5,
        },
        Line::Delete(id) => Record::Delete { id: queue(id), at_ms: 5 },
        Line::Begin(next) => Record::Begin { format: format(), next_id: queue(next) },
        Line::Queue { id, name: number, revision } => Record::Queue(QueueMeta {
            id: queue(id),
            name: name(number),
            settings: settings(0),
            revision: (revision % 4).into(),
            created_ms: 5,
            changed_ms: 5,
        }),
        Line::End(queues) => Record::End { queues: (queues % 5).into() },
        Line::Format | Line::Whole => Record::Format(format()),
    }
}

fn load(first: u64, log: &[Vec<u8>]) -> Result<Catalogue, BadCatalogue> {
    Catalogue::load((first..).map(Offset).zip(log))
}

fn check_catalogue(first: u8, lines: &[Line], change: Option<(u8, Change)>) {
    let first = u64::from(first % 2);
    let mut log = vec![Record::Format(format()).encode()];
    for &line in lines.iter().take(64) {
        match (line, load(first, &log)) {
            (Line::Whole, Ok(state)) => {
                log.extend(state.compaction().iter().map(Record::encode));
                assert_eq!(load(first, &log), Ok(state), "a compaction changed something");
            }
            (line, _) => log.push(record(line).encode()),
        }
    }
    if let Some((at, change)) = change {
        let at = usize::from(at) % log.len();
        change.apply(&mut log[at]);
    }
    let Ok(state) = load(first, &log) else { return };
    let again: Vec<_> = state.compaction().iter().map(Record::encode).collect();
    assert_eq!(load(9, &again), Ok(state), "the state cannot be written");
    // Cut off anywhere it is a log: what was good before more came is good without it.
    let mut loader = Loader::default();
    for (offset, line) in (first..).map(Offset).zip(&log) {
        loader.push(offset, line).unwrap();
    }
}

fn check_events(log: &[&[u8]]) {
    let settings = QueueSettings::default();
    let queues = (0..4).map(|id| (QueueId(id), settings.clone())).collect();
    let frame = Frame { boot: 1, now_ms: 1 << 40 };
    let mut replay = Replay::new(queues, frame);
    for bytes in log {
        check_entry(bytes);
        if let Ok(entry) = Entry::decode(bytes)
            && replay.take(entry).is_err()
        {
            return;
        }
    }
    check_shard(&replay.finish(), &frame);
}

/// What is written is read, and is the same when it is written again: in the boot in which it was read.
fn check_shard(shard: &Shard, frame: &Frame) {
    let again = |parts: &[Vec<u8>]| {
        Shard::restore(parts, frame).expect("a snapshot that cannot be read").snapshot()
    };
    let parts = again(&shard.snapshot());
    assert_eq!(again(&parts), parts, "a snapshot that is another when it was read");
}

fuzz_target!(|input: Input<'_>| match input {
    Input::Bytes(bytes) => {
        check_headers(bytes);
        check_marks(bytes);
        check_entry(bytes);
        assert!(Record::decode(bytes).is_err() || std::str::from_utf8(bytes).is_ok());
    }
    Input::Fields(number, fields) => {
        let mut bytes = vec![message::VERSION, number % 10];
        bytes.resize(message::HEAD_LEN, 0);
        bytes.extend(fields);
        check_headers(&bytes);
    }
    Input::Message(message, change) => check_message(message, change),
    Input::Text(text) => check_text(text),
    Input::Receipt { key, queue, id: (seq, number, offset, attempt), change } => {
        let place = Place { band: band(number), offset: Offset(offset) };
        check_receipt(key, QueueId(queue), DeliveryId { seq: Seq(seq), place, attempt }, change);
    }
    Input::Catalogue { first, lines, change } => check_catalogue(first, &lines, change),
    Input::Events(log) => check_events(&log),
    Input::Snapshot(parts) => {
        let frame = Frame { boot: 1, now_ms: 1 << 40 };
        let parts: Vec<_> = parts.iter().map(|part| part.to_vec()).collect();
        if let Ok(shard) = Shard::restore(&parts, &frame) {
            check_shard(&shard, &frame);
        }
    }
});
