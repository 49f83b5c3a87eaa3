//! The same as files: every round in `results.csv`, everything in `results.json`.

use crate::judge;
use crate::results::{Part, Results, Series};
use crate::workload::Measure;
use std::error::Error;
use std::path::Path;

pub(crate) fn write(out: &Path, results: &Results) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("results.json"), serde_json::to_vec_pretty(results)?)?;
    let mut csv = csv::Writer::from_path(out.join("results.csv"))?;
    csv.write_record([
        "workload",
        "system",
        "round",
        "unit",
        "value",
        "p50_us",
        "p99_us",
        "done",
        "syncs",
        "beside",
        "ratio",
        "reference",
        "note",
        "others_cpu",
        "steal_cpu",
        "noise",
    ])?;
    for part in &results.parts {
        for series in &part.series {
            for round in 0..series.rounds.len() {
                csv.write_record(row(results, part, series, round))?;
            }
        }
    }
    csv.flush()?;
    Ok(())
}

fn row(results: &Results, part: &Part, series: &Series, round: usize) -> Vec<String> {
    let turn = &series.rounds[round];
    let noise = part.noise.get(round);
    let some = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
    let (against, reference) = judge::reference(part.of.kind);
    let ratio = judge::ratio(part, series, Measure::Value, against, round);
    let machine = results.machine.note.as_deref();
    let notes: Vec<&str> =
        machine.into_iter().chain(noise.and_then(|noise| noise.note.as_deref())).collect();
    vec![
        part.workload.to_owned(),
        series.system.clone(),
        (round + 1).to_string(),
        part.unit.to_owned(),
        format!("{:.4}", turn.value),
        some(turn.p50),
        some(turn.p99),
        turn.done.to_string(),
        turn.syncs.map_or(String::new(), |syncs| syncs.to_string()),
        some(turn.beside),
        some(ratio),
        reference.to_owned(),
        turn.note.clone().unwrap_or_default(),
        some(noise.map(|noise| noise.others)),
        some(noise.map(|noise| noise.steal)),
        notes.join("; "),
    ]
}
