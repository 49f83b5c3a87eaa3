//! Not one byte is free, taken from outside: it starts, and everything that makes room works (A1, A5, A7, A11).

use super::consumer::{self, consumer};
use super::fill::Args;
use super::load::Load;
use super::publisher::{self, publisher};
use super::pulse::preload;
use crate::check::Breach;
use crate::client::{Answer, Client, Publish, Receive, Settled, Wire, number, settings};
use crate::place::{Filler, room};
use crate::report::Report;
use crate::server::{Server, Setup};
use crate::stats::{Mib, Millis};
use anyhow::Context;
use bytes::Bytes;
use hyper::Method;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Runs it in `dir`, on a file system of its own.
///
/// # Errors
/// The broker does not start or answer.
pub async fn run(args: &Args, dir: &Path, report: &mut Report) -> anyhow::Result<()> {
    let data = dir.join("data");
    let setup = Setup { settings: Some(args.settings()), ..Setup::new(&data) };
    let mut server = Server::started(setup).await?;
    let run = fastrand::u64(..0xffff_ffff);
    let load = Load::new(server.addr(), run, vec!["main".into()], 4, 20_000);
    let mut client = server.client(Wire::H1);
    load.declare(&mut client, &settings()).await?;
    for queue in ["purged", "deleted", "paused"] {
        client.declare(queue, &settings()).await.done()?;
        preload(&mut client, queue, 50, 1_000).await?;
    }
    fill_up(args, &load, &server).await?;
    let mut filler = Filler::new(dir);
    let zero = |filler: &mut Filler, report: &mut Report, when: &str| -> anyhow::Result<()> {
        filler.full();
        // What ext4 keeps for itself counts as free, and is nobody's; XFS gives its last blocks to no file. The broker's
        // smallest has 64 KiB.
        let room = room(dir)?;
        report.line(
            &format!("available {when}"),
            format!("{}, of {} free", Mib(room.available), Mib(room.free)),
        );
        report.expect(
            room.available < 64 << 10,
            format!("{} bytes are available {when}", room.available),
        );
        Ok(())
    };
    zero(&mut filler, report, "before the kill")?;
    server.kill9().await?;
    zero(&mut filler, report, "before the start")?;
    report.line("case A7: start without a byte", Millis(server.start().await?));
    refused(&mut client, report, "after the start").await;
    administer(&mut client, &mut filler, report).await;
    zero(&mut filler, report, "before it is emptied")?;

    let left = load.check().open();
    let mut consumers = consumers(&load);
    // What comes free is taken at once: all of it is done without a byte.
    let half = until_open(&load, left / 2, &mut filler).await;
    report.expect(half, "A11: nothing can be consumed without a byte");
    zero(&mut filler, report, "before the second kill")?;
    server.kill9().await?;
    load.check().restarted();
    report.line("case A7: start in the middle", Millis(server.start().await?));
    if !until_open(&load, 0, &mut filler).await {
        let open = load.check().open();
        load.check().found(Breach::Lost, format!("A11: {open} cannot be consumed without a byte"));
        report.line("it said", server.said());
        for path in ["/api/v1/node", "/api/v1/queue/main/explain"] {
            report.line(path, format!("{:?}", client.get(path).await));
        }
        let ask = client.receive("main", &Receive::now(1)).await;
        report.line("a receive", format!("{ask:?}"));
    }
    report.line("taken from what came free", filler.count());
    load.settle(&server, Duration::from_secs(40)).await?;
    load.stop();
    while let Some(done) = consumers.join_next().await {
        done.context("a consumer")?;
    }
    filler.empty();
    // A1: the space is back, and so is publishing, without a start.
    server.until_level(&["ok"], Duration::from_secs(60)).await?;
    for queue in ["main", "purged", "paused", "new"] {
        let message = Publish { payload: Bytes::from_static(b"after it all"), key: None };
        let answer = client.publish(queue, &message).await;
        report.expect(
            matches!(answer, Answer::Done(_)),
            format!("A1: a publish to {queue}: {answer:?}"),
        );
    }
    if let Some(wrong) = server.end_clean().await? {
        report.broken(wrong);
    }
    load.check().tell(report);
    Ok(())
}

/// Publishes until it is refused.
async fn fill_up(args: &Args, load: &Arc<Load>, server: &Server) -> anyhow::Result<()> {
    let mut publishers = JoinSet::new();
    for index in 0..4 {
        let plan = publisher::Plan {
            index,
            count: 20_000,
            wire: Wire::H1,
            queues: vec![0],
            sizes: args.size..=args.size,
            keyed: 0,
            batched: 50,
            lines: 16,
            heed: Duration::from_millis(50),
            seed: index,
        };
        publishers.spawn(publisher(Arc::clone(load), plan));
    }
    server.until_level(&["hard", "reserve"], Duration::from_secs(300)).await?;
    load.publishers_end();
    while let Some(done) = publishers.join_next().await {
        done.context("a publisher")?;
    }
    Ok(())
}

fn consumers(load: &Arc<Load>) -> JoinSet<()> {
    let mut consumers = JoinSet::new();
    for index in 0..2 {
        let plan = consumer::Plan {
            queue: 0,
            wire: Wire::H1,
            name: None,
            mischief: false,
            lease_ms: (3_000, 4_000),
            max: 16,
            pause: Duration::from_millis(5),
            seed: index,
        };
        consumers.spawn(consumer(Arc::clone(load), plan));
    }
    consumers
}

/// Waits until at most so many are not finished, and takes every byte that comes free meanwhile.
async fn until_open(load: &Load, most: u64, filler: &mut Filler) -> bool {
    for _ in 0..1_500 {
        if load.check().open() <= most {
            return true;
        }
        filler.full();
        sleep(Duration::from_millis(40)).await;
    }
    false
}

async fn refused(client: &mut Client, report: &mut Report, when: &str) {
    let message = Publish { payload: Bytes::from_static(b"refused"), key: None };
    match client.publish("paused", &message).await {
        Answer::Limited(refusal) => {
            report.expect(refusal.reason == "disk", format!("{when}: {refusal:?}"));
            report.expect(refusal.fault().is_none(), format!("{when}: {:?}", refusal.fault()));
        }
        other => report.broken(format!("{when}: a publish is answered {other:?}")),
    }
}

/// A5: what makes room, and what an operator does, works.
async fn administer(client: &mut Client, filler: &mut Filler, report: &mut Report) {
    let mut expect = |what: &str, held: Result<bool, anyhow::Error>| match held {
        Ok(true) => {}
        Ok(false) => {
            report.broken(format!("A5: {what} without a byte: another answer than it should be"))
        }
        Err(error) => report.broken(format!("A5: {what} without a byte: {error:#}")),
    };
    let purged = client.command("purged", "purge").await.done();
    expect("purge", purged.map(|value| number(&value, "purged") == Some(50)));
    filler.full();
    let view = client.show("purged").await.done();
    expect("a purged queue", view.map(|value| number(&value, "ready") == Some(0)));
    expect("delete", client.delete("deleted").await.done().map(|_| true));
    filler.full();
    let gone = client.show("deleted").await;
    expect("a deleted queue", Ok(matches!(gone, Answer::Wrong(404, _))));
    expect("declare", client.declare("new", &settings()).await.done().map(|status| status == 201));
    filler.full();
    expect("pause", client.command("paused", "pause").await.done().map(|_| true));
    let explained = client.get("/api/v1/queue/paused/explain").await.done();
    expect("explain", explained.map(|value| value.to_string().contains("paused")));
    expect("resume", client.command("paused", "resume").await.done().map(|_| true));
    filler.full();
    expect("peek", client.peek("paused").await.done().map(|messages| !messages.is_empty()));
    let (messages, _) = client.receive("paused", &Receive::now(2)).await.done().unwrap_or_default();
    let receipts: Vec<String> = messages.into_iter().map(|message| message.receipt).collect();
    expect("receive", Ok(receipts.len() == 2));
    for (verb, receipts) in [
        ("nack", receipts.get(..1).unwrap_or_default()),
        ("reject", receipts.get(1..).unwrap_or_default()),
    ] {
        let answer = client.settle("paused", verb, receipts).await.done();
        expect(verb, answer.map(|answers| answers == [Settled::Done]));
    }
    expect("consumers", client.get("/api/v1/queue/paused/consumers").await.done().map(|_| true));
    for path in ["/healthz", "/readyz", "/metrics", "/api/v1/node", "/api/v1/queue"] {
        let reply = client.raw(Method::GET, path, &[], Bytes::new()).await;
        let reply = reply.map_err(|fail| anyhow::anyhow!("{fail}"));
        expect(path, reply.map(|reply| reply.status == 200));
    }
}
