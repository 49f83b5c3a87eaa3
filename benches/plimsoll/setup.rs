//! Where and how large.

use plimsoll::types::SizeClass;
use plimsoll::{Log, LogName, LogOptions, NewRecord, Node, NodeOptions, WriteClass};
use std::path::{Path, PathBuf};

/// What the environment says.
#[derive(Debug)]
pub(crate) struct Settings {
    dir: PathBuf,
    pub(crate) small: bool,
    pub(crate) rounds: usize,
}

impl Settings {
    pub(crate) fn from_environment() -> Self {
        let default = || {
            let program = std::env::current_exe().unwrap();
            program.parent().unwrap().join("plimsoll-bench")
        };
        let rounds = std::env::var("PLIMSOLL_BENCH_ROUNDS").ok();
        let rounds = rounds.map_or(9, |rounds| rounds.parse().expect("a number of rounds"));
        Self {
            dir: std::env::var_os("PLIMSOLL_BENCH_DIR").map_or_else(default, PathBuf::from),
            small: std::env::var_os("PLIMSOLL_BENCH_SMALL").is_some_and(|set| set != "0"),
            rounds: rounds.max(7),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// An empty directory of this process, removed with all that is in it when dropped.
    pub(crate) fn scratch(&self, name: &str) -> Scratch {
        let path = self.dir.join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

/// See [`Settings::scratch`].
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn name(name: &str) -> LogName {
    LogName::new(name).unwrap()
}

/// A node with default options.
pub(crate) fn node(dir: &Path) -> Node {
    Node::open(dir.join("data"), NodeOptions::default()).unwrap()
}

/// A log that has grown into its first main file, where what is measured is not the taking of files.
pub(crate) fn grown_log(node: &Node, log: &str) -> Log {
    let log = node.open_log(&name(log), LogOptions::default()).unwrap();
    let payload = vec![0x5a; 64 << 10];
    let batch = [NewRecord::new(&payload); 16];
    while log.segments().last().is_none_or(|last| last.class != SizeClass::Main) {
        log.publish(WriteClass::Publish, &batch).unwrap();
    }
    log
}

/// Bytes that do not compress.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..len).map(|_| step()).collect()
}
