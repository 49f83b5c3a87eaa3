//! The publisher, the one who acknowledges, and later the consumer, in turns; and what they are told.

use crate::place::Place;
use plimsoll::error::AppendError;
use plimsoll::fs::{FileSystem, OsFileSystem};
use plimsoll::permit::Decision;
use plimsoll::pressure::Thresholds;
use plimsoll::{Level, Limited, Log, LogName, LogOptions, NewRecord, Node, WriteClass};
use std::error::Error;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A row of the numbers covers so much time.
const ROW: Duration = Duration::from_millis(100);
/// A publisher that is not slowed: 8 MiB a second.
const EVERY: Duration = Duration::from_millis(8);
const RECORD: usize = 65_000;
/// It is refused for so long before anybody reads the log.
const NOBODY_READS: Duration = Duration::from_secs(4);
/// What a consumer is done with in one [`ROW`], then.
const CONSUMED: u64 = 3 << 20;
const AFTERWARDS: Duration = Duration::from_secs(3);
const LONGEST: Duration = Duration::from_secs(60);

/// What happened in one [`ROW`].
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) seconds: f64,
    pub(crate) free: u64,
    pub(crate) level: Level,
    pub(crate) published: u32,
    pub(crate) delay: Duration,
    pub(crate) refused: u32,
    pub(crate) acknowledged: u32,
}

impl Row {
    /// Of each publish, on the average.
    pub(crate) fn delay_ms(&self) -> f64 {
        self.delay.as_secs_f64() * 1_000.0 / f64::from(self.published.max(1))
    }
}

pub(crate) struct Told {
    pub(crate) lines: Thresholds,
    pub(crate) total: u64,
    pub(crate) rows: Vec<Row>,
    /// When the log began to be truncated, in seconds.
    pub(crate) truncated: f64,
}

/// Publishes one record as a broker would that must not block: admitted now, or after a delay that the caller waits out.
fn publish(log: &Log, payload: &[u8]) -> Result<Result<Duration, Limited>, Box<dyn Error>> {
    let (permit, delay) = match log.admit(WriteClass::Publish, payload.len() as u64) {
        Decision::Admit(permit) => (permit, Duration::ZERO),
        Decision::Delay { wait, permit } => (permit, wait),
        Decision::Refuse(limited) => return Ok(Err(limited)),
    };
    sleep(delay);
    match log.append(permit, &[NewRecord::new(payload)]) {
        Ok(ticket) => ticket.wait().map(|_| Ok(delay)).map_err(Into::into),
        // The log would need a new file, and that would come to hard.
        Err(AppendError::Limited(limited)) => Ok(Err(limited)),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn run(place: &Place) -> Result<Told, Box<dyn Error>> {
    let node = Node::open(&place.data, place.options.clone())?;
    let open = |name: &str| -> Result<Log, Box<dyn Error>> {
        Ok(node.open_log(&LogName::new(name)?, LogOptions::default())?)
    };
    let (heap, acks) = (open("nobody-reads-this")?, open("acks")?);
    // What is kept back is made before.
    while node.stats().pools.iter().any(|pool| pool.kept_back_missing > 0) {
        sleep(Duration::from_millis(20));
    }
    let disk = &node.pressure().disks[0];
    let (lines, total) = (disk.thresholds, disk.total);
    let payload = vec![0x2a; RECORD];
    let begun = Instant::now();
    let row = |seconds| Row {
        seconds,
        free: 0,
        level: Level::Ok,
        published: 0,
        delay: Duration::ZERO,
        refused: 0,
        acknowledged: 0,
    };
    let (mut rows, mut now) = (Vec::new(), row(0.0));
    let mut table = Table::default();
    let (mut first_refusal, mut truncated, mut well) = (None, None, None);
    let mut next_publish = Duration::ZERO;
    while begun.elapsed() < LONGEST {
        let time = begun.elapsed();
        if time >= next_publish {
            match publish(&heap, &payload)? {
                Ok(delay) => {
                    now.published += 1;
                    now.delay += delay;
                    next_publish = time + EVERY;
                }
                Err(limited) => {
                    now.refused += 1;
                    // To be seen, it does not wait as long as it is told.
                    next_publish = time + ROW / 2;
                    if first_refusal.is_none() {
                        first_refusal = Some(time);
                        table.say(&limited.to_string());
                    }
                }
            }
        }
        let time = begun.elapsed();
        if truncated.is_none() && first_refusal.is_some_and(|at| time - at >= NOBODY_READS) {
            truncated = Some(time);
            table.say("the log is read at last, and truncated: 3 MiB in each tenth of a second");
        }
        if time.as_secs_f64() - now.seconds >= ROW.as_secs_f64() {
            acks.publish(WriteClass::Acknowledge, &[NewRecord::new(b"done")])?;
            now.acknowledged += 1;
            let segments = heap.segments();
            if truncated.is_some() {
                let mut bytes = 0;
                let read = segments.iter().find(|segment| {
                    bytes += segment.capacity;
                    bytes > CONSUMED
                });
                heap.truncate_before(read.or(segments.last()).map_or(heap.head(), |one| one.base))?;
            }
            now.free = OsFileSystem.space(&place.data)?.available;
            now.level = node.pressure().level;
            table.row(&now);
            // It is over when all is as it was for a while.
            match now.level == Level::Ok && now.refused == 0 {
                true => well = well.or(Some(time)),
                false => well = None,
            }
            rows.push(std::mem::replace(&mut now, row(time.as_secs_f64())));
            let enough = |since: Option<Duration>| since.is_some_and(|at| time - at > AFTERWARDS);
            if truncated.is_some() && enough(well) {
                break;
            }
        }
        sleep(next_publish.saturating_sub(begun.elapsed()).min(EVERY));
    }
    drop((heap, acks));
    node.close()?;
    let truncated = truncated.map_or(0.0, |at| at.as_secs_f64());
    Ok(Told { lines, total, rows, truncated })
}

/// Prints a line for every half second.
#[derive(Default)]
struct Table {
    rows: Vec<Row>,
    headed: bool,
}

impl Table {
    fn row(&mut self, row: &Row) {
        if !self.headed {
            println!("  time   free MiB  level    published   delay ms  refused  acknowledged");
            self.headed = true;
        }
        self.rows.push(row.clone());
        if self.rows.len() < 5 {
            return;
        }
        let rows = std::mem::take(&mut self.rows);
        let sum = |of: fn(&Row) -> u32| rows.iter().map(of).sum::<u32>();
        let published = sum(|row| row.published);
        let delay: Duration = rows.iter().map(|row| row.delay).sum();
        let delay = delay.as_secs_f64() * 1_000.0 / f64::from(published.max(1));
        #[allow(clippy::cast_precision_loss, reason = "shown to a tenth")]
        let free = row.free as f64 / f64::from(1 << 20);
        println!(
            "{:>5.1} s {free:>9.1}  {:<8} {published:>8} {delay:>10.1} {:>8} {:>13}",
            row.seconds,
            row.level.to_string(),
            sum(|row| row.refused),
            sum(|row| row.acknowledged),
        );
    }

    fn say(&mut self, text: &str) {
        println!("        -- {text}");
    }
}
