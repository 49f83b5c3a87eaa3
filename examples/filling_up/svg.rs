//! Draws the run: free space with its lines above, what publishes met below.

use crate::run::{Row, Told};
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 470.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 776.0;
/// Top and bottom of the two panels.
const FREE: (f64, f64) = (46.0, 270.0);
const MET: (f64, f64) = (310.0, 420.0);
const DELAY_MAX: f64 = 50.0;

/// Both colour schemes have a background of their own, so that it reads on any page.
const STYLE: &str = "\
.page{fill:#fff}.ink{fill:#1f2328}.dim{fill:#59636e}.axis{stroke:#59636e;stroke-width:1}\
.grid{stroke:#d1d9e0;stroke-width:1}.free{fill:none;stroke:#0969da;stroke-width:2}.under{fill:#0969da;opacity:.12}\
.soft{stroke:#9a6700}.hard{stroke:#cf222e}.reserve{stroke:#8250df}.line{stroke-width:1.5;stroke-dasharray:6 4}\
.tsoft{fill:#9a6700}.thard{fill:#cf222e}.treserve{fill:#8250df}.delay{fill:#bf8700}.refused{fill:#cf222e}\
.mark{stroke:#59636e;stroke-width:1;stroke-dasharray:2 3}\
@media (prefers-color-scheme:dark){.page{fill:#0d1117}.ink{fill:#f0f6fc}.dim{fill:#9198a1}.axis,.mark{stroke:#9198a1}\
.grid{stroke:#3d444d}.free{stroke:#4493f8}.under{fill:#4493f8}.soft{stroke:#d29922}.hard{stroke:#f85149}\
.reserve{stroke:#ab7df8}.tsoft{fill:#d29922}.thard{fill:#f85149}.treserve{fill:#ab7df8}.delay{fill:#d29922}\
.refused{fill:#f85149}}";

/// A drawing under way; writing to a string cannot fail.
struct Drawing {
    text: String,
    seconds: f64,
    /// Bytes at the bottom and the top of the upper panel.
    bytes: (f64, f64),
}

#[allow(clippy::cast_precision_loss, reason = "drawn to a tenth of a pixel")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

impl Drawing {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + seconds / self.seconds * (RIGHT - LEFT)
    }

    fn y(&self, bytes: u64) -> f64 {
        let (low, high) = self.bytes;
        FREE.1 - (float(bytes) - low) / (high - low) * (FREE.1 - FREE.0)
    }

    fn add(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "{line}");
    }

    fn text(&mut self, x: f64, y: f64, class: &str, anchor: &str, text: &str) {
        self.add(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" class="{class}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#
        ));
    }

    fn bar(&mut self, x: f64, (top, bottom): (f64, f64), width: f64, class: &str) {
        let height = bottom - top;
        self.add(format_args!(
            r#"<rect x="{x:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" class="{class}"/>"#
        ));
    }
}

pub(crate) fn draw(told: &Told) -> String {
    let seconds = told.rows.last().map_or(1.0, |row| row.seconds + 0.1);
    let most = told.rows.iter().map(|row| row.free).max().unwrap_or(told.total);
    let least = told.rows.iter().map(|row| row.free).min().unwrap_or(0).min(told.lines.hard);
    // On a large disk with a small window reserve is far off: then it is not drawn.
    let low =
        if told.lines.reserve * 20 > most { 0.0 } else { float(least) - float(most - least) / 8.0 };
    let mut drawing = Drawing { text: String::new(), seconds, bytes: (low, float(most) * 1.0) };
    if low == 0.0 {
        drawing.bytes.1 = float(most).max(float(told.total) * 0.95);
    }
    drawing.add(format_args!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13" role="img" aria-label="Free space falls, publishes are slowed and then refused, and go on after truncation">"#
    ));
    drawing.add(format_args!("<style>{STYLE}</style>"));
    drawing.add(format_args!(r#"<rect width="{WIDTH}" height="{HEIGHT}" rx="8" class="page"/>"#));
    axes(&mut drawing);
    free(&mut drawing, told);
    met(&mut drawing, told);
    drawing.text += "</svg>\n";
    drawing.text
}

fn axes(drawing: &mut Drawing) {
    drawing.text(
        LEFT,
        24.0,
        "ink",
        "start",
        "A log that nobody reads fills a disk: free space, MiB",
    );
    drawing.text(
        LEFT,
        300.0,
        "ink",
        "start",
        "What its publisher meets: delay of a publish, ms; refusals",
    );
    let mib = f64::from(1 << 20);
    let (low, high) = drawing.bytes;
    let step = ((high - low) / mib / 4.0 / 4.0).ceil().max(1.0) * 4.0;
    let mut at = (low / mib / step).ceil() * step;
    while at * mib <= high {
        let y = FREE.1 - (at * mib - low) / (high - low) * (FREE.1 - FREE.0);
        drawing.line((LEFT, y), (RIGHT, y), "grid");
        drawing.text(LEFT - 8.0, y + 4.0, "dim", "end", &format!("{at:.0}"));
        at += step;
    }
    for ms in [0.0, 25.0, 50.0] {
        let y = MET.1 - ms / DELAY_MAX * (MET.1 - MET.0);
        drawing.line((LEFT, y), (RIGHT, y), "grid");
        drawing.text(LEFT - 8.0, y + 4.0, "dim", "end", &format!("{ms:.0}"));
    }
    drawing.line((LEFT, MET.1), (RIGHT, MET.1), "axis");
    let step = if drawing.seconds > 30.0 { 5.0 } else { 2.0 };
    let mut at = 0.0;
    while at <= drawing.seconds {
        let x = drawing.x(at);
        drawing.line((x, MET.1), (x, MET.1 + 4.0), "axis");
        drawing.text(x, MET.1 + 18.0, "dim", "middle", &format!("{at:.0} s"));
        at += step;
    }
}

fn free(drawing: &mut Drawing, told: &Told) {
    let mut points = String::new();
    for row in &told.rows {
        let _ = write!(points, "{:.1},{:.1} ", drawing.x(row.seconds), drawing.y(row.free));
    }
    let (end, bottom) = (drawing.x(told.rows.last().map_or(0.0, |row| row.seconds)), FREE.1);
    drawing.add(format_args!(
        r#"<polygon points="{LEFT},{bottom} {points}{end:.1},{bottom}" class="under"/>"#
    ));
    drawing.add(format_args!(r#"<polyline points="{}" class="free"/>"#, points.trim_end()));
    let lines = told.lines;
    for (name, bytes) in [("soft", lines.soft), ("hard", lines.hard), ("reserve", lines.reserve)] {
        if float(bytes) < drawing.bytes.0 {
            continue;
        }
        let y = drawing.y(bytes);
        drawing.line((LEFT, y), (RIGHT, y), &format!("line {name}"));
        drawing.text(RIGHT + 6.0, y + 4.0, &format!("t{name}"), "start", name);
    }
    let begun = |is: fn(&Row) -> bool| told.rows.iter().find(|row| is(row)).map(|row| row.seconds);
    let marks = [
        ("slowed", begun(|row| !row.delay.is_zero())),
        ("refused", begun(|row| row.refused > 0)),
        ("truncated", Some(told.truncated)),
    ];
    for (what, at) in marks {
        let Some(at) = at else { continue };
        let x = drawing.x(at);
        drawing.line((x, FREE.0 - 8.0), (x, MET.1), "mark");
        drawing.text(x + 4.0, FREE.0 + 2.0, "dim", "start", what);
    }
}

fn met(drawing: &mut Drawing, told: &Told) {
    let width = (drawing.x(0.1) - LEFT).max(1.0);
    for row in &told.rows {
        let x = drawing.x(row.seconds);
        if row.published > 0 && !row.delay.is_zero() {
            let height = row.delay_ms().min(DELAY_MAX) / DELAY_MAX * (MET.1 - MET.0);
            drawing.bar(x, (MET.1 - height, MET.1), width, "delay");
        }
        if row.refused > 0 {
            drawing.bar(x, (MET.0, MET.0 + 12.0), width, "refused");
        }
    }
    let y = HEIGHT - 12.0;
    drawing.bar(LEFT, (y - 10.0, y), 12.0, "delay");
    drawing.text(LEFT + 18.0, y, "dim", "start", "mean delay in a tenth of a second");
    drawing.bar(LEFT + 250.0, (y - 10.0, y), 12.0, "refused");
    drawing.text(
        LEFT + 268.0,
        y,
        "dim",
        "start",
        "refused with reason and hint; acknowledgements go on all the time",
    );
}
