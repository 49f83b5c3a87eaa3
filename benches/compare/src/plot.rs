//! Ratios by workload and system as a picture.

use crate::judge;
use crate::results::{Part, Results};
use crate::stats::Rounds;
use crate::systems::{self, Role};
use crate::workload::{Bound, Measure, TARGETS};
use plotters::prelude::*;
use std::error::Error;
use std::path::Path;

const WIDTH: u32 = 1100;
const BAR: i32 = 20;
const LEFT: i32 = 250;
const RIGHT: i32 = 240;

/// One bar.
struct Bar {
    name: String,
    role: Role,
    ratio: Option<Rounds>,
    says: String,
}

fn role(name: &str) -> Role {
    let system = name.split(", ").next().unwrap_or_default();
    systems::named(system).map_or(Role::Peer, |system| system.role)
}

fn bars(part: &Part) -> Vec<Bar> {
    let (against, _) = judge::reference(part.of.kind);
    let bar = |series: &crate::results::Series| {
        let values = series.rounds.iter().map(|turn| turn.value).collect();
        let value = Rounds::new(values).map_or(f64::NAN, |rounds| rounds.median());
        Bar {
            name: series.system.clone(),
            role: role(&series.system),
            ratio: judge::ratios(part, series, Measure::Value, against),
            says: format!("{} {}", crate::table::number(value), part.unit),
        }
    };
    part.series.iter().map(bar).filter(|bar| bar.ratio.is_some()).collect()
}

/// The least ratio that is asked against what the bars are held against.
fn asked(part: &Part) -> Option<f64> {
    let (against, _) = judge::reference(part.of.kind);
    let mut targets = TARGETS.iter().copied().flatten();
    let target = targets.find(|target| {
        target.workload == part.workload
            && target.against == against
            && target.measure == Measure::Value
    })?;
    match target.bound {
        Bound::AtLeast(bound) | Bound::AtMost(bound) => Some(bound),
    }
}

pub(crate) fn write(out: &Path, results: &Results) -> Result<(), Box<dyn Error>> {
    let panels: Vec<(&Part, Vec<Bar>)> = results
        .parts
        .iter()
        .map(|part| (part, bars(part)))
        .filter(|(_, bars)| !bars.is_empty())
        .collect();
    let height: i32 = panels.iter().map(|(_, bars)| 64 + bars.len() as i32 * BAR).sum::<i32>() + 60;
    let path = out.join("results.svg");
    let root = SVGBackend::new(&path, (WIDTH, height as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let title = ("sans-serif", 17).into_font().style(FontStyle::Bold);
    let plain = ("sans-serif", 13).into_font();
    let small = ("sans-serif", 12).into_font();
    let grey = RGBColor(110, 110, 110);
    let machine = &results.machine;
    root.draw(&Text::new(
        format!(
            "Ratio in the same round, median and quartiles of {} rounds; {}, Linux {}, {}",
            results.rounds, machine.processor, machine.kernel, machine.file_system
        ),
        (10, 12),
        small.clone().color(&grey),
    ))?;
    let mut top = 40;
    for (part, bars) in &panels {
        let (_, reference) = judge::reference(part.of.kind);
        let better = if part.of.kind.more_is_better() { "" } else { "; less is better" };
        root.draw(&Text::new(part.workload, (10, top), title.clone().color(&BLACK)))?;
        root.draw(&Text::new(
            format!("{}; 1 = {reference}{better}", part.says),
            (LEFT, top + 2),
            small.clone().color(&grey),
        ))?;
        top += 26;
        let most = bars.iter().filter_map(|bar| Some(bar.ratio.as_ref()?.quartiles().1));
        let most = most.fold(1.0_f64, f64::max);
        // A few that are very much larger must not hide the others.
        let typical = bars.iter().filter(|bar| bar.role != Role::Peer);
        let typical = typical.filter_map(|bar| Some(bar.ratio.as_ref()?.quartiles().1));
        let scale = most.min(typical.fold(1.0_f64, f64::max).max(asked(part).unwrap_or(1.0)) * 2.0);
        let width = WIDTH as i32 - LEFT - RIGHT;
        let x = |ratio: f64| LEFT + (ratio.min(scale) / scale * f64::from(width)) as i32;
        let bottom = top + bars.len() as i32 * BAR;
        for (at, bar) in bars.iter().enumerate() {
            let y = top + at as i32 * BAR;
            let ratio = bar.ratio.as_ref().ok_or("no ratio")?;
            let (low, high) = ratio.quartiles();
            let color = match bar.role {
                Role::Engine => RGBColor(24, 110, 190),
                Role::Floor => RGBColor(170, 178, 186),
                Role::Peer => RGBColor(232, 150, 70),
            };
            root.draw(&Text::new(bar.name.clone(), (14, y + 3), plain.clone().color(&BLACK)))?;
            let ends = [(LEFT, y + 3), (x(ratio.median()), y + BAR - 4)];
            root.draw(&Rectangle::new(ends, color.filled()))?;
            let middle = y + BAR / 2 - 1;
            root.draw(&PathElement::new(vec![(x(low), middle), (x(high), middle)], BLACK))?;
            for end in [low, high] {
                let end = x(end);
                root.draw(&PathElement::new(vec![(end, middle - 3), (end, middle + 3)], BLACK))?;
            }
            let beyond = if ratio.median() > scale { " (beyond)" } else { "" };
            root.draw(&Text::new(
                format!("{:.2}{beyond}", ratio.median()),
                (WIDTH as i32 - RIGHT + 14, y + 3),
                plain.clone().color(&BLACK),
            ))?;
            root.draw(&Text::new(
                bar.says.clone(),
                (WIDTH as i32 - RIGHT + 110, y + 3),
                plain.clone().color(&grey),
            ))?;
        }
        let line = |ratio: f64| PathElement::new(vec![(x(ratio), top), (x(ratio), bottom)], grey);
        root.draw(&line(1.0))?;
        if let Some(asked) = asked(part) {
            let red = RGBColor(200, 40, 40);
            let ends = vec![(x(asked), top - 3), (x(asked), bottom)];
            root.draw(&PathElement::new(ends, red))?;
            root.draw(&Text::new(
                format!("asked {asked}"),
                (x(asked) + 3, bottom),
                ("sans-serif", 11).into_font().color(&red),
            ))?;
        }
        top = bottom + 38;
    }
    root.present()?;
    Ok(())
}
