//! What a publisher meets when a disk fills up: `cargo run --release --example filling_up`.
//!
//! A log that nobody reads fills a file system of 64 MiB. Its publisher is slowed, then refused with a reason and a hint,
//! while acknowledgements go on; then the log is truncated, and publishes go on by themselves.
//!
//! As root the file system is a small one in memory, made for it. Else it is the directory given with `--dir` (or a
//! temporary one), with limits set so that the first 20 MiB that are written bring it to hard: what others write there
//! meanwhile counts too.
//!
//! `--csv FILE` and `--plot FILE.svg` write down what is shown.
#![allow(clippy::disallowed_methods, reason = "not the engine: uses it from outside")]

mod place;
mod run;
mod svg;

use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;

struct Args {
    csv: Option<PathBuf>,
    plot: Option<PathBuf>,
    dir: Option<PathBuf>,
}

fn args() -> Result<Args, String> {
    let mut given = Args { csv: None, plot: None, dir: None };
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        let into = match word.to_str() {
            Some("--csv") => &mut given.csv,
            Some("--plot") => &mut given.plot,
            Some("--dir") => &mut given.dir,
            _ => return Err("usage: filling_up [--csv FILE] [--plot FILE.svg] [--dir DIR]".into()),
        };
        *into =
            Some(words.next().ok_or_else(|| format!("{} needs a path", word.display()))?.into());
    }
    Ok(given)
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = args()?;
    let place = place::make(args.dir)?;
    println!("{}\n", place.what);
    let told = run::run(&place)?;
    if let Some(path) = args.csv {
        std::fs::write(&path, csv(&told))?;
        println!("{}: {} rows", path.display(), told.rows.len());
    }
    if let Some(path) = args.plot {
        let drawn = svg::draw(&told);
        std::fs::write(&path, &drawn)?;
        println!("{}: {} bytes", path.display(), drawn.len());
    }
    Ok(())
}

fn csv(told: &run::Told) -> String {
    let mut text = String::from(
        "seconds,free_bytes,soft_bytes,hard_bytes,reserve_bytes,level,published,delay_ms,refused,acknowledged\n",
    );
    let lines = told.lines;
    for row in &told.rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:.1},{},{},{},{},{},{},{:.1},{},{}",
            row.seconds,
            row.free,
            lines.soft,
            lines.hard,
            lines.reserve,
            row.level,
            row.published,
            row.delay_ms(),
            row.refused,
            row.acknowledged
        );
    }
    text
}
