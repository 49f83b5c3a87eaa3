//! `faultlab replay`.
use super::Output;

/// Replays a case that a failing run left.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, _output: &Output) -> super::Result {
    Err("not there yet".to_owned())
}
