//! What a trace of system calls proves: that each confirmation stood behind a sync which really happened.
//!
//! A sync that only pretends cannot be seen in what a killed process leaves, as the page cache survives it. In the order
//! of its calls it can. Pure: the text of `strace -f -y -o FILE`, no file and no process.

use super::lines::Answer;
use super::oracle::Violation;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// One system call. Moments are line numbers, so of one call `begin` is at most `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The thread.
    pub thread: u32,
    pub name: String,
    /// As printed.
    pub args: String,
    pub begin: usize,
    /// When it came back, and with what; `None` if the trace ends before.
    pub end: Option<(usize, String)>,
    /// The how-manieth of its name in its thread, from 1: what `when=` of strace counts.
    pub nth: u64,
}

impl Call {
    /// Whether strace put its own result in the place of the call.
    #[must_use]
    pub fn injected(&self) -> bool {
        self.end.as_ref().is_some_and(|(_, result)| result.contains("INJECTED"))
    }

    fn succeeded(&self) -> bool {
        self.end
            .as_ref()
            .is_some_and(|(_, result)| !result.starts_with('-') && !result.starts_with('?'))
    }

    /// The paths that it is about: those of descriptors, and names below them.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = Vec::new();
        // Names are relative to the descriptor before them.
        let mut base: Option<String> = None;
        for arg in split_args(&self.args) {
            if let Some(name) = arg.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
                match base.take() {
                    Some(dir) if !name.starts_with('/') => paths.push(format!("{dir}/{name}")),
                    _ => paths.push(name.to_owned()),
                }
            } else if let Some(path) = descriptor(arg) {
                base = Some(path.to_owned());
            }
            if self.name.contains("write") {
                break; // The rest is data.
            }
        }
        paths.extend(base);
        paths
    }

    /// Whether it is about something below `data`.
    #[must_use]
    pub fn is_inside(&self, data: &str) -> bool {
        self.paths().iter().any(|path| is_below(path, data))
    }
}

fn is_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// `5</a/b>` is a descriptor of `/a/b`.
fn descriptor(arg: &str) -> Option<&str> {
    let (_, rest) = arg.split_once('<')?;
    rest.split_once('>').map(|(path, _)| path)
}

/// Arguments at the top, up to four; commas in strings and brackets do not count.
fn split_args(args: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth, mut quoted, mut escaped) =
        (Vec::new(), 0, 0, false, false);
    for (at, byte) in args.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(args[from..at].trim());
                from = at + 1;
                if parts.len() == 4 {
                    return parts;
                }
            }
            _ => {}
        }
    }
    parts.push(args[from..].trim());
    parts
}

/// The calls of a trace, in the order in which they began.
#[must_use]
pub fn parse(trace: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut unfinished: HashMap<u32, usize> = HashMap::new();
    let mut counts: HashMap<(u32, String), u64> = HashMap::new();
    for (line, text) in trace.lines().enumerate() {
        let Some((thread, rest)) = text.split_once(' ') else { continue };
        let Ok(thread) = thread.parse::<u32>() else { continue };
        let rest = rest.trim_start();
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some((_, tail)) = resumed.split_once("resumed>") else { continue };
            let Some(call) = unfinished.remove(&thread).and_then(|at| calls.get_mut(at)) else {
                continue;
            };
            let (args, result) = split_result(tail);
            call.args.push_str(args);
            call.end = Some((line, result.to_owned()));
            continue;
        }
        let Some((name, tail)) = rest.split_once('(') else { continue };
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            continue; // A signal, or the end of a thread.
        }
        let nth = counts.entry((thread, name.to_owned())).or_default();
        *nth += 1;
        let (args, end) = match tail.strip_suffix("<unfinished ...>") {
            Some(args) => {
                unfinished.insert(thread, calls.len());
                (args.trim_end(), None)
            }
            None => {
                let (args, result) = split_result(tail);
                (args, Some((line, result.to_owned())))
            }
        };
        let (name, args, nth) = (name.to_owned(), args.to_owned(), *nth);
        calls.push(Call { thread, name, args, begin: line, end, nth });
    }
    calls
}

/// `…args) = result`.
fn split_result(tail: &str) -> (&str, &str) {
    match tail.rfind(" = ") {
        Some(at) => (tail[..at].trim_end().trim_end_matches(')'), tail[at + 3..].trim()),
        None => (tail, "?"),
    }
}

/// What was found in a trace.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Confirmations that were looked at.
    pub acks: u64,
    pub writes: u64,
    /// Syncs that happened.
    pub syncs: u64,
    pub violations: Vec<Violation>,
}

#[derive(Clone, Copy, Debug)]
struct Sync {
    begin: usize,
    /// When it came back with success, really done.
    done: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Written {
    file: usize,
    /// When the write was over.
    end: usize,
    /// It is its own sync (`RWF_DSYNC`), and nobody else's: of what was written before it says nothing.
    durable: bool,
}

#[derive(Debug, Default)]
struct File {
    path: String,
    syncs: Vec<Sync>,
    /// Directories that must be synced after a moment for the name to last.
    names: Vec<(String, usize)>,
    /// The line of a write or sync that failed: what the page cache holds of it proves nothing any more.
    failed: Option<usize>,
    /// That it was written again was said.
    told: bool,
}

#[derive(Debug, Default)]
struct Disk {
    files: Vec<File>,
    by_path: BTreeMap<String, usize>,
    /// Where the records of a log were written.
    written: HashMap<(String, u64), Vec<Written>>,
    found: Checked,
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Checks every `ack` that is written to standard output in the trace, for a data directory at the absolute path `data`.
///
/// - The record was written to a file below it.
/// - It was written with `RWF_DSYNC`, or the next sync of that file after the write came back with success before the `ack` began, and was not injected.
/// - No file is written again after a write or sync of it failed, unless it was opened anew, as recovery does.
/// - Every name that was made on the way to the file, the directories included, was followed by such a sync of the
///   directories that it is and was in.
#[must_use]
pub fn check(trace: &str, data: &str) -> Checked {
    let calls = parse(trace);
    // What a call does counts from when it came back; what it promises counts from when it began.
    let mut moments: Vec<(usize, bool, usize)> = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        moments.push((call.begin, false, at));
        if let Some((end, _)) = &call.end {
            moments.push((*end, true, at));
        }
    }
    moments.sort_unstable();
    let mut disk = Disk::default();
    let mut open_syncs: HashMap<usize, (usize, usize)> = HashMap::new();
    for (_, ended, at) in moments {
        let call = &calls[at];
        match (call.name.as_str(), ended) {
            ("write" | "writev", false)
                if call.args.starts_with("1<") || call.args.starts_with("1,") =>
            {
                disk.confirmed(call, data);
            }
            ("fsync" | "fdatasync", false) => {
                for path in call.paths() {
                    let file = disk.file(&path);
                    open_syncs.insert(at, (file, disk.files[file].syncs.len()));
                    disk.files[file].syncs.push(Sync { begin: call.begin, done: None });
                }
            }
            ("fsync" | "fdatasync", true) => {
                if let Some((file, sync)) = open_syncs.remove(&at)
                    && call.succeeded()
                    && !call.injected()
                {
                    disk.files[file].syncs[sync].done = call.end.as_ref().map(|(end, _)| *end);
                    disk.found.syncs += 1;
                } else if call.name == "fdatasync" && !call.succeeded() {
                    disk.fails(call, data);
                }
            }
            (name, false) if name.contains("pwrite") => disk.begins(call, data),
            _ if ended && call.succeeded() && !call.injected() => disk.done(call, data),
            ("pwrite64" | "pwritev" | "pwritev2", true) => disk.fails(call, data),
            _ => {}
        }
    }
    disk.found
}

impl Disk {
    fn file(&mut self, path: &str) -> usize {
        if let Some(&at) = self.by_path.get(path) {
            return at;
        }
        self.files.push(File { path: path.to_owned(), ..File::default() });
        self.by_path.insert(path.to_owned(), self.files.len() - 1);
        self.files.len() - 1
    }

    /// A write or sync of a file below `data` came back with an error.
    fn fails(&mut self, call: &Call, data: &str) {
        // The file system does not know `RWF_DSYNC`, and has not begun.
        let refused = |result: &str| result.contains("EOPNOTSUPP");
        if call.name == "pwritev2" && call.end.as_ref().is_some_and(|(_, end)| refused(end)) {
            return;
        }
        for path in call.paths().iter().filter(|path| is_below(path, data)) {
            let file = self.file(path);
            self.files[file].failed.get_or_insert(call.begin);
        }
    }

    /// A write is on its way.
    fn begins(&mut self, call: &Call, data: &str) {
        for path in call.paths().iter().filter(|path| is_below(path, data)) {
            let file = self.file(path);
            let Some(failed) = self.files[file].failed.filter(|&failed| failed < call.begin) else {
                continue;
            };
            if !std::mem::replace(&mut self.files[file].told, true) {
                let detail =
                    format!("{path} in line {}, failed in line {}", call.begin + 1, failed + 1);
                self.found.violations.push(Violation { rule: "failed file written again", detail });
            }
        }
    }

    /// What a call changed.
    fn done(&mut self, call: &Call, data: &str) {
        let paths = call.paths();
        let end = call.end.as_ref().map_or(call.begin, |(end, _)| *end);
        let Some(path) = paths.first().filter(|path| is_below(path, data)) else { return };
        match call.name.as_str() {
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" => {
                self.found.writes += 1;
                let file = self.file(path);
                let durable = call.args.contains("DSYNC");
                self.found.syncs += u64::from(durable);
                for id in markers(&call.args) {
                    self.written.entry(id).or_default().push(Written { file, end, durable });
                }
            }
            "open" | "openat" | "openat2" | "mkdir" | "mkdirat" => {
                // Recovery reads a file that had failed and writes it again, which makes its pages dirty again: then a sync
                // tells the truth. It opens it anew.
                if call.args.contains("O_RDWR")
                    && let Some(&file) = self.by_path.get(path)
                {
                    self.files[file].failed = None;
                }
                let made = call.name.starts_with("mkdir") || call.args.contains("O_CREAT");
                if made && !self.by_path.contains_key(path) {
                    let file = self.file(path);
                    self.files[file].names = vec![(parent(path).to_owned(), end)];
                }
            }
            "rename" | "renameat" | "renameat2" => {
                let Some(to) = paths.get(1) else { return };
                let file = self.file(path);
                self.by_path.remove(path);
                self.by_path.insert(to.clone(), file);
                let dirs: BTreeSet<&str> = [parent(path), parent(to)].into();
                self.files[file].names =
                    dirs.into_iter().map(|dir| (dir.to_owned(), end)).collect();
                self.files[file].path.clone_from(to);
            }
            "unlink" | "unlinkat" | "rmdir" => {
                self.by_path.remove(path);
            }
            _ => {}
        }
    }

    /// Answers on their way out.
    fn confirmed(&mut self, call: &Call, data: &str) {
        let mut text = call.args.split('"').skip(1).step_by(2).flat_map(|text| text.split("\\n"));
        let acks: Vec<(String, u64, u64)> = text
            .by_ref()
            .filter_map(|line| match Answer::parse(line)? {
                Answer::Ack { log, id, offset } => Some((log, id, offset)),
                _ => None,
            })
            .collect();
        for (log, id, offset) in acks {
            self.found.acks += 1;
            let Some(written) = self.written.get(&(log.clone(), id)) else {
                let detail = format!("ack {log} {id} {offset}: it is in no write before");
                self.found.violations.push(Violation { rule: "never written", detail });
                continue;
            };
            // It may have been written again, by a healing or with the tail of its block.
            let why: Vec<Option<(&'static str, String)>> = written
                .iter()
                .map(|&written| self.what_is_missing(written, call.begin, data))
                .collect();
            if why.iter().any(Option::is_none) {
                continue;
            }
            if let Some((rule, why)) = why.into_iter().flatten().next_back() {
                let detail = format!("ack {log} {id} {offset} in line {}: {why}", call.begin + 1);
                self.found.violations.push(Violation { rule, detail });
            }
        }
    }

    /// Why what was written is not known durable at the moment `now`.
    fn what_is_missing(
        &self,
        written: Written,
        now: usize,
        data: &str,
    ) -> Option<(&'static str, String)> {
        let file = &self.files[written.file];
        // The first one: after a sync that failed, another that succeeds proves nothing.
        let next = file.syncs.iter().find(|sync| sync.begin >= written.end);
        let done = next.and_then(|sync| sync.done).filter(|done| *done <= now);
        if !written.durable && done.is_none() {
            let what = if next.is_some() {
                "its sync failed, was injected or is not over"
            } else {
                "no sync"
            };
            return Some(("not synced", format!("{what} of {}", file.path)));
        }
        // The file's own name, and those of the directories on the way to it.
        let mut path = file.path.as_str();
        let mut names = file.names.as_slice();
        loop {
            for (dir, made) in names {
                let synced = self.by_path.get(dir).is_some_and(|&dir| {
                    let syncs = &self.files[dir].syncs;
                    syncs.iter().any(|sync| {
                        sync.begin >= *made && sync.done.is_some_and(|done| done <= now)
                    })
                });
                if !synced {
                    return Some(("name not synced", format!("{path} needs a sync of {dir}")));
                }
            }
            path = parent(path);
            if !is_below(path, data) {
                return None;
            }
            names = match self.by_path.get(path) {
                Some(&dir) => self.files[dir].names.as_slice(),
                None => &[],
            };
        }
    }
}

/// Which records' beginnings are in these bytes.
fn markers(text: &str) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('@') {
        rest = &rest[at + 1..];
        let Some(end) = rest.find('@') else { break };
        if let Some((log, id)) = rest[..end].split_once('#')
            && let Ok(id) = id.parse()
        {
            found.push((log.to_owned(), id));
            rest = &rest[end + 1..];
        }
    }
    found
}
