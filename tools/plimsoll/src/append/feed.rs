//! The thread that reads standard input.

use super::decode::{Decoder, Sink, Wrong};
use super::handover::Handover;
use crate::failure::Failure;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::Arc;

const CHUNK_LEN: usize = 256 * 1024;

/// Begins to read. Nobody waits for the thread: it may be held by an input that never ends.
pub(crate) fn spawn(
    decoder: Box<dyn Decoder + Send>,
    handover: Arc<Handover>,
) -> Result<(), Failure> {
    let read = move || {
        let result = feed(decoder, &handover);
        handover.end(result);
    };
    let fail = |error| Failure::io("start a thread for", "standard input", &error);
    std::thread::Builder::new().name("input".into()).spawn(read).map_err(fail)?;
    Ok(())
}

fn feed(mut decoder: Box<dyn Decoder + Send>, handover: &Handover) -> Result<(), Failure> {
    let fail = |error| Failure::io("read", "standard input", &error);
    // Past the standard library's buffer: a read gives what is there, and only an empty pipe makes it wait.
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(fail)?);
    let mut sink = Sink::new(handover);
    let mut chunk = vec![0; CHUNK_LEN];
    let mut step = || -> Result<bool, Wrong> {
        let read = match input.read(&mut chunk) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(fail(error).into()),
        };
        let fed = if read == 0 {
            decoder.finish(&mut sink)
        } else {
            decoder.feed(&chunk[..read], &mut sink)
        };
        // The records before one that is wrong are appended all the same.
        sink.flush()?;
        fed.map(|()| read > 0)
    };
    loop {
        match step() {
            Ok(true) => {}
            Ok(false) | Err(Wrong::Unwanted) => return Ok(()),
            Err(Wrong::Input(failure)) => return Err(failure),
        }
    }
}
