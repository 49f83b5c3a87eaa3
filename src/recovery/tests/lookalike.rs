//! Payloads full of what looks like records: how much work they can make for recovery, counted and not timed.
//!
//! Two places look at every eighth byte of a window. Behind Stop a header alone counts, so no body is read, however long
//! it says that it is. Behind a header that was lost only a body proves whose the records are, so bodies are read, up to a
//! fixed sum. Every other read is one of the tail, which the window bounds too. The worst input is then a window, or two,
//! and not a file: the file here is eight windows long, and the records in front are read once.

use super::support::*;
use crate::format::record::{self, HEADER_LEN, RecordHeader};
use crate::format::{Key, RECORDS_POSITION, WINDOW};
use crate::fs::sim::{AllPersisted, OpKind, SimFileSystem};
use crate::recovery::Tail;
use crate::types::Offset;
use std::path::Path;

const LARGE: u64 = 8 * WINDOW;
/// Of a record that a writer might leave behind Stop, and more than the window, so that it hides what follows.
const PAYLOAD: usize = 3 << 20;
/// Blocks, headers, the walks' read-ahead and the ends of chunks.
const SLACK: u64 = 640 * 1024;

/// What the payload is full of, from whoever knows so much of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alike {
    /// The file's generation at every eighth byte, and lengths that reach far.
    Generation,
    /// Headers with the checksum of another place.
    Elsewhere,
    /// Headers of another log, right for their place.
    OtherLog,
    /// Valid headers of this very log, which claim nothing.
    Own,
    /// The same, each of a record that reaches to the end of the file.
    Far,
}

const ALIKE: [Alike; 5] =
    [Alike::Generation, Alike::Elsewhere, Alike::OtherLog, Alike::Own, Alike::Far];

/// A header whose checksum is right at `position`; its body's is not.
fn forged(key: Key, position: u64, header: &RecordHeader) -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    record::encode(
        &mut bytes,
        key,
        position,
        &RecordHeader { payload_len: 0, ..*header },
        &[],
        &[],
    );
    bytes[8..12].copy_from_slice(&header.payload_len.to_le_bytes());
    bytes[..4].fill(0);
    let (unkeyed, _) = record::derive_key(&bytes, position).unwrap();
    bytes[..4].copy_from_slice(&(unkeyed.0 ^ key.0).to_le_bytes());
    bytes
}

/// `len` bytes for the place `from` of a file, behind a Stop at `stop` where the record `next` is missing.
fn full_of(alike: Alike, len: usize, from: u64, stop: u64, next: u32) -> Vec<u8> {
    let generation = generation(3);
    let own = Key::new(LOG, generation, Offset(0));
    if alike == Alike::Generation {
        let mut fake = [0xff; 8];
        fake[4..6].copy_from_slice(&generation.get().to_le_bytes());
        fake[6..8].copy_from_slice(&1u16.to_le_bytes());
        return fake.iter().copied().cycle().take(len).collect();
    }
    let mut bytes = Vec::with_capacity(len);
    // Further on they would claim: no writer stages a record more than the window past what is durable.
    while bytes.len() + HEADER_LEN <= len && from + bytes.len() as u64 <= stop + WINDOW {
        let position = from + bytes.len() as u64;
        let payload_len = if alike == Alike::Far { LARGE - position - 64 } else { 8 };
        let header = RecordHeader {
            payload_len: payload_len as u32,
            headers_len: 0,
            generation,
            unsynced: (position - stop).min(WINDOW) as u32,
            relative: next + 1 + (bytes.len() / HEADER_LEN) as u32,
            millis: 1,
        };
        let key =
            if alike == Alike::OtherLog { Key::new(OTHER, generation, Offset(0)) } else { own };
        let at = position + if alike == Alike::Elsewhere { 8 } else { 0 };
        bytes.extend_from_slice(&forged(key, at, &header));
    }
    bytes.resize(len, 0xff);
    bytes
}

/// Bytes asked for, and calls, of all reads while `run` runs.
fn reads<T>(fs: &SimFileSystem, run: impl FnOnce() -> T) -> (u64, usize, T) {
    fs.record(true);
    let done = run();
    let trace = fs.trace();
    fs.record(false);
    let reads = trace.iter().filter(|op| op.kind == OpKind::Read);
    let (bytes, calls) = reads.fold((0, 0), |(bytes, calls), op| (bytes + op.len, calls + 1));
    (bytes, calls, done)
}

/// A log with records in front, and then one whose payload is full of look-alikes, written and not confirmed. Gives where
/// it stands and ends.
fn torn_over(alike: Alike, fs: &SimFileSystem, records: u64) -> (u64, u64) {
    let mut file = begin(0);
    file.capacity = LARGE;
    let mut writer = file.take(fs);
    for _ in 0..records {
        writer.append(&[1; 64 * 1024]);
    }
    let stop = writer.position;
    let payload = full_of(alike, PAYLOAD, stop + HEADER_LEN as u64, stop, records as u32);
    writer.stage(&payload);
    writer.write().unwrap();
    let end = writer.position;
    fs.process_death();
    (stop, end)
}

#[test]
fn i12_look_alikes_behind_a_torn_record_cost_two_windows_and_no_more() {
    for alike in ALIKE {
        for (records, lost_header) in [(3, true), (30, true), (3, false), (30, false)] {
            let case = format!("{alike:?}, {records} records, header lost: {lost_header}");
            let fs = machine(1);
            let (stop, end) = torn_over(alike, &fs, records);
            let lost = if lost_header { stop..stop + HEADER_LEN as u64 } else { end - 512..end };
            fs.zero(path_of(0), lost).unwrap();
            let (bytes, calls, found) = reads(&fs, || try_recover(&fs, LARGE).unwrap());
            assert_eq!(next_of(&found), records, "{case}: {:?}", found.tail);
            assert!(matches!(found.tail, Tail::Open { .. }), "{case}: {:?}", found.tail);
            // The records, twice where nothing vouches for them; the torn one, if its header says how long it is; the
            // window to look, the one behind the torn record, and the one to zero.
            let in_front = stop - RECORDS_POSITION;
            let torn = if lost_header { 0 } else { end - stop };
            let most = in_front + 2 * in_front.min(WINDOW) + torn + 3 * WINDOW + SLACK;
            println!("{case}: {bytes} bytes of at most {most} in {calls} reads");
            assert!(bytes <= most, "{case}: {bytes} bytes, at most {most}");
            assert!(calls as u64 <= 32 + most / (64 * 1024), "{case}: {calls} reads");
            // Each position is looked at once in each window, and a header is 32 bytes.
            let written = found.report.bytes_written_again;
            assert!(written <= in_front.min(WINDOW) + WINDOW + SLACK, "{case}: {written} written");
            // What was zeroed does not come back, so the next start has nothing of it to do.
            fs.power_cut(&mut AllPersisted);
            let again = try_recover(&fs, LARGE).unwrap();
            assert_eq!(again.report.positions_zeroed, 0, "{case}");
            assert_eq!(again.tail, found.tail, "{case}");
        }
    }
}

#[test]
fn i12_look_alikes_behind_a_lost_header_cost_a_fixed_sum_of_bodies() {
    // How long each says that its body is. Long ones use the sum up soon; short ones are many.
    for (len, proven) in
        [(1 << 20, false), (64 * 1024, false), (4096, false), (64, false), (4096, true), (64, true)]
    {
        let case = format!("bodies of {len} bytes, a whole record at the end: {proven}");
        let fs = machine(1);
        let mut file = begin(0);
        file.capacity = LARGE;
        let open = file.place(&fs, &file.spare());
        let generation = generation(3);
        let key = Key::new(OTHER, generation, Offset(5));
        let mut bytes = Vec::new();
        let mut at = RECORDS_POSITION;
        while at < RECORDS_POSITION + WINDOW {
            let header = RecordHeader {
                payload_len: len,
                headers_len: 0,
                generation,
                unsynced: 0,
                relative: ((at - RECORDS_POSITION) / HEADER_LEN as u64) as u32,
                millis: 1,
            };
            bytes.extend_from_slice(&forged(key, at, &header));
            at += HEADER_LEN as u64;
        }
        if proven {
            let last = bytes.len() - HEADER_LEN;
            let header = RecordHeader {
                payload_len: 0,
                headers_len: 0,
                generation,
                unsynced: 0,
                relative: (last / HEADER_LEN) as u32,
                millis: 1,
            };
            let position = RECORDS_POSITION + last as u64;
            record::encode(&mut bytes[last..], key, position, &header, &[], &[]);
        }
        open.write_at(RECORDS_POSITION, &bytes).unwrap();
        open.write_at(0, &[0; 4096]).unwrap();
        open.sync().unwrap();
        fs.process_death();
        let look = || crate::recovery::look(&fs, Path::new(DIR)).unwrap();
        let (bytes, calls, look) = reads(&fs, look);
        // The window to find a key, four windows of bodies, and two more windows where one is proved. Then the file is
        // damaged, and what looks like damage is looked at a second time.
        let most = (WINDOW + 4 * WINDOW + 2 * WINDOW + SLACK) * if proven { 2 } else { 1 };
        println!("{case}: {bytes} bytes of at most {most} in {calls} reads, {:?}", look.damage);
        assert!(bytes <= most, "{case}: {bytes} bytes, at most {most}");
        // A body is read a block at a time, and padded: two calls for each, one more for each block.
        let positions = WINDOW / HEADER_LEN as u64 + 1;
        let once = 2 * positions + 4 * WINDOW / 4096 + 64;
        assert!(calls as u64 <= once * if proven { 2 } else { 1 }, "{case}: {calls} reads");
    }
}
