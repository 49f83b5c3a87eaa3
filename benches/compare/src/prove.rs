//! Whether each system syncs as often as it says: the system calls of some appends, as `strace` sees them.

use crate::child::{Job, PROOF, PROOF_BEGINS, PROOF_ENDS, Phase};
use crate::run::{self, Scratch, Setting, answer};
use crate::systems::{Role, System};
use crate::workload::{Kind, Workload};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::BufReader;
use std::process::{Command, Stdio};

/// What is traced: all that syncs, what opens a file in a way that makes writes sync, and the marks.
const CALLS: &str = "access,faccessat,faccessat2,open,openat,openat2,creat,close,dup,fcntl,fsync,fdatasync,msync,sync_file_range,syncfs,sync,write,pwrite64,writev,pwritev,pwritev2,io_uring_enter";

/// What a trace holds between the marks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls(BTreeMap<&'static str, usize>);

impl Calls {
    fn count(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }

    fn total(&self) -> usize {
        self.0.values().sum()
    }
}

/// Reads a trace of `strace -f`: a process, a call, its arguments.
pub(crate) fn read(trace: &str) -> Calls {
    let mut calls = Calls::default();
    let mut between = false;
    // Descriptors whose writes sync.
    let mut syncing = BTreeSet::new();
    for line in trace.lines() {
        let line = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        let Some((name, rest)) = line.split_once('(') else { continue };
        if line.contains(PROOF_BEGINS) {
            between = true;
            continue;
        }
        if line.contains(PROOF_ENDS) {
            break;
        }
        let first = rest.split([',', ')']).next().unwrap_or_default();
        if matches!(name, "open" | "openat" | "openat2" | "creat") {
            let opened = rest.rsplit_once("= ").map(|(_, fd)| fd.trim().to_owned());
            if let Some(fd) = opened.filter(|fd| fd.parse::<u32>().is_ok()) {
                if rest.contains("O_DSYNC") || rest.contains("O_SYNC") {
                    syncing.insert(fd);
                } else {
                    syncing.remove(&fd);
                }
            }
        }
        if !between {
            continue;
        }
        match name {
            "fsync" => calls.count("fsync"),
            "fdatasync" => calls.count("fdatasync"),
            "syncfs" | "sync" => calls.count("syncfs"),
            "msync" if rest.contains("MS_SYNC") => calls.count("msync"),
            "sync_file_range" => calls.count("sync_file_range"),
            "io_uring_enter" => calls.count("io_uring_enter"),
            "pwritev2" if rest.contains("RWF_DSYNC") || rest.contains("RWF_SYNC") => {
                calls.count("pwritev2 RWF_DSYNC");
            }
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" if syncing.contains(first) => {
                calls.count("write to O_SYNC");
            }
            _ => {}
        }
    }
    calls
}

/// What it means of a system.
fn verdict(system: &System, calls: &Calls) -> &'static str {
    // An index that is mapped is not the records.
    let of_records = calls.total() - calls.0.get("msync").copied().unwrap_or(0);
    match (of_records >= PROOF, system.durable) {
        (true, true) => "at least one for each append",
        (false, false) => "not durable, and not taken for it",
        (true, false) => "SYNCS, but is said not to",
        (false, true) => "TOO FEW",
    }
}

/// Traces the single writer of each system. Gives the report, and whether all is as it is said to be.
pub(crate) fn run(setting: &Setting, of: &Workload, systems: &[System]) -> (String, bool) {
    let mut report = format!(
        "Syncing system calls of {PROOF} durable appends of {} bytes by one writer, as strace sees them\n\n{:28} {:>8} {:>8}\n",
        of.kind.payload(),
        "system",
        "appends",
        "syncs"
    );
    let mut fine = true;
    for system in systems {
        if (system.leaves_out)(Kind::Single { payload: of.kind.payload() }).is_some() {
            continue;
        }
        let scratch = Scratch::new(setting, &format!("prove-{}", system.name));
        let dir = scratch.path().join("data");
        std::fs::create_dir_all(&dir).unwrap();
        let job = Job {
            system: system.name.to_owned(),
            workload: of.id.to_owned(),
            dir,
            scale: setting.scale,
            phase: Phase::Prove,
        };
        let trace = scratch.path().join("trace");
        let plain = run::command(setting, &job, 0);
        let mut traced = Command::new("strace");
        traced.args(["-f", "-qq", "--signal=none", "-s", "64", "-e"]).arg(format!("trace={CALLS}"));
        traced.arg("-o").arg(&trace);
        for (name, value) in plain.get_envs() {
            if let Some(value) = value {
                // Of the child, not of strace.
                let mut pair = name.to_owned();
                pair.push("=");
                pair.push(value);
                traced.arg("-E").arg(pair);
            }
        }
        traced.arg("--").arg(plain.get_program()).args(plain.get_args());
        traced.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = traced.spawn().expect("strace");
        let done = answer(&mut BufReader::new(child.stdout.take().unwrap()));
        let _ = child.wait();
        let calls = read(&std::fs::read_to_string(&trace).unwrap_or_default());
        let (appends, says) = match done {
            Some(turn) => (turn.done, verdict(system, &calls)),
            None => (0, "FAILED"),
        };
        fine &= !says.starts_with(|c: char| c.is_ascii_uppercase());
        let kinds: Vec<String> =
            calls.0.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let role = if system.role == Role::Floor { "" } else { system.mode };
        let line = format!(
            "{:28} {appends:>8} {:>8}  {says} ({})  {role}",
            system.name,
            calls.total(),
            kinds.join(", ")
        );
        println!("{}", line.trim_end());
        let _ = writeln!(report, "{}", line.trim_end());
    }
    (report, fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_counts() {
        let trace = format!(
            "10 fdatasync(3) = 0\n\
             10 openat(AT_FDCWD, \"a\", O_RDWR|O_SYNC) = 7\n\
             10 openat(AT_FDCWD, \"b\", O_RDWR) = 8\n\
             10 access(\"{PROOF_BEGINS}\", F_OK) = -1 ENOENT\n\
             10 pwrite64(7, \"x\", 1, 0) = 1\n\
             10 pwrite64(8, \"x\", 1, 0) = 1\n\
             11 fdatasync(3 <unfinished ...>\n\
             11 <... fdatasync resumed>) = 0\n\
             10 pwritev2(5, [{{iov_base=\"\", iov_len=1}}], 1, 0, RWF_DSYNC) = 1\n\
             10 pwritev2(5, [{{iov_base=\"\", iov_len=1}}], 1, 0, 0) = 1\n\
             10 msync(0x7f, 4096, MS_ASYNC) = 0\n\
             10 access(\"{PROOF_ENDS}\", F_OK) = -1 ENOENT\n\
             10 fsync(3) = 0\n"
        );
        let calls = read(&trace);
        let expected =
            BTreeMap::from([("fdatasync", 1), ("pwritev2 RWF_DSYNC", 1), ("write to O_SYNC", 1)]);
        assert_eq!(calls.0, expected);
    }
}
