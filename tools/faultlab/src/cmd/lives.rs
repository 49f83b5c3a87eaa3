//! `faultlab lives`.
use super::Output;

/// Random lives of a whole node.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, _output: &Output) -> super::Result {
    Err("not there yet".to_owned())
}
