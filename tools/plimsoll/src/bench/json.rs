//! A report for programs.

use super::report::{Report, rate};
use super::turns::{Case, Group};
use serde_json::{Map, Value, json};

/// The object.
pub(crate) fn report(report: &Report) -> Value {
    let machine = &report.machine;
    let (mount, device) = (machine.mount.as_ref(), &machine.device);
    let group = |group| report.of(group).map(|case| row(report, case)).collect::<Vec<Value>>();
    let measured = |group| report.of(group).next().is_some();
    let disk = measured(Group::Ways).then(|| {
        json!({
            "ways": group(Group::Ways),
            "parallel": group(Group::Parallel),
            "sequential": group(Group::Sequential),
        })
    });
    let engine = report.engine.map(|engine| {
        json!({
            "commits_by": engine.commits_by,
            "delayed_ms": u64::try_from(engine.delayed.as_millis()).unwrap_or(u64::MAX),
            "cases": group(Group::Engine),
        })
    });
    let bucket = |bucket: &super::stats::Bucket| {
        json!({
            "from_us": micros(bucket.from), "to_us": bucket.to.map(micros), "count": bucket.count,
        })
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "kernel": machine.kernel,
        "cpus": machine.cpus,
        "file_system": {
            "type": mount.map(|mount| &mount.kind),
            "options": mount.map(|mount| &mount.options),
            "total_bytes": report.space.total,
            "free_bytes": report.space.available,
        },
        "device": {
            "logical_block_bytes": device.logical_block,
            "physical_block_bytes": device.physical_block,
            "write_cache": device.write_cache,
            "fua": device.fua,
            "rotational": device.rotational,
        },
        "seconds": round(report.spent.as_secs_f64(), 1e2),
        "rounds": report.rounds,
        "turn_ms": round(report.turn.as_secs_f64() * 1e3, 1e2),
        "quiet": report.quiet.map(|quiet| quiet.is_quiet()),
        "others_share": report.quiet.map(|quiet| round(quiet.others, 1e4)),
        "steal_share": report.quiet.map(|quiet| round(quiet.steal, 1e4)),
        "disk": disk,
        "engine": engine,
        "sync_histogram": report.histogram().iter().map(bucket).collect::<Vec<Value>>(),
        "meaning": report.meaning(),
    })
}

fn row(report: &Report, case: &Case) -> Value {
    let mut row = Map::new();
    let mut set = |name: &str, value: Value| row.insert(name.to_owned(), value);
    set("what", json!(case.what));
    set("file", json!(case.file));
    set("bytes", json!(case.bytes));
    set("threads", json!(case.threads));
    set("supported", json!(case.work.is_ok()));
    set("why_not", json!(case.work.as_ref().err()));
    set("per_second", json!(rate(case).map(|rate| round(rate.median, 1e2))));
    let found = case.latencies.percentiles();
    set("samples", json!(found.samples));
    for (name, value) in [
        ("p50_us", found.p50),
        ("p90_us", found.p90),
        ("p99_us", found.p99),
        ("p999_us", found.p999),
        ("max_us", found.max),
    ] {
        set(name, json!(value.map(micros)));
    }
    let beside = report.beside(case);
    set("beside", json!(beside.map(|beside| &beside.what)));
    let of_beside = beside.and_then(rate);
    set("beside_per_second", json!(of_beside.map(|rate| round(rate.median, 1e2))));
    let ratio = report.ratio(case);
    set("ratio", json!(ratio.map(|ratio| round(ratio.median, 1e4))));
    set("ratio_spread", json!(ratio.map(|ratio| round(ratio.spread, 1e4))));
    Value::Object(row)
}

fn micros(nanos: u64) -> f64 {
    round(nanos as f64 / 1e3, 1e2)
}

/// To so many parts of one.
fn round(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}
