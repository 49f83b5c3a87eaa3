//! A report for people, as plain text that can be sent to somebody.

use super::quiet::Quiet;
use super::report::{Report, rate, time};
use super::stats::Bucket;
use super::turns::{Case, Group};
use crate::numbers::{count, size, thousands};
use crate::output::{BAD, BOLD, ODD, styled};
use crate::table::{self, Cell, Lean};

/// The longest bar.
const BAR: u64 = 50;

/// What the columns are, for who gets this sent.
const LEGEND: [&str; 6] = [
    "Latencies in µs; - where there are too few samples.",
    "RATIO: median over the rounds, to BESIDE in the same round. SPREAD: distance of its quartiles over it.",
    "BESIDE, of ways: pwrite + fdatasync on a written file. Of parallel syncs: one thread.",
    "  Of the engine with 1 writer: pwrite + fdatasync of as many bytes on a written file.",
    "  With 16 writers: the same, where one write takes all that is staged. With 16 logs: with 16 files.",
    "O_DIRECT writes whole blocks of 4,096 bytes.",
];

/// The lines.
pub(crate) fn report(report: &Report) -> Vec<String> {
    let mut out = header(report);
    let mut part = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            out.extend([String::new(), styled(BOLD, title)]);
            out.extend(lines);
        }
    };
    part("Ways of committing", rows(report, Group::Ways));
    part(
        "Syncs in parallel: pwrite + fdatasync, each thread on a file of its own",
        rows(report, Group::Parallel),
    );
    part("Sequential writing: pwrite of 1 MiB + fdatasync", rows(report, Group::Sequential));
    part("The engine: durable appends", rows(report, Group::Engine));
    part(
        "A write of 1 KiB and its sync (pwrite + fdatasync, written file)",
        bars(&report.histogram()),
    );
    out.push(String::new());
    out.extend(LEGEND.map(str::to_owned));
    out.extend(report.meaning().map(|sentence| format!("\n{sentence}")));
    out
}

fn header(report: &Report) -> Vec<String> {
    let machine = &report.machine;
    let unknown = || "not known".to_owned();
    let row = |title: &str, text: &str| format!("  {title:<11} {text}");
    let kernel = machine.kernel.clone().unwrap_or_else(unknown);
    let cpus = count(machine.cpus as u64, "CPU");
    let mut out = vec![
        styled(BOLD, format_args!("plimsoll {} bench", env!("CARGO_PKG_VERSION"))),
        row("machine", &format!("Linux {kernel}, {cpus}")),
    ];
    let kind = machine.mount.as_ref().map_or_else(unknown, |mount| {
        let options = mount.options.join(",");
        if options.is_empty() { mount.kind.clone() } else { format!("{} ({options})", mount.kind) }
    });
    let (total, free) = (size(report.space.total), size(report.space.available));
    out.push(row("file system", &format!("{kind}, {total}, {free} free")));
    out.push(row("device", &device(report)));
    if let Some(engine) = &report.engine {
        out.push(row("engine", &format!("commits by {}", engine.commits_by)));
    }
    let (rounds, cases) = (count(report.rounds.into(), "round"), report.cases.len());
    let turn = report.turn.as_millis();
    let spent = report.spent.as_secs_f64();
    out.push(row("run", &format!("{spent:.0} s, {rounds} of {cases} turns of {turn} ms")));
    out.push(row("meanwhile", &meanwhile(report.quiet.as_ref())));
    if let Some(engine) = report.engine.filter(|engine| !engine.delayed.is_zero()) {
        let delay = time(u64::try_from(engine.delayed.as_nanos()).unwrap_or(u64::MAX));
        let text = format!("publishes were delayed by {delay} in all, as memory is short");
        out.push(row("", &styled(BAD, text)));
    }
    out
}

fn device(report: &Report) -> String {
    let device = &report.machine.device;
    let mut told = Vec::new();
    if let (Some(logical), Some(physical)) = (device.logical_block, device.physical_block) {
        told.push(format!("blocks of {logical} B, physical {physical} B"));
    }
    told.extend(device.write_cache.as_ref().map(|mode| format!("cache {mode}")));
    told.extend(device.fua.map(|fua| if fua { "FUA".to_owned() } else { "no FUA".to_owned() }));
    told.extend(device.rotational.filter(|turns| *turns).map(|_| "rotational".to_owned()));
    if told.is_empty() { "the kernel tells of none".to_owned() } else { told.join(", ") }
}

fn meanwhile(quiet: Option<&Quiet>) -> String {
    let Some(quiet) = quiet else { return "not known whether the machine was quiet".to_owned() };
    let (others, steal) = (quiet.others * 100.0, quiet.steal * 100.0);
    let text = format!("others used {others:.0}% of the CPUs, {steal:.0}% was stolen");
    if quiet.is_quiet() {
        return text;
    }
    styled(ODD, format!("NOT QUIET: {text}; the numbers are theirs, too"))
}

fn rows(report: &Report, group: Group) -> Vec<String> {
    use Lean::Left;
    let cases: Vec<&Case> = report.of(group).collect();
    if cases.is_empty() {
        return Vec::new();
    }
    let compared = cases.iter().any(|case| case.beside.is_some());
    let mut columns = vec![("  WHAT", Left)];
    if group == Group::Ways {
        columns.push(("FILE", Left));
    }
    columns.extend(["BYTES", "THREADS", "PER S", "P50", "P90", "P99", "P99.9", "MAX"].map(right));
    if compared {
        columns.extend(["BESIDE", "RATIO", "SPREAD"].map(right));
    }
    if cases.iter().any(|case| case.work.is_err()) {
        columns.push(("NOTE", Left));
    }
    let cells: Vec<Vec<Cell>> =
        cases.into_iter().map(|case| cells(report, case, compared)).collect();
    table::lines(&columns, &cells)
}

fn right(title: &str) -> (&str, Lean) {
    (title, Lean::Right)
}

fn cells(report: &Report, case: &Case, compared: bool) -> Vec<Cell> {
    let dash = || "-".to_owned();
    let mut texts = vec![format!("  {}", case.what)];
    if case.group == Group::Ways {
        texts.push(case.file.to_owned());
    }
    texts.extend([thousands(case.bytes as u64), case.threads.to_string()]);
    texts.push(rate(case).map_or_else(dash, |rate| per_second(rate.median)));
    let found = case.latencies.percentiles();
    let latencies = [found.p50, found.p90, found.p99, found.p999, found.max];
    texts.extend(latencies.map(|value| value.map_or_else(dash, micros)));
    if compared {
        let beside = report.beside(case).and_then(rate);
        let ratio = report.ratio(case);
        texts.push(beside.map_or_else(dash, |rate| per_second(rate.median)));
        texts.push(ratio.map_or_else(dash, |ratio| format!("{:.2}", ratio.median)));
        texts.push(ratio.map_or_else(dash, |ratio| format!("{:.0}%", ratio.spread * 100.0)));
    }
    let why = case.work.as_ref().err();
    let why = why.map(|why| Cell::styled(ODD, format!("not supported here: {why}")));
    texts.into_iter().map(Cell::new).chain(why).collect()
}

fn per_second(rate: f64) -> String {
    if rate < 99.95 { format!("{rate:.1}") } else { thousands(whole(rate)) }
}

/// `9.4`, `94`, `1,200`.
fn micros(nanos: u64) -> String {
    let micros = nanos as f64 / 1e3;
    if micros < 99.95 { format!("{micros:.1}") } else { thousands(whole(micros)) }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float to int cast saturates"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

fn bars(buckets: &[Bucket]) -> Vec<String> {
    let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0).max(1);
    let all: u64 = buckets.iter().map(|bucket| bucket.count).sum();
    let line = |bucket: &Bucket| {
        // What is there is seen.
        let len = (u128::from(bucket.count) * u128::from(BAR)).div_ceil(most.into());
        let bar = "#".repeat(usize::try_from(len).unwrap_or(0));
        let end = bucket.to.map_or_else(|| "longer".to_owned(), time);
        let share = bucket.count as f64 / all as f64 * 100.0;
        let (from, number) = (time(bucket.from), thousands(bucket.count));
        format!("  {from:>7} to {end:>7}  {number:>9} {share:>6.2}%  {bar}").trim_end().to_owned()
    };
    buckets.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_is_full_and_the_shortest_is_seen() {
        let bucket = |from, to, count| Bucket { from, to, count };
        let told = bars(&[
            bucket(50_000, Some(70_000), 99_999),
            bucket(70_000, Some(100_000), 0),
            bucket(100_000, None, 1),
        ]);
        let full = "#".repeat(50);
        assert_eq!(
            told,
            [
                format!("    50 µs to   70 µs     99,999 100.00%  {full}"),
                "    70 µs to  100 µs          0   0.00%".to_owned(),
                "   100 µs to  longer          1   0.00%  #".to_owned(),
            ]
        );
        assert!(bars(&[]).is_empty());
    }

    #[test]
    fn a_machine_that_was_not_quiet_is_told() {
        let told = |others, steal| meanwhile(Some(&Quiet { others, steal }));
        assert_eq!(told(0.04, 0.0), "others used 4% of the CPUs, 0% was stolen");
        assert!(told(0.5, 0.0).contains("NOT QUIET"));
        assert!(told(0.0, 0.1).contains("NOT QUIET"));
    }
}
