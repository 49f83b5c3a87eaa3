//! All that was measured, by workload, system and round.

use crate::child::Turn;
use crate::quiet::Noise;
use crate::workload::{Scale, Workload};
use serde::Serialize;

/// Where and with what.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
    pub(crate) file_system: String,
    pub(crate) mount_options: String,
    pub(crate) device: String,
    pub(crate) load_before: f64,
    pub(crate) note: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) system: String,
    /// By round; where a system failed in the middle there are fewer.
    pub(crate) rounds: Vec<Turn>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Absent {
    pub(crate) system: String,
    pub(crate) why: String,
    /// Whether it should have been there.
    pub(crate) failed: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct Part {
    pub(crate) workload: &'static str,
    pub(crate) says: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) series: Vec<Series>,
    pub(crate) absent: Vec<Absent>,
    /// By round.
    pub(crate) noise: Vec<Noise>,
    #[serde(skip)]
    pub(crate) of: Workload,
}

#[derive(Debug, Serialize)]
pub(crate) struct Version {
    pub(crate) system: &'static str,
    pub(crate) version: Option<String>,
    pub(crate) mode: &'static str,
}

#[derive(Debug, Serialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) versions: Vec<Version>,
    pub(crate) rounds: usize,
    pub(crate) scale: Scale,
    pub(crate) parts: Vec<Part>,
    pub(crate) verdicts: Vec<crate::judge::Verdict>,
}

impl Part {
    pub(crate) fn series(&self, system: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.system == system)
    }

    /// A system that has no part in it.
    pub(crate) fn leave_out(&mut self, system: &str, why: &str) {
        let (system, why) = (system.to_owned(), why.to_owned());
        self.absent.push(Absent { system, why, failed: false });
    }

    /// One that had, and could not go on.
    pub(crate) fn failed(&mut self, system: &str, why: &str) {
        let why = format!("FAILED: {why}");
        self.absent.push(Absent { system: system.to_owned(), why, failed: true });
    }
}
