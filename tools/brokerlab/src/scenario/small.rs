//! Single cases of one or two requests, each with a broker of its own.

use super::fill::mount;
use super::pulse::preload;
use crate::client::{Answer, Publish, Receive, Refusal, Settled, Stored, Wire, raw, settings};
use crate::mounts::Mount;
use crate::place::{Filler, room};
use crate::report::Report;
use crate::server::{Server, Setup};
use crate::stats::{Millis, Times};
use anyhow::{Context, bail};
use bytes::Bytes;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Runs the small cases
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Only this one: B11, F7, F8, J2, J5 or stop
    #[arg(long)]
    pub only: Option<String>,
}

/// Runs them.
///
/// # Errors
/// A broker does not start or answer.
pub async fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let wanted = |name: &str| args.only.as_deref().is_none_or(|only| only == name);
    for name in ["B11", "F7", "F8", "J2", "J5", "stop"] {
        if !wanted(name) {
            continue;
        }
        let mut own = Report::new(name).loud(true);
        let ran = match name {
            "B11" => case_b11(&mut own).await,
            "F7" => case_f7(&mut own).await,
            "F8" => case_f8(&mut own).await,
            "J2" => case_j2(&mut own).await,
            "J5" => case_j5(&mut own).await,
            _ => stop(&mut own).await,
        };
        if let Err(error) = ran {
            own.broken(format!("{error:#}"));
        }
        if let crate::report::Verdict::Skipped(why) = own.verdict() {
            report.line(&format!("{name} skipped"), why);
        }
        report.absorb(own);
    }
    Ok(())
}

fn message(text: &str, key: Option<&str>) -> Publish {
    Publish { payload: Bytes::from(text.to_owned()), key: key.map(str::to_owned) }
}

/// B11: everything is consumed and freed, then it is killed: the next message has a number above all before, and comes.
///
/// # Errors
/// The broker does not start or answer.
pub async fn case_b11(report: &mut Report) -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let mut server = Server::started(Setup::new(home.path())).await?;
    let mut client = server.client(Wire::H1);
    client.declare("q", &settings()).await.done()?;
    let mut highest = 0;
    for life in 0..4 {
        for _ in 0..10 {
            let id = client.publish("q", &message("x", None)).await.done()?.id;
            report.expect(id > highest, format!("number {id} after {highest}, in life {life}"));
            highest = highest.max(id);
        }
        // Purged in one life, acknowledged in the others.
        if life == 2 {
            client.command("q", "purge").await.done()?;
        } else {
            let (messages, _) = client.receive("q", &Receive::now(32)).await.done()?;
            report.expect(
                messages.len() == 10,
                format!("{} messages at once, in life {life}", messages.len()),
            );
            let receipts: Vec<String> =
                messages.into_iter().map(|message| message.receipt).collect();
            let answers = client.settle("q", "ack", &receipts).await.done()?;
            report.expect(
                answers.iter().all(|answer| *answer == Settled::Done),
                format!("{answers:?}"),
            );
        }
        if life == 1 {
            server.end_clean().await?;
            server.start().await?;
        } else {
            server.restart().await?;
        }
    }
    report.line("highest number", highest);
    Ok(())
}

/// A refusal of this reason, with right hints (G5).
fn refused<T: std::fmt::Debug>(
    answer: Answer<T>,
    reason: &str,
    what: &str,
    report: &mut Report,
) -> Option<Refusal> {
    match answer {
        Answer::Limited(refusal) => {
            report.expect(refusal.reason == reason, format!("{what}: {refusal:?}"));
            report.expect(refusal.fault().is_none(), format!("{what}, G5: {:?}", refusal.fault()));
            Some(refusal)
        }
        other => {
            report.broken(format!("{what} is answered {other:?}"));
            None
        }
    }
}

/// F7: a key that was refused is not used up, whatever refused it; one that is stored is found again, after kills too.
///
/// # Errors
/// The broker does not start or answer.
pub async fn case_f7(report: &mut Report) -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let small = mount("ext4", 64);
    if let Err(why) = &small {
        report.line("without a small disk", why);
    }
    let dir = small.as_ref().map_or(home.path(), Mount::path).join("data");
    let mut server = Server::started(Setup::new(&dir)).await?;
    let mut client = server.client(Wire::H1);
    client.declare("q", &json!({ "max_queue_depth": 1, "max_attempts": 1000 })).await.done()?;
    let key = message("the one with the key", Some("K1"));
    if let Ok(mount) = &small {
        let mut filler = Filler::new(mount.path());
        filler.leave(room(mount.path())?.total * 12 / 100)?;
        server.until_level(&["hard"], Duration::from_secs(30)).await?;
        refused(client.publish("q", &key).await, "disk", "at hard", report);
        refused(
            client.publish_many("q", std::slice::from_ref(&key)).await.done()?.remove(0),
            "disk",
            "a line at hard",
            report,
        );
        server.restart().await?;
        server.until_level(&["hard"], Duration::from_secs(30)).await?;
        refused(client.publish("q", &key).await, "disk", "at hard, after a kill", report);
        filler.empty();
        server.until_level(&["ok"], Duration::from_secs(60)).await?;
    }
    client.publish("q", &message("fills it", None)).await.done()?;
    if let Some(refusal) =
        refused(client.publish("q", &key).await, "queue_full", "when full", report)
    {
        report.expect(refusal.code == "QUEUE_FULL", format!("{refusal:?}"));
    }
    server.restart().await?;
    refused(client.publish("q", &key).await, "queue_full", "when full, after a kill", report);
    let (messages, _) = client.receive("q", &Receive::now(1)).await.done()?;
    let receipts: Vec<String> = messages.into_iter().map(|message| message.receipt).collect();
    client.settle("q", "ack", &receipts).await.done()?;
    let first = client.publish("q", &key).await.done()?;
    report.expect(
        !first.duplicate,
        format!("the first that is stored is called a duplicate: {first:?}"),
    );
    let again = Stored { id: first.id, duplicate: true };
    // The queue is full again: a finished key's repetition is answered all the same.
    let second = client.publish("q", &key).await.done()?;
    report.expect(second == again, format!("repeated: {second:?}, and {again:?} it is"));
    server.restart().await?;
    let third = client.publish("q", &key).await.done()?;
    report.expect(third == again, format!("repeated after a kill: {third:?}, and {again:?} it is"));
    let other = client.publish("q", &message("another content", Some("K1"))).await;
    report.expect(
        matches!(other, Answer::Wrong(409, _)),
        format!("the key with another content: {other:?}"),
    );
    let (messages, _) = client.receive("q", &Receive::now(32)).await.done()?;
    let found: Vec<u64> = messages.iter().map(|message| message.id).collect();
    report.expect(found == [first.id], format!("there are {found:?}, and {} it is", first.id));
    // Acknowledged, its mark outlives its message.
    let receipts: Vec<String> = messages.into_iter().map(|message| message.receipt).collect();
    client.settle("q", "ack", &receipts).await.done()?;
    server.restart().await?;
    let fourth = client.publish("q", &key).await.done()?;
    report.expect(
        fourth == again,
        format!("repeated after its ack and a kill: {fourth:?}, and {again:?} it is"),
    );
    Ok(())
}

/// F8: 100 publishes that are refused and 100 acks, on one HTTP/2 connection and in the pipe of one HTTP/1.1 connection.
///
/// # Errors
/// The broker does not start or answer.
pub async fn case_f8(report: &mut Report) -> anyhow::Result<()> {
    let mount = match mount("ext4", 64) {
        Ok(mount) => mount,
        Err(why) => {
            *report = Report::skipped("F8", why);
            return Ok(());
        }
    };
    let server = Server::started(Setup::new(&mount.path().join("data"))).await?;
    let mut client = server.client(Wire::H2);
    client.declare("q", &settings()).await.done()?;
    client.declare("sink", &settings()).await.done()?;
    preload(&mut client, "q", 200, 100).await?;
    let mut receipts = Vec::new();
    while receipts.len() < 200 {
        let (messages, reason) = client.receive("q", &Receive::now(32)).await.done()?;
        if messages.is_empty() {
            bail!("{} of 200 messages, then {reason:?}", receipts.len());
        }
        receipts.extend(messages.into_iter().map(|message| message.receipt));
    }
    let mut filler = Filler::new(mount.path());
    filler.leave(room(mount.path())?.total * 12 / 100)?;
    server.until_level(&["hard"], Duration::from_secs(30)).await?;
    let on_pipe = receipts.split_off(100);

    // At most 128 streams a connection: these take turns as the broker allows.
    let (mut publishes, mut acks) = (JoinSet::new(), JoinSet::new());
    let share = |fail| anyhow::anyhow!("{fail}");
    for _ in 0..100 {
        let mut client = client.share().await.map_err(share)?;
        publishes.spawn(async move { client.publish("sink", &message("no", None)).await });
    }
    for receipt in receipts {
        let mut client = client.share().await.map_err(share)?;
        acks.spawn(async move {
            let begun = Instant::now();
            (client.settle("q", "ack", &[receipt]).await, begun.elapsed())
        });
    }
    let mut times = Times::default();
    while let Some(done) = acks.join_next().await {
        let (answer, took) = done?;
        times.add(took);
        let done = matches!(&answer, Answer::Done(answers) if answers[..] == [Settled::Done]);
        report.expect(done, format!("HTTP/2: an ack is answered {answer:?}"));
    }
    while let Some(answer) = publishes.join_next().await {
        refused(answer?, "disk", "HTTP/2: a publish at hard", report);
    }
    report.line("HTTP/2: acks", times);
    pipe(&server, &on_pipe, report).await
}

/// The same in the pipe of one connection: answers in order, and it stays open.
async fn pipe(server: &Server, receipts: &[String], report: &mut Report) -> anyhow::Result<()> {
    let addr = server.addr();
    let mut tcp = raw::connect(addr).await?;
    let mut bytes = Vec::new();
    for receipt in receipts {
        bytes.extend(raw::head(addr, "POST", "/api/v1/queue/sink/messages", "text/plain", 2));
        bytes.extend_from_slice(b"no");
        let body = json!({ "receipts": [receipt] }).to_string();
        bytes.extend(raw::head(
            addr,
            "POST",
            "/api/v1/queue/q/ack",
            "application/json",
            body.len(),
        ));
        bytes.extend_from_slice(body.as_bytes());
    }
    let begun = Instant::now();
    raw::send(&mut tcp, &bytes).await?;
    let mut text = String::new();
    while text.matches("HTTP/1.1 ").count() < 2 * receipts.len() || !text.contains("}") {
        let more = raw::read_all(&mut tcp, Duration::from_secs(20), 1).await;
        if more.is_empty() {
            break;
        }
        text.push_str(&String::from_utf8_lossy(&more));
    }
    let statuses: Vec<&str> =
        text.split("HTTP/1.1 ").skip(1).filter_map(|answer| answer.get(..3)).collect();
    let right: Vec<&str> = receipts.iter().flat_map(|_| ["429", "200"]).collect();
    report.expect(
        statuses == right,
        format!("HTTP/1.1: {} answers in the pipe: {statuses:?}", statuses.len()),
    );
    report.line("HTTP/1.1: 200 answers in the pipe", Millis(begun.elapsed()));
    Ok(())
}

/// J2: killed as process 1 of a container, it starts again as process 1; a lock that names a process means nothing.
///
/// # Errors
/// The broker does not start or answer.
pub async fn case_j2(report: &mut Report) -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let data = home.path().join("data");
    let wrap: Vec<String> =
        ["unshare", "--pid", "--fork", "--kill-child", "--"].map(Into::into).into();
    let can =
        std::process::Command::new("unshare").args(["--pid", "--fork", "--", "true"]).output();
    let spaces = can.is_ok_and(|output| output.status.success());
    if !spaces {
        report.line("without PID namespaces", "they are not for us here");
    }
    let setup = Setup { wrap: if spaces { wrap } else { Vec::new() }, ..Setup::new(&data) };
    let mut server = Server::started(setup).await?;
    let mut client = server.client(Wire::H1);
    client.declare("q", &settings()).await.done()?;
    for life in 0..5 {
        client.publish("q", &message("x", None)).await.done()?;
        server.kill9().await?;
        for lock in files(&data).into_iter().filter(|path| name_of(path).contains("lock")) {
            std::fs::write(
                lock,
                if life % 2 == 0 { "1\n".to_owned() } else { format!("{}\n", std::process::id()) },
            )?;
        }
        let took = server.start().await.with_context(|| format!("start {life} after a kill"))?;
        report.line("start at once after a kill", Millis(took));
    }
    let ready = crate::client::number(&client.show("q").await.done()?, "ready");
    report.expect(ready == Some(5), format!("{ready:?} messages of 5"));
    // Two at once: the second must say so and leave the first alone.
    let mut second = Server::new(Setup::new(&data))?;
    second.patience = Duration::from_secs(10);
    match second.start().await {
        Ok(_) => report.broken("a second broker runs over the same data"),
        Err(error) => report
            .line("a second one says", format!("{error:#}").lines().last().unwrap_or_default()),
    }
    client.publish("q", &message("y", None)).await.done().context("after the second")?;
    Ok(())
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// Files below a directory, and directories if asked.
fn walk(dir: &Path, dirs: bool) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let is_dir = entry.file_type().is_ok_and(|of| of.is_dir());
            if is_dir {
                left.push(entry.path());
            }
            if is_dir == dirs {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

fn files(dir: &Path) -> Vec<PathBuf> {
    walk(dir, false)
}

/// J5: links that somebody planted in the data directory lead nowhere: nothing outside is changed or removed.
///
/// # Errors
/// The broker does not start or answer.
pub async fn case_j5(report: &mut Report) -> anyhow::Result<()> {
    use std::os::unix::fs::symlink;
    let home = tempfile::tempdir()?;
    let (data, victim) = (home.path().join("data"), home.path().join("victim"));
    std::fs::create_dir(&victim)?;
    for name in ["a", "b", "00000000000000000000.seg"] {
        std::fs::write(victim.join(name), "not yours")?;
    }
    let before = look(&victim);
    let mut server = Server::started(Setup::new(&data)).await?;
    let mut client = server.client(Wire::H1);
    for queue in ["one", "two"] {
        client.declare(queue, &settings()).await.done()?;
        preload(&mut client, queue, 20, 2_000).await?;
    }
    server.end_clean().await?;

    // Beside every file and directory, under the names that come next or are left over, one kind of link at a time.
    let dirs = walk(&data, true);
    let mut planted_in_all = 0;
    for (kind, target) in [("dir", victim.clone()), ("file", victim.join("a"))] {
        let mut planted = Vec::new();
        for dir in dirs.iter().chain([&data]) {
            for name in names_to_plant(dir) {
                let link = dir.join(name);
                if symlink(&target, &link).is_ok() {
                    planted.push(link);
                }
            }
        }
        planted_in_all += planted.len();
        match server.start().await {
            Ok(_) => {
                let mut client = server.client(Wire::H1);
                let name = format!("new-{kind}");
                let declared = client.declare(&name, &settings()).await;
                let stored = client.publish(&name, &message("x", None)).await;
                report.line(
                    &format!("links to a {kind}"),
                    format!("starts; declare {}, publish {}", said(&declared), said(&stored)),
                );
                let _ = client.command("one", "purge").await;
                let _ = client.delete("two").await;
                sleep(Duration::from_millis(300)).await;
                server.end_clean().await?;
            }
            Err(error) => {
                report.line(
                    &format!("links to a {kind}"),
                    format!("{error:#}").lines().last().unwrap_or_default(),
                );
            }
        }
        report.expect(
            look(&victim) == before,
            format!("links to a {kind}: what they point to is {:?}", look(&victim)),
        );
        for link in planted {
            if link.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
                std::fs::remove_file(link)?;
            }
        }
    }
    report.line("links planted", planted_in_all);
    server.start().await.context("when the links are gone")?;
    let mut client = server.client(Wire::H1);
    client.publish("one", &message("x", None)).await.done()?;
    // A data directory that is itself a link is its owner's affair; a queue's directory that became one is not.
    server.kill9().await?;
    let queue = walk(&data, true)
        .into_iter()
        .filter(|dir| dir.parent().is_some_and(|parent| parent.ends_with("queue")))
        .collect::<Vec<_>>();
    for dir in &queue {
        std::fs::rename(dir, dir.with_extension("away"))?;
        symlink(&victim, dir)?;
    }
    let started = server.start().await;
    if started.is_ok() {
        let mut client = server.client(Wire::H1);
        for name in ["one", "new-dir", "new-file"] {
            let _ = client.publish(name, &message("x", None)).await;
            let _ = client.command(name, "purge").await;
            let _ = client.delete(name).await;
        }
        sleep(Duration::from_millis(300)).await;
    }
    let said = started.map_or_else(|error| format!("{error:#}"), |_| "starts".into());
    report.line("a queue's directory is a link", said.lines().last().unwrap_or_default());
    report.expect(
        look(&victim) == before,
        format!("a queue's directory is a link: what it points to is {:?}", look(&victim)),
    );
    Ok(())
}

fn said<T: std::fmt::Debug>(answer: &Answer<T>) -> String {
    match answer {
        Answer::Done(_) => "is done".into(),
        other => format!("is answered {other:?}"),
    }
}

/// Names that a storage is likely to use next in a directory: with the endings of what is there, and numbered on.
fn names_to_plant(dir: &Path) -> Vec<String> {
    let mut names = vec!["manifest.tmp".to_owned(), "x.tmp".to_owned(), "spare".to_owned()];
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        names.push(format!("{name}.tmp"));
        names.extend((1..=3).filter_map(|step| numbered_on(&name, step)));
    }
    names
}

/// The name with its last run of hexadecimal digits counted on.
fn numbered_on(name: &str, step: u64) -> Option<String> {
    let end = name.rfind('.').unwrap_or(name.len());
    let (stem, ending) = name.split_at(end);
    let from = stem.rfind(|letter: char| !letter.is_ascii_hexdigit()).map_or(0, |place| place + 1);
    let digits = &stem[from..];
    let decimal = digits.bytes().all(|digit| digit.is_ascii_digit());
    let next = match decimal {
        true => format!("{:0width$}", digits.parse::<u64>().ok()? + step, width = digits.len()),
        false => format!(
            "{:0width$x}",
            u64::from_str_radix(digits, 16).ok()? + step,
            width = digits.len()
        ),
    };
    (!digits.is_empty()).then(|| format!("{}{next}{ending}", &stem[..from]))
}

/// What is in a directory: names and contents.
fn look(dir: &Path) -> Vec<(String, Vec<u8>)> {
    files(dir)
        .into_iter()
        .map(|path| (name_of(&path), std::fs::read(&path).unwrap_or_default()))
        .collect()
}

/// SIGTERM: what is under way is answered, and it exits with 0; what was confirmed is there.
///
/// # Errors
/// The broker does not start or answer.
pub async fn stop(report: &mut Report) -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let mut server = Server::started(Setup::new(home.path())).await?;
    let mut client = server.client(Wire::H1);
    client.declare("q", &settings()).await.done()?;
    client.declare("empty", &settings()).await.done()?;
    let mut publishers = JoinSet::new();
    for index in 0..8 {
        let mut client = server.client(if index % 2 == 0 { Wire::H1 } else { Wire::H2 });
        publishers.spawn(async move {
            let (mut stored, mut cut) = (0_u64, None);
            loop {
                match client.publish("q", &message("x", None)).await {
                    Answer::Done(_) => stored += 1,
                    Answer::NotDone(_) => return (stored, cut),
                    Answer::Unknown(why) => {
                        cut = Some(why);
                        return (stored, cut);
                    }
                    other => return (stored, Some(format!("{other:?}"))),
                }
            }
        });
    }
    let mut waiting = server.client(Wire::H1);
    let poll = tokio::spawn(async move {
        let mut ask = Receive::now(1);
        ask.wait = Duration::from_secs(60);
        waiting.receive("empty", &ask).await
    });
    sleep(Duration::from_millis(500)).await;
    let begun = Instant::now();
    let wrong = server.end_clean().await?;
    report.line("it ends after", Millis(begun.elapsed()));
    report.expect(begun.elapsed() < Duration::from_secs(20), "it waits for a long poll");
    if let Some(wrong) = wrong {
        report.broken(wrong);
    }
    let poll = poll.await?;
    report.line("a long poll that waits is answered", format!("{poll:?}"));
    report.expect(
        !matches!(poll, Answer::Unknown(_) | Answer::Wrong(..) | Answer::Limited(_)),
        format!("the long poll: {poll:?}"),
    );
    let mut confirmed = 0;
    while let Some(done) = publishers.join_next().await {
        let (stored, cut) = done?;
        confirmed += stored;
        // An idle connection may be closed while a request comes: nobody took that one, or the count below tells.
        if let Some(cut) = cut {
            report.line("a publish into the closing", cut);
        }
    }
    server.start().await?;
    let ready = crate::client::number(&client.show("q").await.done()?, "ready");
    report.line("confirmed", confirmed);
    report.expect(
        ready == Some(confirmed),
        format!("{confirmed} were confirmed, {ready:?} are there"),
    );
    Ok(())
}
