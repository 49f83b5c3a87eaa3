//! What only a terminal gets: colour, progress, questions.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "not the engine: a test plants files, waits, and panics when it fails"
)]

mod support;

use nix::pty::{OpenptyResult, Winsize, openpty};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use support::{Dir, command, feed, numbered, run};

/// A terminal, and the side of it where a person sits.
fn terminal() -> (OwnedFd, File) {
    let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    let OpenptyResult { master, slave } = openpty(&size, None).unwrap();
    (slave, File::from(master))
}

/// All that is shown until the last process leaves the terminal, which the kernel tells as an error.
fn shown(mut person: File) -> String {
    let (mut all, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = person.read(&mut part) {
        all.extend_from_slice(&part[..read]);
    }
    String::from_utf8(all).unwrap()
}

fn stdio(terminal: &OwnedFd) -> Stdio {
    terminal.try_clone().unwrap().into()
}

#[test]
fn a_table_has_colour_on_a_terminal_unless_that_is_not_wanted() {
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), b"one\n").exits(0);
    for (variable, coloured) in [("", true), ("NO_COLOR", false)] {
        let (terminal, person) = terminal();
        let mut command = command("logs {}", &dir.data());
        command.env("TERM", "xterm-256color").stdout(stdio(&terminal));
        if !variable.is_empty() {
            command.env(variable, "1");
        }
        let status = command.status().unwrap();
        drop(command);
        drop(terminal);
        let shown = shown(person);
        assert!(status.success() && shown.contains("orders"), "{shown}");
        assert_eq!(shown.contains('\u{1b}'), coloured, "{variable}: {shown:?}");
    }
}

#[test]
fn an_append_shows_its_progress_on_a_terminal_and_only_there() {
    let dir = Dir::new();
    for (options, expected) in [("", true), (" --confirm", false), (" --json", false)] {
        let (terminal, person) = terminal();
        let mut command = command(&format!("append {{}} orders{options}"), &dir.data());
        command
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(stdio(&terminal));
        let mut child = command.spawn().unwrap();
        drop(command);
        drop(terminal);
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&numbered(1000)).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(700));
        drop(stdin);
        let shown = shown(person);
        assert!(child.wait().unwrap().success());
        assert_eq!(shown.contains("records/s"), expected, "{options}: {shown:?}");
        assert_eq!(shown.is_empty(), !expected, "{options}: {shown:?}");
    }
}

#[test]
fn deleting_asks_on_a_terminal_and_takes_only_a_yes() {
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), b"one\ntwo\n").exits(0);
    let answer = |text: &str| {
        let (terminal, mut person) = terminal();
        let mut command = command("delete {} orders", &dir.data());
        command.stdin(stdio(&terminal)).stdout(Stdio::null()).stderr(stdio(&terminal));
        let mut child = command.spawn().unwrap();
        drop(command);
        drop(terminal);
        person.write_all(text.as_bytes()).unwrap();
        let shown = shown(person);
        assert!(shown.contains("Delete orders with 2 records, 256 KiB on disk? [y/N]"), "{shown}");
        child.wait().unwrap().code()
    };
    for no in ["n\n", "\n", "yeah\n"] {
        assert_eq!(answer(no), Some(2));
        assert_eq!(run("read {} orders", &dir.data()).exits(0).text(), "one\ntwo\n");
    }
    assert_eq!(answer("y\n"), Some(0));
    run("read {} orders", &dir.data()).exits(3);
}
