//! The other process of a test: this binary again, in one of the roles below, told by its environment. It talks in lines.

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

const ROLE: &str = "PLIMSOLL_TEST_ROLE";
const DIR: &str = "PLIMSOLL_TEST_DIR";
const GROUP: &str = "PLIMSOLL_TEST_GROUP";
const SIZE: &str = "PLIMSOLL_TEST_SIZE";

/// A child, killed at the latest when it is dropped.
#[derive(Debug)]
pub(crate) struct Other {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Other {
    /// Starts a child in `role`, on `dir`; it joins the control group `group` before it does anything.
    pub(crate) fn start(role: &str, dir: &Path, group: Option<&Path>, size: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "child::the_other_process",
            "--ignored",
            "--nocapture",
            "--quiet",
        ]);
        command.args(["--test-threads", "1"]);
        command.env(ROLE, role).env(DIR, dir).env(SIZE, size.to_string());
        if let Some(group) = group {
            command.env(GROUP, group);
        }
        let mut process = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let said = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, said }
    }

    /// Waits for a line that begins with `word`, and gives the rest of it; none if the child ends before.
    pub(crate) fn hear(&mut self, word: &str) -> Option<String> {
        loop {
            let line = self.said.next()?.unwrap();
            if let Some(rest) = line.trim().strip_prefix(word) {
                return Some(rest.trim().to_owned());
            }
        }
    }

    /// As [`Other::hear`]; the line must come, and have a number.
    pub(crate) fn number(&mut self, word: &str) -> u64 {
        let rest = self.hear(word).unwrap_or_else(|| panic!("the child ended before {word:?}"));
        rest.parse().unwrap_or_else(|_| panic!("{word} {rest:?}"))
    }

    /// Kills it, as the kernel does.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits for its end; whether that was in order.
    pub(crate) fn end(mut self) -> bool {
        // It would wait for ever for somebody to read what it says.
        while self.said.next().is_some() {}
        self.process.wait().unwrap().success()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Says a line to the test.
pub(crate) fn say(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

#[test]
#[ignore = "the other process of a test of this binary"]
fn the_other_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    if let Some(group) = std::env::var_os(GROUP) {
        let pid = std::process::id().to_string();
        std::fs::write(PathBuf::from(group).join("cgroup.procs"), pid).unwrap();
    }
    let dir = PathBuf::from(std::env::var_os(DIR).unwrap());
    let size = std::env::var(SIZE).unwrap().parse().unwrap();
    match role.as_str() {
        "fill" => crate::full::fill_and_wait(&dir),
        "drain" => crate::full::drain(&dir),
        "traffic" => crate::memory::traffic(&dir, size),
        "grow" => crate::memory::grow(&dir, size),
        "backlog" => crate::memory::make_backlog(&dir, size),
        "start" => crate::memory::start(&dir),
        other => panic!("no role {other:?}"),
    }
}
