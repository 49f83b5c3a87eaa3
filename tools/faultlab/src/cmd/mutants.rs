//! `faultlab mutants`.
use super::Output;

/// Switches each known mistake of the engine on, and says what catches it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, _output: &Output) -> super::Result {
    Err("not there yet".to_owned())
}
