//! Starting: storage, catalogue, shards. Reads little, and writes only what a first start needs, so that a broker starts on a
//! disk without a byte free.

use super::declare::Keeper;
use super::registry::Registry;
use super::{BrokerOptions, Inner, StartError};
use crate::api::{Band, QueueId};
use crate::boot::Time;
use crate::catalogue::{Catalogue, Format, Id, Loader, QueueMeta, Record};
use crate::logs;
use crate::owner::{self, Layout, Owner, Shared};
use crate::receipt::Receipts;
use plimsoll::fs::FileSystem;
use plimsoll::{Log, LogName, NewRecord, Node, WriteClass};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tokio::sync::Semaphore;

/// Threads that may block on one device at a time.
const BLOCKING: usize = 24;

/// The one record of a data directory's own log: whose it is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Directory {
    v: u8,
    broker: String,
    directory: String,
}

fn data(error: impl std::fmt::Display) -> StartError {
    StartError::Data(error.to_string().into())
}

/// A log that is not whole is refused: a queue that is not seen would be taken for deleted, and its messages with it.
fn open(node: &Node, name: &str) -> Result<Log, StartError> {
    owner::open_whole(node, name, true).map_err(data)
}

/// Opens the nodes, all at once.
async fn open_nodes(options: &BrokerOptions) -> Result<Vec<Node>, StartError> {
    let opening: Vec<_> = options
        .data
        .iter()
        .map(|dir| {
            let mut builder = Node::builder(dir).options(options.node.clone());
            if let Some(fs) = &options.fs {
                builder = builder.file_system(Arc::clone(fs));
            }
            if let Some(clock) = &options.clock {
                builder = builder.clock(Arc::clone(clock));
            }
            tokio::task::spawn_blocking(move || builder.open())
        })
        .collect();
    let mut nodes = Vec::with_capacity(opening.len());
    for node in opening {
        nodes.push(node.await.map_err(data)??);
    }
    Ok(nodes)
}

fn read_directory(log: &Log) -> Result<Option<Directory>, StartError> {
    let mut reader = log.read_from(log.head()).map_err(data)?;
    let Some(record) = reader.next().map_err(data)? else { return Ok(None) };
    let directory: Directory = serde_json::from_slice(&record.payload)
        .map_err(|error| data(format!("{}: {error}", log.name())))?;
    if directory.v != 1 {
        return Err(data(format!("{}: version {} is not known", log.name(), directory.v)));
    }
    Ok(Some(directory))
}

fn random() -> Result<[u8; 16], StartError> {
    let mut bytes = [0; 16];
    plimsoll::fs::OsFileSystem.random(&mut bytes).map_err(data)?;
    Ok(bytes)
}

/// Brings the nodes into the catalogue's order and gives the catalogue. Blocks.
fn open_catalogue(nodes: Vec<Node>) -> Result<(Vec<Node>, Keeper), StartError> {
    let mut marked = Vec::with_capacity(nodes.len());
    for node in nodes {
        let log = open(&node, logs::DIRECTORY)?;
        let directory = read_directory(&log)?;
        marked.push((node, log, directory));
    }
    // Which of them has the catalogue, if any: of several directories it need not be the first one that was named.
    let catalogue = LogName::new(logs::CATALOGUE).map_err(data)?;
    let mut holder = None;
    for (at, (node, _, _)) in marked.iter().enumerate() {
        if node.logs()?.contains(&catalogue) && open(node, logs::CATALOGUE)?.tail().0 > 0 {
            holder = Some(at);
        }
    }
    match holder {
        Some(at) => known(marked, at),
        None => first_start(marked),
    }
}

type Marked = (Node, Log, Option<Directory>);

/// A broker that was there before.
fn known(mut marked: Vec<Marked>, holder: usize) -> Result<(Vec<Node>, Keeper), StartError> {
    let node = marked[holder].0.clone();
    let log = open(&node, logs::CATALOGUE)?;
    let mut loader = Loader::default();
    let mut reader = log.read_from(log.head()).map_err(data)?;
    while let Some(record) = reader.next().map_err(data)? {
        loader.push(record.offset, &record.payload).map_err(data)?;
    }
    let since = loader.records_since();
    let catalogue = loader.finish().map_err(data)?;
    let format = catalogue.format();
    let mut nodes = Vec::with_capacity(format.directories.len());
    for id in &format.directories {
        let is_it = |(_, _, directory): &Marked| {
            directory.as_ref().is_some_and(|directory| {
                directory.directory == id.to_string()
                    && directory.broker == format.broker.to_string()
            })
        };
        let at = marked.iter().position(is_it).ok_or_else(|| {
            data(format!(
                "directory {id} of broker {} is missing: name all its data directories",
                format.broker
            ))
        })?;
        nodes.push(marked.swap_remove(at).0);
    }
    if !marked.is_empty() {
        let all = format.directories.len();
        let more = marked.len();
        return Err(data(format!(
            "this broker was made with {all} data directories, and {more} more are named"
        )));
    }
    Ok((nodes, Keeper { catalogue, log, node, since }))
}

/// A new broker, or one whose first start did not end.
fn first_start(marked: Vec<Marked>) -> Result<(Vec<Node>, Keeper), StartError> {
    for (node, _, directory) in &marked {
        // A first start that did not end has made nothing else. What has more is a broker's whose catalogue is not here: as
        // a new one it would know no queue, and take their logs for those of deleted ones.
        let used = |name: &&LogName| {
            let name = name.as_str();
            name.starts_with(logs::QUEUES) || name.starts_with(logs::EVENTS)
        };
        if let Some(log) = node.logs()?.iter().find(used) {
            let whose = directory.as_ref().map_or("a broker", |directory| &directory.broker);
            return Err(data(format!(
                "{log} is there, of {whose}, and no catalogue: name all data directories of that broker, or bring its \
                 catalogue back"
            )));
        }
    }
    let mut broker = None;
    for (_, _, directory) in &marked {
        if let Some(directory) = directory {
            match &broker {
                None => broker = Some(directory.broker.clone()),
                Some(known) if *known == directory.broker => {}
                Some(_) => return Err(data("the data directories belong to different brokers")),
            }
        }
    }
    let broker = match broker {
        Some(text) => Id::parse(&text).ok_or_else(|| data(format!("{text:?} is no broker id")))?,
        None => Id(random()?),
    };
    let mut directories = Vec::new();
    let mut nodes = Vec::new();
    for (node, log, directory) in marked {
        let id = match directory {
            Some(known) => {
                Id::parse(&known.directory).ok_or_else(|| data("a directory's id is damaged"))?
            }
            None => {
                let id = Id(random()?);
                let line =
                    Directory { v: 1, broker: broker.to_string(), directory: id.to_string() };
                let line = serde_json::to_vec(&line).map_err(data)?;
                log.publish(WriteClass::Coordination, &[NewRecord::new(&line)]).map_err(data)?;
                id
            }
        };
        directories.push(id);
        nodes.push(node);
    }
    let format = Format { broker, shards: logs::SHARDS, receipt_key: random()?, directories };
    let catalogue = Catalogue::new(format.clone()).map_err(data)?;
    let first = nodes.first().ok_or_else(|| data("no data directory is named"))?;
    let log = open(first, logs::CATALOGUE)?;
    let line = Record::Format(format).encode();
    log.publish(WriteClass::Coordination, &[NewRecord::new(&line)]).map_err(data)?;
    let node = first.clone();
    Ok((nodes, Keeper { catalogue, log, node, since: 0 }))
}

/// The logs of queues that are on a node; those of queues that are not in the catalogue are deleted.
fn sweep(
    node: &Node,
    catalogue: &Catalogue,
    dir: u16,
) -> Result<HashSet<(QueueId, Band)>, StartError> {
    let mut present = HashSet::new();
    for name in node.logs()? {
        let Some((id, band)) = logs::parse_queue(name.as_str()) else { continue };
        if id >= catalogue.next_id() {
            // A queue is declared for good before it has a log: the catalogue has lost its end. With the next declaration
            // another queue would get this one's number, and its messages.
            return Err(data(format!(
                "{name} belongs to a queue that the catalogue does not know yet, which has lost records: bring them back, or \
                 move that log away"
            )));
        }
        match catalogue.get_id(id) {
            Some(meta) if meta.settings.data_dir == dir => {
                present.insert((id, band));
            }
            Some(meta) => {
                let queue = &meta.name;
                tracing::error!(log = %name, %queue, "a log of this queue is in another data directory than the queue; left alone");
            }
            None => match node.delete_log(&name) {
                Ok(()) => {
                    tracing::info!(log = %name, "what was left of a deleted queue is deleted")
                }
                Err(error) => {
                    tracing::warn!(log = %name, %error, "a deleted queue's log is still there");
                }
            },
        }
    }
    Ok(present)
}

pub(super) async fn start(options: BrokerOptions) -> Result<Inner, StartError> {
    if options.data.is_empty() {
        return Err(data("no data directory is named"));
    }
    let clock = options.clock.clone().unwrap_or_else(|| Arc::new(plimsoll::clock::SystemClock));
    let time = Time::new(clock);
    let nodes = open_nodes(&options).await?;
    let opened = tokio::task::spawn_blocking(move || open_catalogue(nodes));
    let (nodes, keeper) = opened.await.map_err(data)??;
    let format = keeper.catalogue.format().clone();
    let registry = Arc::new(Registry::default());
    let in_flight = Arc::new(AtomicU64::new(0));
    let mut loading = Vec::new();
    for (dir, node) in nodes.iter().enumerate() {
        let dir = u16::try_from(dir).map_err(data)?;
        let shared = Arc::new(Shared {
            node: node.clone(),
            receipts: Receipts::new(format.receipt_key),
            time: time.clone(),
            blocking: Arc::new(Semaphore::new(BLOCKING)),
            in_flight: Arc::clone(&in_flight),
            in_flight_max: options.in_flight_max,
            snapshot_bytes: options.snapshot_bytes,
            marks_bytes: AtomicU64::new(0),
            registry: Arc::clone(&registry),
        });
        let (sweeping, catalogue) = (node.clone(), keeper.catalogue.clone());
        let present = tokio::task::spawn_blocking(move || sweep(&sweeping, &catalogue, dir));
        let present = Arc::new(present.await.map_err(data)??);
        for shard in 0..format.shards {
            let layout = Layout { dir, shard, key: format.receipt_key };
            let metas: Vec<QueueMeta> = keeper
                .catalogue
                .iter()
                .filter(|meta| {
                    meta.settings.data_dir == dir && logs::shard(meta.id, format.shards) == shard
                })
                .cloned()
                .collect();
            let (shared, present) = (Arc::clone(&shared), Arc::clone(&present));
            let time = time.clone();
            loading.push(tokio::task::spawn_blocking(move || {
                let loaded = owner::load(&shared.node, &time, layout, metas.clone(), &present);
                (shared, layout, metas, loaded)
            }));
        }
    }
    let mut owners = Vec::with_capacity(loading.len());
    for shard in loading {
        let (shared, layout, metas, loaded) = shard.await.map_err(data)?;
        let loaded = loaded.map_err(|error| data(format!("shard {layout}: {error}")))?;
        // Listed first, so that the owner's first word about its queues is heard.
        let handle = Owner::spawn(shared, layout, loaded, |handle| {
            metas.iter().for_each(|meta| registry.put(meta, handle));
        });
        owners.push(handle);
    }
    Ok(Inner {
        nodes,
        registry,
        owners,
        shards: format.shards,
        keeper: tokio::sync::Mutex::new(keeper),
        time,
        stopping: AtomicBool::new(false),
        in_flight,
        answer_max: options.answer_max,
    })
}
