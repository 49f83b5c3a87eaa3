//! `faultlab replay`.
use super::{Output, Verdict};
use faultlab::sim::aloud::aloud;
use faultlab::sim::case::Case;
use faultlab::sim::caught::first_line;
use faultlab::sim::planted::CAN_PLANT;
use serde_json::json;
use std::path::PathBuf;

/// Replays a case that a failing run left: exit code 1 while the violation is still there.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The case.
    file: PathBuf,
    /// Print every call, what was done, and what each crash lost.
    #[arg(long, short)]
    verbose: bool,
    /// Without the planted fault of the case: the engine as it is.
    #[arg(long)]
    clean: bool,
}

pub(crate) fn run(args: &Args, output: &Output) -> super::Result {
    let wrong = |why: String| format!("{}: {why}", args.file.display());
    let text = std::fs::read_to_string(&args.file).map_err(|error| wrong(error.to_string()))?;
    let mut case: Case = text.parse().map_err(wrong)?;
    if args.clean {
        case.planted = None;
    }
    if case.planted.is_some() && !CAN_PLANT {
        return Err(wrong(super::mutants::NOT_HERE.to_owned()));
    }
    output.say(format_args!("{}", case.to_string().trim_end()));
    let violation = if args.verbose && !output.is_json() {
        aloud(|| case.violation())
    } else {
        case.violation()
    };
    match &violation {
        Some(what) => output.say(format_args!("violation: {what}")),
        None => output.say("nothing is violated"),
    }
    output.json(&json!({
        "case": case.to_string(),
        "planted": case.planted.map(|fault| format!("{fault:?}")),
        "was": case.was,
        "violation": violation.as_deref().map(first_line),
    }));
    Ok(Verdict::of(violation.is_none()))
}
