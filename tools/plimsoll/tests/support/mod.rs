//! Runs the real command.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "not the engine: a test plants files, waits, and panics when it fails"
)]
#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How a run ended.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Run {
    fn new(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let status = output.status;
        // As a shell tells it, for a process that a signal ended.
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!stderr.contains("panicked"), "no panic, whatever happens: {stderr}");
        Self { code, stdout: output.stdout, stderr }
    }

    /// Standard output as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// Standard output as one JSON value.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Standard output as a JSON value a line.
    pub(crate) fn json_lines(&self) -> Vec<serde_json::Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The last line of standard error, as with --json.
    pub(crate) fn error(&self) -> serde_json::Value {
        let line = self.stderr.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {}", self.stderr))
    }

    /// Requires an exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            code,
            "stdout: {}\nstderr: {}",
            String::from_utf8_lossy(&self.stdout),
            self.stderr
        );
        self
    }

    /// Requires texts in standard error.
    #[track_caller]
    pub(crate) fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stderr.contains(text), "{text:?} is not in: {}", self.stderr);
        }
        self
    }
}

/// The command with some arguments, split at spaces; `{}` stands for `path`.
pub(crate) fn command(line: &str, path: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    for word in line.split_whitespace() {
        command.arg(word.replace("{}", path.to_str().unwrap()));
    }
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
    command
}

/// Runs it to its end without input.
pub(crate) fn run(line: &str, path: &Path) -> Run {
    Run::new(command(line, path).output().unwrap())
}

/// Runs it to its end with input.
pub(crate) fn feed(line: &str, path: &Path, input: &[u8]) -> Run {
    let mut child = spawn(line, path);
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // It may end before it has read all, where the input is wrong.
            let _ = stdin.write_all(input);
        });
        Run::new(child.wait_with_output().unwrap())
    })
}

/// Starts it with pipes.
pub(crate) fn spawn(line: &str, path: &Path) -> Child {
    let mut command = command(line, path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for the end of a child.
pub(crate) fn finish(child: Child) -> Run {
    Run::new(child.wait_with_output().unwrap())
}

/// Sends a signal.
pub(crate) fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, signal).unwrap();
}

/// A place for data directories.
pub(crate) struct Dir {
    temporary: tempfile::TempDir,
}

impl Dir {
    pub(crate) fn new() -> Self {
        Self { temporary: tempfile::tempdir().unwrap() }
    }

    /// The data directory, which is not there at first.
    pub(crate) fn data(&self) -> PathBuf {
        self.temporary.path().join("data")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.temporary.path().join(name)
    }

    /// Writes a file beside the data directory.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// Every name below with its times and content.
pub(crate) fn remember(dir: &Path) -> Vec<(PathBuf, i64, i64, i64, Vec<u8>)> {
    use std::os::unix::fs::MetadataExt;
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let found = std::fs::symlink_metadata(&path).unwrap();
        let content = if found.is_dir() {
            seen.extend(remember(&path));
            Vec::new()
        } else {
            std::fs::read(&path).unwrap()
        };
        seen.push((path, found.mtime(), found.mtime_nsec(), found.ctime_nsec(), content));
    }
    seen.sort();
    seen
}

/// The segment files of a log, in order.
pub(crate) fn segments(data: &Path, log: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(data.join("logs").join(log))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .collect();
    files.sort();
    files
}

/// A stored segment file of the engine's tests.
pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

/// Lines `0`, `1`, ... up to `count`.
pub(crate) fn numbered(count: u64) -> Vec<u8> {
    (0..count).flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

/// Waits until something holds, for 20 s at most.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A mount that goes away with its guard; `None`, counted on standard error, where this user may not mount.
pub(crate) struct Mount(PathBuf);

impl Mount {
    /// A fresh tmpfs with these options.
    pub(crate) fn tmpfs(at: &Path, options: &str) -> Option<Self> {
        use nix::mount::{MsFlags, mount};
        std::fs::create_dir_all(at).unwrap();
        match mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some(options)) {
            Ok(()) => Some(Self(at.to_path_buf())),
            Err(error) => {
                eprintln!("skipped: mounting a tmpfs is not allowed here: {error}");
                None
            }
        }
    }

    /// Makes it read-only from now on.
    pub(crate) fn read_only(&self) {
        use nix::mount::{MsFlags, mount};
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(None::<&str>, &self.0, None::<&str>, flags, None::<&str>).unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
    }
}
