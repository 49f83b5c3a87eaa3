//! A child process in a group of its own, whose lines are read as they come, and that never outlives the lab.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a child said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A whole line.
    Line(String),
    /// Nothing in that time.
    Nothing,
    /// All who could say something are gone.
    Over,
}

#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Pid,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    status: Option<ExitStatus>,
}

/// What is kept of a child's standard error.
const ERRORS_MAX: u64 = 64 << 10;

impl Process {
    /// # Errors
    /// If it cannot be started.
    pub fn start(mut command: Command) -> Result<Self, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.process_group(0).env("LC_ALL", "C");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let group = Pid::from_raw(i32::try_from(child.id()).map_err(|error| error.to_string())?);
        let (sender, lines) = channel();
        let input = child.stdin.take();
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        std::thread::spawn(move || {
            let Some(stdout) = stdout else { return };
            let mut stdout = BufReader::new(stdout);
            let mut line = String::new();
            // A line without its end was cut off by a kill and says nothing.
            while stdout.read_line(&mut line).is_ok() && line.ends_with('\n') {
                line.pop();
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut stderr) = stderr {
                let _ = stderr.by_ref().take(ERRORS_MAX).read_to_end(&mut text);
                // Read on, or a child that says more would wait for ever.
                let _ = io::copy(&mut stderr, &mut io::sink());
            }
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Self { child, group, input, lines, errors: Some(errors), status: None })
    }

    /// One line to its standard input; the error of a child that is gone is no news.
    pub fn tell(&mut self, line: &impl std::fmt::Display) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// No more input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    pub fn listen(&self, timeout: Duration) -> Said {
        match self.lines.recv_timeout(timeout) {
            Ok(line) => Said::Line(line),
            Err(RecvTimeoutError::Timeout) => Said::Nothing,
            Err(RecvTimeoutError::Disconnected) => Said::Over,
        }
    }

    /// SIGKILL for the whole group; then waits for the child, which the kernel does not let live on.
    pub fn kill(&mut self) {
        if self.status.is_none() {
            let _ = killpg(self.group, Signal::SIGKILL);
            self.status = self.child.wait().ok();
        }
    }

    /// How it ended; `None` if it did not within `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        while self.status.is_none() {
            if let Ok(Some(status)) = self.child.try_wait() {
                self.status = Some(status);
            } else if begun.elapsed() > timeout {
                return None;
            } else {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.status
    }

    /// What it said on standard error; call it when it is gone.
    pub fn errors(&mut self) -> String {
        let text = self.errors.take().and_then(|thread| thread.join().ok());
        text.unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        // Whoever else is in the group: a tracer, or what a driver started.
        let _ = killpg(self.group, Signal::SIGKILL);
    }
}
