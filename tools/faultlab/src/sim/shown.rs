//! What a world's node shows: after a start, and to whoever reads; all of it is checked.

use super::oracle::{Shown, View};
use super::world::{DATA, World, existing, in_pool};
use plimsoll::error::Stopped;

const MOST_RECORDS: usize = 50_000;

impl World {
    /// Reads a log from its head to its end.
    pub fn view(&self, log: &str) -> Option<View> {
        let open = self.log(log);
        let (head, next) = (open.head(), open.durable());
        let mut records = Vec::new();
        let mut take = || -> Result<(), plimsoll::error::ReadError> {
            let mut reader = open.read_from(head)?;
            while let Some(record) = reader.next()? {
                let offset = record.offset.0;
                assert!(records.len() < MOST_RECORDS, "I3: log {log} shows no end of records");
                records.push(Shown { offset, headers: record.headers, payload: record.payload });
            }
            Ok(())
        };
        if let Err(error) = take() {
            let damaged = matches!(error, plimsoll::error::ReadError::Damaged(_));
            assert!(
                self.dead() || self.faulty && !damaged,
                "I4: log {log} cannot be read: {error}"
            );
            return None;
        }
        self.say(format_args!("{log} shows {head} to {next}"));
        Some(View { head: head.0, next: next.0, records })
    }

    /// Reads a log and checks what it shows.
    pub fn read(&mut self, log: &str) {
        if self.has(log)
            && !matches!(self.log(log).stopped(), Some(Stopped::ReadOnly(_)))
            && let Some(view) = self.view(log)
        {
            self.checks += 1;
            self.oracle.check(log, &view);
        }
    }

    /// Starts the node after a crash, opens every log there is, and checks what they show. The process may die on the
    /// way.
    pub fn recover(&mut self) {
        self.start();
        if !self.is_up() {
            return;
        }
        let names = match self.node().logs() {
            Ok(names) => names,
            Err(error) => return self.expect_error("the logs cannot be listed", &error),
        };
        let names: Vec<String> = names.iter().map(|name| name.as_str().to_owned()).collect();
        self.oracle.check_names(&names);
        for log in names.iter().filter(|log| self.oracle.knows(log)).cloned().collect::<Vec<_>>() {
            let log = &log;
            self.open_with(log, existing());
            if !self.has(log) {
                return;
            }
            if let Some(why) = self.log(log).stopped() {
                assert!(
                    self.dead() || self.faulty,
                    "I4: after a crash log {log} is not open: {why}"
                );
            }
            self.read(log);
        }
        // What could not be made durable is not tidied up either, nor is what could not be removed.
        if !self.dead() && !self.broken && self.logs.values().all(|log| log.stopped().is_none()) {
            self.checks += 1;
            self.check_files();
        }
    }

    /// I6: every file is in exactly one place, and nothing is left over after a start.
    pub fn check_files(&self) {
        let mut expected: Vec<String> =
            ["LAYOUT", "LOCK"].iter().map(|file| format!("{DATA}/{file}")).collect();
        for (name, log) in &self.logs {
            let files = log.segments().into_iter().map(|segment| {
                let file = plimsoll::format::name::segment_file(segment.base);
                format!("{DATA}/logs/{name}/{file}")
            });
            expected.extend(files);
        }
        expected.sort();
        let found: Vec<String> =
            self.fs.files().iter().map(|path| path.display().to_string()).collect();
        let spares = format!("{DATA}/spares/");
        let (spares, mut found): (Vec<String>, Vec<String>) =
            found.into_iter().partition(|path| path.starts_with(&spares));
        if self.full() {
            // What a full disk lets nobody rename is emptied later.
            let trash = format!("{DATA}/trash/");
            found.retain(|path| !path.starts_with(&trash));
        }
        assert_eq!(found, expected, "I6: files on disk, and those that belong to something");
        let held: u64 = self.node().stats().pools.iter().map(in_pool).sum();
        assert_eq!(spares.len() as u64, held, "I6: {spares:?}, and what the pool knows of");
    }
}
