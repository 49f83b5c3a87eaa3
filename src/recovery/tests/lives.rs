//! Random lives of one log: appends, rolls into reused files, truncation, crashes anywhere, failed syncs in recovery.

use super::support::*;
use crate::format::RECORDS_POSITION;
use crate::format::record;
use crate::fs::FileSystem;
use crate::fs::sim::{Fault, OpKind, Reached, Seeded, SimFileSystem, What};
use crate::recovery::{Recovered, Tail, check_segment, look};
use std::io;
use std::path::{Path, PathBuf};

/// A generator good enough to vary a test (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// How much of a write a death in the middle of it leaves: a kernel copies whole pages, so no sector is torn.
fn part_of_a_write(dice: &mut Dice) -> usize {
    dice.below(10) as usize * 512
}

/// What the log's owner knows, outside the file system.
#[derive(Default)]
struct Owner {
    /// Every record that was confirmed or shown, from offset 0 on, those freed included.
    certain: Vec<Seen>,
    /// Records appended after those, of which nothing is known.
    pending: Vec<Seen>,
    /// Below this all was freed on purpose.
    first: u64,
    stamp: u64,
}

impl Owner {
    /// Checks what a recovery shows. Where the log opened for reading, what is certain may be hidden, not changed.
    fn check(&mut self, seen: &[Seen], read_only: bool, what: &str) {
        let start = seen.first().map_or(self.certain.len() as u64, |seen| seen.offset);
        assert!(start <= self.first || read_only, "{what}: begins at {start}, not {}", self.first);
        let whole = [&self.certain[..], &self.pending[..]].concat();
        let end = start as usize + seen.len();
        assert!(end <= whole.len(), "{what}: more than was appended");
        assert_eq!(seen, &whole[start as usize..end], "{what}");
        if !read_only {
            assert!(end >= self.certain.len(), "{what}: {end} of {}", self.certain.len());
            self.certain = whole[..end].to_vec();
            self.pending.clear();
        }
    }
}

struct Life<'a> {
    fs: &'a SimFileSystem,
    dice: &'a mut Dice,
    owner: &'a mut Owner,
    /// Given-up files and the generation of their next use.
    spares: &'a mut Vec<(PathBuf, u16)>,
    segments: Vec<(u64, PathBuf, u16)>,
    writer: Writer,
}

impl Life<'_> {
    fn step(&mut self) -> io::Result<()> {
        match self.dice.below(8) {
            0 => self.truncate(),
            1 => {
                self.writer.checkpoint_unsynced();
                Ok(())
            }
            _ => self.batch(),
        }
    }

    fn batch(&mut self) -> io::Result<()> {
        for _ in 0..=self.dice.below(4) {
            let len = [0, 8, 100, 480, 1000, 3000][self.dice.below(6) as usize];
            if self.writer.position + record::record_len(0, len) > CAPACITY {
                break;
            }
            self.owner.stamp += 1;
            let millis = self.owner.stamp;
            // Few different payloads, so that an old one often fits where a new one is missing.
            let payload = vec![self.dice.below(2) as u8; len];
            let offset = self.writer.next;
            self.owner.pending.push(Seen { offset, millis, payload: payload.clone() });
            self.writer.stage_at(millis, &payload);
        }
        self.writer.commit()?;
        let pending = std::mem::take(&mut self.owner.pending);
        self.owner.certain.extend(pending);
        if self.writer.position > CAPACITY - 4000 { self.roll() } else { Ok(()) }
    }

    fn roll(&mut self) -> io::Result<()> {
        let mut next = begin(self.writer.next);
        let dirs = [Path::new(DIR), Path::new(SPARES)];
        let file = if let Some((path, generation)) = self.spares.pop() {
            next.generation = generation;
            let file = self.fs.open_write(&path)?;
            self.fs.rename(&path, &next.path)?;
            file
        } else {
            let path = Path::new(SPARES).join(format!("new-{}", self.writer.next));
            // An earlier life may have left one; the pool would have taken it over.
            let _ = self.fs.remove_file(&path);
            let file = self.fs.create(&path)?;
            file.set_len(CAPACITY)?;
            file.write_at(0, &next.spare().encode())?;
            file.sync()?;
            self.fs.sync_dir(Path::new(SPARES))?;
            self.fs.rename(&path, &next.path)?;
            file
        };
        // Before anything in it is confirmed; here even before it is written.
        dirs.iter().try_for_each(|dir| self.fs.sync_dir(dir))?;
        self.segments.push((next.base, next.path.clone(), next.generation));
        self.writer = next.reuse(file);
        Ok(())
    }

    /// Frees the first segment, and makes a spare of it.
    fn truncate(&mut self) -> io::Result<()> {
        // The last one stays, and the header of the one before is durable only with a commit.
        if self.segments.len() < 2 || self.writer.begun.is_empty() {
            return Ok(());
        }
        let (base, path, generation) = self.segments.remove(0);
        self.owner.first = self.segments[0].0;
        let spare = Path::new(SPARES).join(format!("freed-{base}"));
        self.fs.rename(&path, &spare)?;
        self.fs.sync_dir(Path::new(SPARES))?;
        self.fs.sync_dir(Path::new(DIR))?;
        let mut header = begin(0);
        header.generation = generation + 1;
        let file = self.fs.open_write(&spare)?;
        file.write_at(0, &header.spare().encode())?;
        file.sync()?;
        self.spares.push((spare, generation + 1));
        Ok(())
    }
}

/// Lives `lives` lives; gives how many ended in a crash inside recovery, and how many recoveries healed.
fn live(seed: u64, lives: u64) -> (u64, u64) {
    let mut dice = Dice(seed);
    let fs = machine(seed);
    let mut owner = Owner::default();
    let (mut crashed, mut healed) = (0, 0);
    begin(0).take(&fs).append(&[9; 10]);
    owner.certain.push(Seen { offset: 0, millis: 1, payload: vec![9; 10] });
    owner.stamp = 1;
    for life in 0..lives {
        let what = format!("seed {seed}, life {life}");
        if dice.one_in(3) {
            fs.crash_in_write(fs.ops() + dice.below(40), part_of_a_write(&mut dice));
        }
        if dice.one_in(4) {
            let reached = Reached::Some(dice.below(9));
            let fault = What::FailedSync { errno: libc::EIO, reached };
            fs.inject(Fault::nth(OpKind::Sync, dice.below(2), fault));
        }
        match try_recover(&fs, CAPACITY) {
            Err(error) => assert!(fs.is_dead(), "{what}: {error}"),
            Ok(found) => {
                assert!(!matches!(found.tail, Tail::Damaged { .. }), "{what}: {:?}", found.tail);
                let open = matches!(found.tail, Tail::Open { .. });
                healed += u64::from(open && found.report.healed.is_some());
                fs.clear_faults();
                if !fs.is_dead() {
                    fs.crash_at(u64::MAX);
                    owner.check(&records(&fs, &found), !open, &what);
                }
                if open && !fs.is_dead() {
                    run(&fs, &mut dice, &mut owner, &found, life);
                }
            }
        }
        crashed += u64::from(fs.is_dead());
        fs.clear_faults();
        if dice.one_in(2) {
            fs.process_death();
        } else {
            fs.power_cut(&mut Seeded::new(seed * 1000 + life));
        }
    }
    let found = recovered(&fs);
    assert!(matches!(found.tail, Tail::Open { .. }), "seed {seed}: {:?}", found.tail);
    owner.check(&records(&fs, &found), false, &format!("seed {seed}, the end"));
    rot(&fs, &mut dice, &owner, &format!("seed {seed}, rot"));
    (crashed, healed)
}

/// Flips a bit somewhere: what was vouched for is read back as it was, or the damage is found (I4).
fn rot(fs: &SimFileSystem, dice: &mut Dice, owner: &Owner, what: &str) {
    let look = look(fs, Path::new(DIR)).unwrap();
    let image = fs.snapshot();
    for flip in 0..20 {
        fs.restore(&image);
        let at = dice.below(look.segments.len() as u64) as usize;
        let segment = &look.segments[at];
        let ends = look.segments.get(at + 1).map_or(look.end().next, |next| next.previous_end);
        let position = dice.below(CAPACITY);
        fs.flip(&segment.path, position, 1 << dice.below(8)).unwrap();
        let what = format!("{what}, {flip}: {}, byte {position}", segment.path.display());
        let found = recovered(fs);
        if let Tail::Damaged { next, damage, .. } = &found.tail {
            assert_eq!(damage.file, segment.path, "{what}");
            assert!(*next <= ends, "{what}");
            continue;
        }
        let mut checks = found.segments.iter().enumerate().map(|(at, segment)| {
            let next = found.segments.get(at + 1);
            check_segment(fs, found.id.unwrap(), segment, next).unwrap().damage
        });
        if let Some(damage) = checks.find_map(|damage| damage) {
            assert_eq!(damage.file, segment.path, "{what}");
            continue;
        }
        // Nothing found: then nothing vouched for is changed, and at most the last batch is gone.
        let seen = records(fs, &found);
        let vouched = look.tail.unwrap().vouched.next.0;
        assert!(next_of(&found) >= vouched, "{what}: {} of {vouched}", next_of(&found));
        let start = seen.first().map_or(owner.certain.len() as u64, |seen| seen.offset) as usize;
        assert_eq!(seen, owner.certain[start..start + seen.len()], "{what}");
    }
}

fn run(fs: &SimFileSystem, dice: &mut Dice, owner: &mut Owner, found: &Recovered, life: u64) {
    let of = |segment: &crate::recovery::SegmentInfo| {
        (segment.base.0, segment.path.clone(), segment.generation.get())
    };
    let writer = Writer::resume(fs, found);
    assert!(writer.position >= RECORDS_POSITION);
    let mut spares = Vec::new();
    fs.crash_in_write(fs.ops() + 1 + dice.below(80), part_of_a_write(dice));
    let segments = found.segments.iter().map(of).collect();
    let mut life_of = Life { fs, dice, owner, spares: &mut spares, segments, writer };
    let end = loop {
        if let Err(error) = life_of.step() {
            break error;
        }
    };
    assert!(fs.is_dead(), "life {life} ends with a crash and nothing else: {end}");
}

/// A few of the lives of the test below, for a planted fault to show in.
pub(super) fn some() {
    for seed in 0..60 {
        live(seed, 12);
    }
}

#[test]
fn i1_i2_i3_i4_random_lives() {
    let (mut crashed, mut healed) = (0, 0);
    for seed in 0..60 {
        let (more_crashed, more_healed) = live(seed, 12);
        crashed += more_crashed;
        healed += more_healed;
    }
    assert!(crashed > 100 && healed > 15, "{crashed} crashes, {healed} heals");
}
