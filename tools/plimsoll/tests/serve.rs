//! `plimsoll serve`: from its first line to its end.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "not the engine: a test plants files, waits, and panics when it fails"
)]

mod support;

use nix::sys::signal::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};
use support::{Dir, finish, run, signal, spawn};

/// A server on a port of its own, and what it told until it listens.
fn serve(line: &str, dir: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = spawn(&format!("serve --listen 127.0.0.1:0 --data {{}} {line}"), dir);
    let told = BufReader::new(child.stdout.take().unwrap());
    (child, told)
}

fn line(told: &mut impl BufRead) -> String {
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    line
}

/// The address in the line that `--json` gives.
fn address(told: &mut impl BufRead) -> String {
    let told: serde_json::Value = serde_json::from_str(&line(told)).unwrap();
    assert_eq!(told["data"][0]["level"], "ok");
    let threshold = told["data"][0]["hard_bytes"].as_u64().unwrap();
    assert!(threshold < told["data"][0]["free_bytes"].as_u64().unwrap());
    told["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned()
}

fn ask(address: &str, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let len = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_lines_that_it_prints_work_when_they_are_pasted() {
    let dir = Dir::new();
    let (child, mut told) = serve("", &dir.data());
    let mut text = String::new();
    // The last of the four.
    while !text.contains("/ack\n") {
        text += &line(&mut told);
    }
    assert!(text.contains("level  ok: "), "{text}");
    let pasted: Vec<&str> = text.lines().skip_while(|line| *line != "Try it:").skip(1).collect();
    assert_eq!(pasted.len(), 4, "{text}");
    let Ok(output) = Command::new("sh").args(["-c", &pasted.join("\n")]).output() else { return };
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<&str> = answers.lines().collect();
    for (answer, holds) in answers.iter().zip([
        "\"result\":\"created\"",
        "\"duplicate\":false",
        "\"payload\":\"hello\"",
        "{\"result\":\"done\"}",
    ]) {
        assert!(answer.contains(holds), "{answers:?}");
    }
    assert_eq!(answers.len(), 4, "{answers:?}");
    signal(&child, Signal::SIGTERM);
    finish(child).exits(0);
}

#[test]
fn a_signal_ends_it_in_order_and_what_was_published_is_there_again() {
    let dir = Dir::new();
    for (round, end) in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL].into_iter().enumerate() {
        let (child, mut told) = serve("--json", &dir.data());
        let address = address(&mut told);
        if round == 0 {
            assert!(ask(&address, "PUT", "/api/v1/queue/jobs", "").starts_with("HTTP/1.1 201 "));
        }
        let answer = ask(&address, "POST", "/api/v1/queue/jobs/messages", "hello");
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
        let answer = ask(&address, "GET", "/api/v1/queue/jobs", "");
        assert!(answer.contains(&format!("\"ready\":{},", round + 1)), "{answer}");
        signal(&child, end);
        finish(child).exits(if end == Signal::SIGKILL { 137 } else { 0 });
    }
    let (child, mut told) = serve("--json", &dir.data());
    let answer = ask(&address(&mut told), "GET", "/api/v1/queue/jobs", "");
    assert!(answer.contains("\"ready\":3,"), "{answer}");
    signal(&child, Signal::SIGTERM);
    finish(child).exits(0);
}

#[test]
fn what_it_cannot_serve_is_told_before_anything_is_made() {
    let dir = Dir::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap();
    let line = format!("serve --data {{}} --listen {port}");
    run(&line, &dir.data()).exits(3).says(&["cannot listen on", &port.to_string()]);
    assert!(!dir.data().exists());
    let beyond = "serve --data {} --listen 0.0.0.0:0 --json";
    let told = run(beyond, &dir.data()).exits(2).says(&["loopback"]);
    assert_eq!(told.error()["field"], "listen");
    let settings = dir.file("wrong.toml", b"[limits]\n[broker]\nhost = 1\n");
    let line = format!("serve --data {{}} --settings {}", settings.display());
    run(&line, &dir.data()).exits(2).says(&["wrong.toml: broker: unknown field `host`"]);
    assert!(!dir.data().exists());
    // Somebody else's directory is not filled.
    let other = dir.path("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("thesis.tex"), "x").unwrap();
    run("serve --listen 127.0.0.1:0 --data {}", &other).exits(3).says(&["thesis.tex"]);
    // One at a time.
    let (child, mut told) = serve("--json", &dir.data());
    address(&mut told);
    run("serve --listen 127.0.0.1:0 --data {}", &dir.data()).exits(3);
    signal(&child, Signal::SIGTERM);
    finish(child).exits(0);
}

/// A file on the full disk that its first lines were written to kept the broker from starting, just when it had to.
#[test]
fn it_serves_where_its_first_lines_cannot_be_written() {
    let dir = Dir::new();
    let mut command = support::command("serve --listen 127.0.0.1:0 --data {}", &dir.data());
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut child = command.stdout(full).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let address = loop {
        let line = line(&mut log);
        assert!(!line.is_empty(), "it has ended");
        if let Some((_, address)) = line.split_once("address=") {
            break address.trim().to_owned();
        }
    };
    assert!(ask(&address, "GET", "/healthz", "").starts_with("HTTP/1.1 200"));
    signal(&child, Signal::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
