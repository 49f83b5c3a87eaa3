//! `faultlab exhaustive`.
use super::Output;

/// Crashes scripts at every operation, and the recoveries that follow.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, _output: &Output) -> super::Result {
    Err("not there yet".to_owned())
}
