//! The simulator against two independent judges: the kernel, and a list of what the file was after each write.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll::fs::sim::{
    AllPersisted, Count, Names, NothingPersisted, Profile, Scripted, Sectors, Seeded, SimFileSystem,
};
use plimsoll::fs::{File, FileSystem, OsFileSystem};
use proptest::prelude::*;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A failing case is printed with its calls; a regression that it shows becomes a test of its own.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() }
}

#[derive(Clone, Debug)]
enum Call {
    Create(usize),
    CreateDir(usize),
    Rename(usize, usize),
    RemoveFile(usize),
    RemoveDir(usize),
    List(usize),
    Kind(usize),
    SyncDir(usize),
    OpenWrite(usize),
    OpenRead(usize),
    Write(u64, u8, usize),
    Read(u64, usize),
    SetLen(u64),
    Sync,
}

/// Few enough to collide, deep enough for directories in directories.
const NAMES: [&str; 9] = ["a", "b", "c", "d", "d/a", "d/e", "d/e/a", "b/a", "c/b/a"];

fn call() -> impl Strategy<Value = Call> {
    let name = || 0..NAMES.len();
    prop_oneof![
        3 => name().prop_map(Call::Create),
        3 => name().prop_map(Call::CreateDir),
        4 => (name(), name()).prop_map(|(from, to)| Call::Rename(from, to)),
        2 => name().prop_map(Call::RemoveFile),
        2 => name().prop_map(Call::RemoveDir),
        1 => name().prop_map(Call::List),
        1 => name().prop_map(Call::Kind),
        1 => name().prop_map(Call::SyncDir),
        2 => name().prop_map(Call::OpenWrite),
        1 => name().prop_map(Call::OpenRead),
        4 => (0..12_000_u64, any::<u8>(), 0..9000_usize).prop_map(|(p, b, n)| Call::Write(p, b, n)),
        2 => (0..15_000_u64, 0..9000_usize).prop_map(|(p, n)| Call::Read(p, n)),
        2 => (0..15_000_u64).prop_map(Call::SetLen),
        1 => Just(Call::Sync),
    ]
}

/// Does one call and tells what came of it; `open` is the file last opened.
fn answer(
    fs: &dyn FileSystem,
    dir: &Path,
    open: &mut Option<Arc<dyn File>>,
    call: &Call,
) -> String {
    let at = |name: &usize| dir.join(NAMES[*name]);
    let mut keep = |file: io::Result<Arc<dyn File>>| file.map(|file| *open = Some(file));
    let show = |result: io::Result<String>| match result {
        Ok(text) => text,
        Err(error) => error.raw_os_error().map_or(format!("{:?}", error.kind()), |n| n.to_string()),
    };
    let unit = |result: io::Result<()>| show(result.map(|()| "done".to_string()));
    match call {
        Call::Create(name) => unit(keep(fs.create(&at(name)))),
        Call::OpenWrite(name) => unit(keep(fs.open_write(&at(name)))),
        Call::OpenRead(name) => unit(keep(fs.open_read(&at(name)))),
        Call::CreateDir(name) => unit(fs.create_dir(&at(name))),
        Call::Rename(from, to) => unit(fs.rename(&at(from), &at(to))),
        Call::RemoveFile(name) => unit(fs.remove_file(&at(name))),
        Call::RemoveDir(name) => unit(fs.remove_dir(&at(name))),
        Call::List(name) => show(fs.list(&at(name)).map(|entries| format!("{entries:?}"))),
        Call::Kind(name) => show(fs.metadata(&at(name)).map(|found| format!("{:?}", found.kind))),
        Call::SyncDir(name) => unit(fs.sync_dir(&at(name))),
        Call::Write(position, byte, count) => match open {
            Some(file) => unit(file.write_at(*position, &vec![*byte; *count])),
            None => String::new(),
        },
        Call::Read(position, count) => match open {
            Some(file) => {
                let mut into = vec![0; *count];
                let read = file.read_at(*position, &mut into);
                show(read.map(|read| format!("{:?} of {}", &into[..read], file.len().unwrap())))
            }
            None => String::new(),
        },
        Call::SetLen(len) => open.as_ref().map_or(String::new(), |file| unit(file.set_len(*len))),
        Call::Sync => open.as_ref().map_or(String::new(), |file| unit(file.sync())),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn fs_simulated_calls_answer_as_the_kernel_does(
        calls in prop::collection::vec(call(), 1..60),
    ) {
        let temp = tempfile::tempdir().unwrap();
        let simulated = SimFileSystem::new(1);
        simulated.prepare_dir("/bench").unwrap();
        let bench = PathBuf::from("/bench");
        let (mut ours, mut theirs) = (None, None);
        for call in &calls {
            let our = answer(&simulated, &bench, &mut ours, call);
            let their = answer(&OsFileSystem, temp.path(), &mut theirs, call);
            prop_assert_eq!(our, their, "{:?}", call);
        }
    }
}

#[derive(Clone, Debug)]
enum Edit {
    Write(u64, u8, usize),
    SetLen(u64),
    Sync,
    Restart,
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        6 => (0..9000_u64, any::<u8>(), 1..1500_usize).prop_map(|(p, b, n)| Edit::Write(p, b, n)),
        2 => (0..10_000_u64).prop_map(Edit::SetLen),
        1 => Just(Edit::Sync),
        1 => Just(Edit::Restart),
    ]
}

const PATH: &str = "/d/file";

/// Runs the edits; gives the machine and what the file was at the last sync and after each edit since.
fn edited(edits: &[Edit]) -> (SimFileSystem, Vec<Vec<u8>>) {
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/d").unwrap();
    let mut file = fs.create(Path::new(PATH)).unwrap();
    fs.sync_dir(Path::new("/d")).unwrap();
    let mut now = Vec::new();
    let mut since = vec![now.clone()];
    for edit in edits {
        match edit {
            Edit::Write(position, byte, count) => {
                file.write_at(*position, &vec![*byte; *count]).unwrap();
                let start = usize::try_from(*position).unwrap();
                now.resize(now.len().max(start + count), 0);
                now[start..start + count].fill(*byte);
                since.push(now.clone());
            }
            Edit::SetLen(len) => {
                file.set_len(*len).unwrap();
                now.resize(usize::try_from(*len).unwrap(), 0);
                since.push(now.clone());
            }
            Edit::Sync => {
                file.sync().unwrap();
                since = vec![now.clone()];
            }
            Edit::Restart => {
                fs.process_death();
                file = fs.open_write(Path::new(PATH)).unwrap();
            }
        }
        assert_eq!(fs.cached(PATH).unwrap(), now);
    }
    (fs, since)
}

/// One unit of a file as it would be read in a file of `len` bytes.
fn unit_of(bytes: &[u8], start: usize, unit: usize, len: usize) -> Vec<u8> {
    let mut padded =
        bytes.get(start..).map_or(Vec::new(), |rest| rest[..rest.len().min(unit)].to_vec());
    padded.resize(unit.min(len - start), 0);
    padded
}

fn after(
    fs: &SimFileSystem,
    sectors: Sectors,
    chooser: &mut dyn plimsoll::fs::sim::Chooser,
) -> Vec<u8> {
    let world = fs.fork();
    world.set_profile(Profile { sectors, names: Names::Subset });
    world.power_cut(chooser);
    assert_eq!(world.cached(PATH).unwrap(), world.durable(PATH).unwrap());
    world.cached(PATH).unwrap()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn fs_a_power_cut_leaves_only_what_was_there_since_the_sync(
        edits in prop::collection::vec(edit(), 1..14),
        seed in any::<u64>(),
    ) {
        let (fs, since) = edited(&edits);
        for (sectors, unit) in [(Sectors::Torn512, 512), (Sectors::Atomic4K, 4096)] {
            prop_assert_eq!(&after(&fs, sectors, &mut NothingPersisted), &since[0]);
            prop_assert_eq!(&after(&fs, sectors, &mut AllPersisted), since.last().unwrap());
            let left = after(&fs, sectors, &mut Seeded::new(seed));
            prop_assert!(since.iter().any(|then| then.len() == left.len()));
            for start in (0..left.len()).step_by(unit) {
                let found = unit_of(&left, start, unit, left.len());
                let then = |then: &Vec<u8>| unit_of(then, start, unit, left.len()) == found;
                prop_assert!(since.iter().any(then), "unit at {}", start);
            }
        }
        let left = after(&fs, Sectors::Prefix, &mut Seeded::new(seed));
        prop_assert!(since.contains(&left));
    }

    #[test]
    fn fs_every_version_of_every_sector_can_survive(
        edits in prop::collection::vec(edit(), 1..5),
    ) {
        let (fs, since) = edited(&edits);
        let mut count = Count::default();
        after(&fs, Sectors::Torn512, &mut count);
        prop_assume!(count.outcomes <= 4096);
        let mut script = Scripted::default();
        let mut outcomes = Vec::new();
        loop {
            outcomes.push(after(&fs, Sectors::Torn512, &mut script));
            if !script.advance() {
                break;
            }
        }
        for then in &since {
            prop_assert!(outcomes.iter().any(|left| left.len() == then.len()));
            for start in (0..then.len()).step_by(512) {
                let wanted = &then[start..then.len().min(start + 512)];
                let found = outcomes.iter().any(|left| {
                    left.len() == then.len() && &left[start..then.len().min(start + 512)] == wanted
                });
                prop_assert!(found, "sector at {}", start);
            }
        }
    }
}
