//! A plain table: columns as wide as their widest cell.

use crate::output::{BOLD, styled};
use anstyle::Style;

/// One cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// Plain text.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), style: Style::new() }
    }

    /// Text in a style.
    pub(crate) fn styled(style: Style, text: impl Into<String>) -> Self {
        Self { text: text.into(), style }
    }
}

/// Which side a column leans to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lean {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// The table as lines, the titles first. Nothing is padded behind the last column.
pub(crate) fn lines(columns: &[(&str, Lean)], rows: &[Vec<Cell>]) -> Vec<String> {
    let width = |index: usize| {
        let cells =
            rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.text.chars().count());
        cells.chain([columns[index].0.len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let titles = columns.iter().map(|(title, _)| Cell::styled(BOLD, *title)).collect();
    std::iter::once(&titles)
        .chain(rows)
        .map(|row: &Vec<Cell>| line(columns, &widths, row))
        .collect()
}

fn line(columns: &[(&str, Lean)], widths: &[usize], row: &[Cell]) -> String {
    let mut out = String::new();
    for (index, cell) in row.iter().enumerate() {
        let padding = " ".repeat(widths[index].saturating_sub(cell.text.chars().count()));
        let text = if cell.style == Style::new() {
            cell.text.clone()
        } else {
            styled(cell.style, &cell.text)
        };
        if index > 0 {
            out.push_str("  ");
        }
        match columns[index].1 {
            Lean::Right => out.extend([padding, text]),
            Lean::Left if index + 1 == row.len() => out.push_str(&text),
            Lean::Left => out.extend([text, padding]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![
            vec![Cell::new("orders"), Cell::new("7"), Cell::new("ok")],
            vec![Cell::new("a"), Cell::new("12345"), Cell::new("damaged")],
        ];
        let columns = [("name", Lean::Left), ("head", Lean::Right), ("state", Lean::Left)];
        let plain = |line: &String| anstream::adapter::strip_str(line).to_string();
        let lines: Vec<String> = lines(&columns, &rows).iter().map(plain).collect();
        assert_eq!(lines, ["name     head  state", "orders      7  ok", "a       12345  damaged"]);
    }
}
