//! Where failing runs are kept, and what was kept before: that is replayed first.
use super::Output;
use faultlab::sim::case::{self, Case};
use faultlab::sim::planted::CAN_PLANT;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Dir {
    /// Where the case of a failure is written; cases that are there are replayed first.
    #[arg(long, value_name = "DIR", default_value = "faultlab-cases")]
    cases: PathBuf,
}

/// What came of cases that were there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replayed {
    pub(crate) replayed: u64,
    pub(crate) held: bool,
}

impl Dir {
    /// Replays the cases that are there, before anything random.
    pub(crate) fn replay(&self, output: &Output) -> Result<Replayed, String> {
        let mut all = Replayed { replayed: 0, held: true };
        let mut left = 0;
        for (path, case) in case::all_in(&self.cases)? {
            if case.planted.is_some() && !CAN_PLANT {
                left += 1;
                continue;
            }
            all.replayed += 1;
            if let Err(what) = case.holds() {
                all.held = false;
                output.wrong(format_args!("{}: {what}", path.display()));
            }
        }
        if all.replayed > 0 {
            output.say(format_args!("{} kept cases replayed", all.replayed));
        }
        if left > 0 {
            output.say(format_args!("{left} kept cases not replayed: this build plants no fault"));
        }
        Ok(all)
    }

    /// Writes a case and says where it is.
    pub(crate) fn found(&self, case: &Case, output: &Output) -> Result<String, String> {
        let path = case
            .write(&self.cases)
            .map_err(|error| format!("{}: {error}", self.cases.display()))?
            .display()
            .to_string();
        output.wrong(format_args!("{}\n  faultlab replay {path} --verbose", case.was));
        Ok(path)
    }
}
