//! The broker as a process: started, killed, told to end, looked at from outside.

use crate::client::{Client, Wire};
use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// Where `plimsoll` is: named in the environment, beside this program, or made by cargo for that place.
///
/// # Errors
/// It is nowhere, and cargo cannot make it.
pub fn binary() -> anyhow::Result<PathBuf> {
    if let Some(named) = std::env::var_os("PLIMSOLL_BIN") {
        return Ok(PathBuf::from(named));
    }
    let own = std::env::current_exe()?;
    let mut dir = own.parent().context("this program is in no directory")?;
    // Tests are one deeper.
    if dir.ends_with("deps") {
        dir = dir.parent().context("deps is in no directory")?;
    }
    let beside = dir.join("plimsoll");
    if !beside.exists() {
        build(dir)?;
    }
    Ok(beside)
}

fn build(dir: &Path) -> anyhow::Result<()> {
    let profile = dir.file_name().and_then(|name| name.to_str()).unwrap_or("debug");
    let profile = if profile == "debug" { "dev" } else { profile };
    let target = dir.parent().context("no target directory")?;
    let mut cargo = std::process::Command::new("cargo");
    cargo.args([
        "build",
        "--quiet",
        "-p",
        "plimsoll-command",
        "--profile",
        profile,
        "--target-dir",
    ]);
    let status = cargo.arg(target).current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
    if !status.success() {
        bail!("there is no {}/plimsoll, and cargo cannot make it", dir.display());
    }
    Ok(())
}

/// How a broker is started.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Its data directories.
    pub data: Vec<PathBuf>,
    /// Text of its settings file.
    pub settings: Option<String>,
    /// The control group it joins.
    pub group: Option<PathBuf>,
    /// A command that starts it, as `unshare --pid`.
    pub wrap: Vec<String>,
    /// Variables of its environment.
    pub env: Vec<(String, String)>,
}

impl Setup {
    /// Over one data directory.
    #[must_use]
    pub fn new(data: &Path) -> Self {
        Self { data: vec![data.to_owned()], ..Self::default() }
    }
}

/// A broker at one address, over its lives. Killed when dropped.
#[derive(Debug)]
pub struct Server {
    setup: Setup,
    binary: PathBuf,
    home: tempfile::TempDir,
    addr: SocketAddr,
    child: Option<Child>,
    /// How often it was started.
    pub starts: u64,
    /// How long it may take to be ready.
    pub patience: Duration,
}

/// A free port below those that the kernel gives to clients: it must still be free at the next start.
fn port() -> anyhow::Result<u16> {
    for _ in 0..1000 {
        let port = fastrand::u16(15_000..30_000);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port")
}

impl Server {
    /// Not started yet.
    ///
    /// # Errors
    /// There is no binary, no port, or no temporary directory.
    pub fn new(setup: Setup) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port()?));
        let binary = binary()?;
        let patience = Duration::from_secs(60);
        Ok(Self { setup, binary, home, addr, child: None, starts: 0, patience })
    }

    /// Started, and ready.
    ///
    /// # Errors
    /// As [`Server::new`] and [`Server::start`].
    pub async fn started(setup: Setup) -> anyhow::Result<Self> {
        let mut server = Self::new(setup)?;
        server.start().await?;
        Ok(server)
    }

    /// Its address, the same in all its lives.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What it is started with; a change holds from the next start.
    pub fn setup(&mut self) -> &mut Setup {
        &mut self.setup
    }

    fn log(&self) -> PathBuf {
        self.home.path().join("log")
    }

    /// The last lines that it wrote.
    #[must_use]
    pub fn said(&self) -> String {
        let text = std::fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    fn command(&self) -> anyhow::Result<Command> {
        let mut words: Vec<std::ffi::OsString> = Vec::new();
        if let Some(group) = &self.setup.group {
            // The shell joins the group and becomes the broker: its process number stays.
            words.extend(
                ["sh", "-c", "echo $$ >\"$0/cgroup.procs\" && exec \"$@\""].map(Into::into),
            );
            words.push(group.into());
        }
        words.extend(self.setup.wrap.iter().map(Into::into));
        words.push(self.binary.clone().into());
        words.push("serve".into());
        for dir in &self.setup.data {
            words.extend(["--data".into(), dir.into()]);
        }
        words.extend(["--listen".into(), self.addr.to_string().into()]);
        if let Some(settings) = &self.setup.settings {
            let path = self.home.path().join("settings.toml");
            std::fs::write(&path, settings)?;
            words.extend(["--settings".into(), path.into()]);
        }
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log())?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.envs(self.setup.env.iter().cloned());
        command.stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        Ok(command)
    }

    /// Starts it without waiting for it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn launch(&mut self) -> anyhow::Result<()> {
        let mut command = self.command()?;
        self.child = Some(command.spawn().with_context(|| format!("{command:?}"))?);
        self.starts += 1;
        Ok(())
    }

    /// Starts it and waits until it is ready; how long that took.
    ///
    /// # Errors
    /// It ended, or was not ready in time.
    pub async fn start(&mut self) -> anyhow::Result<Duration> {
        self.launch()?;
        self.ready().await
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// It ended, or was not ready in time.
    pub async fn ready(&mut self) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        let mut client = Client::new(self.addr, Wire::H1);
        client.conn.patience = Duration::from_secs(5);
        loop {
            if let Ok(200) = client.status("/readyz").await {
                return Ok(begun.elapsed());
            }
            if let Some(status) = self.ended() {
                bail!("the broker ended ({status}) instead of being ready:\n{}", self.said());
            }
            if begun.elapsed() > self.patience {
                bail!("the broker was not ready in {:?}:\n{}", self.patience, self.said());
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Its process number: where another command starts it, that of the child.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        let own = self.child.as_ref().and_then(Child::id)?;
        if self.setup.wrap.is_empty() {
            return Some(own);
        }
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    /// How it ended by itself, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    /// Kills it as the kernel does, and waits for its end.
    ///
    /// # Errors
    /// It had ended by itself: that is a fault of it.
    pub async fn kill9(&mut self) -> anyhow::Result<()> {
        let pid = self.pid();
        let Some(mut child) = self.child.take() else { return Ok(()) };
        if let Some(status) = child.try_wait()? {
            bail!("the broker ended by itself ({status}):\n{}", self.said());
        }
        if let Some(pid) = pid.filter(|_| !self.setup.wrap.is_empty()) {
            // Itself, and not what started it: that ends after it.
            kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGKILL)?;
            child.wait().await?;
            return Ok(());
        }
        child.kill().await?;
        Ok(())
    }

    /// Kills it and starts it again; how long it took to be ready.
    ///
    /// # Errors
    /// Of both.
    pub async fn restart(&mut self) -> anyhow::Result<Duration> {
        self.kill9().await?;
        self.start().await
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// It does not run.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self.pid().context("it does not run")?;
        Ok(kill(Pid::from_raw(i32::try_from(pid)?), signal)?)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It goes on for longer than `wait`.
    pub async fn wait(&mut self, wait: Duration) -> anyhow::Result<ExitStatus> {
        let mut child = self.child.take().context("it does not run")?;
        match timeout(wait, child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => {
                let said = self.said();
                let _ = child.kill().await;
                bail!("it did not end in {wait:?}:\n{said}")
            }
        }
    }

    /// Tells it to end (SIGTERM), and says how it did.
    ///
    /// # Errors
    /// It goes on for 30 s.
    pub async fn end(&mut self) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.wait(Duration::from_secs(30)).await
    }

    /// Tells it to end, and says what was wrong with that: it must exit with 0.
    ///
    /// # Errors
    /// It goes on for 30 s.
    pub async fn end_clean(&mut self) -> anyhow::Result<Option<String>> {
        let status = self.end().await?;
        let wrong = !status.success() || status.signal().is_some();
        Ok(wrong.then(|| format!("SIGTERM ended it with {status}:\n{}", self.said())))
    }

    /// A number in KiB of its `/proc/PID/status`, in bytes.
    #[must_use]
    pub fn memory(&self, field: &str) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid()?)).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        let number: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(number * 1024)
    }

    /// Paths of deleted files that it holds open.
    #[must_use]
    pub fn deleted_files(&self) -> Vec<PathBuf> {
        let Some(pid) = self.pid() else { return Vec::new() };
        let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
        let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        targets.filter(|path| path.to_string_lossy().ends_with(" (deleted)")).collect()
    }

    /// A client of it.
    #[must_use]
    pub fn client(&self, wire: Wire) -> Client {
        Client::new(self.addr, wire)
    }

    /// The worst level that it says it is at.
    ///
    /// # Errors
    /// It does not answer, or says none.
    pub async fn level(&self) -> anyhow::Result<String> {
        let mut client = self.client(Wire::H1);
        client.conn.patience = Duration::from_secs(10);
        level(&client.get("/api/v1/node").await.done()?)
    }

    /// Waits until its level is one of these.
    ///
    /// # Errors
    /// It is not, in `wait`.
    pub async fn until_level(&self, levels: &[&str], wait: Duration) -> anyhow::Result<String> {
        let begun = Instant::now();
        loop {
            let level = self.level().await?;
            if levels.contains(&level.as_str()) {
                return Ok(level);
            }
            if begun.elapsed() > wait {
                bail!("its level is {level} after {wait:?}, not one of {levels:?}");
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The levels, from good to bad.
pub const LEVELS: [&str; 4] = ["ok", "soft", "hard", "reserve"];

/// The worst level in an answer of `/api/v1/node`.
///
/// # Errors
/// There is none.
pub fn level(node: &serde_json::Value) -> anyhow::Result<String> {
    fn worst(value: &serde_json::Value) -> Option<usize> {
        match value {
            serde_json::Value::Object(map) => {
                let own = map.get("level").and_then(serde_json::Value::as_str);
                let own = own.and_then(|text| LEVELS.iter().position(|level| *level == text));
                map.values().filter_map(worst).chain(own).max()
            }
            serde_json::Value::Array(list) => list.iter().filter_map(worst).max(),
            _ => None,
        }
    }
    let place = worst(node).with_context(|| format!("no level in {node}"))?;
    Ok(LEVELS[place].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_level_counts() {
        let node = serde_json::json!({ "level": "ok", "disks": [{ "level": "soft" }, { "level": "hard" }] });
        assert_eq!(level(&node).unwrap(), "hard");
        assert!(level(&serde_json::json!({ "name": "x" })).is_err());
    }
}
