//! How answers leave the process: one buffered, locked standard output, and aligned tables.

use clap::ValueEnum;
use std::io::{self, Write};

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// For machines: stable keys, the same bytes for the same inputs.
    Json,
}

/// Writes an answer to standard output. A reader that went away (`| head`) is not an error.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes `value` to standard output as indented JSON with a final line break.
pub(crate) fn print_json(value: &impl serde::Serialize) -> io::Result<()> {
    print(|out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        writeln!(out)
    })
}

/// Writes one line to standard error; where that is closed, the line is lost.
pub(crate) fn note(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Writes what a user should know besides the answer, a line each.
pub(crate) fn notes<'n>(notes: impl IntoIterator<Item = &'n String>) {
    for text in notes {
        note(format_args!("note: {text}"));
    }
}

/// On which side a column's cells are filled up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table of aligned columns, two spaces apart; widths count characters.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    indent: usize,
}

impl Table {
    /// An empty table with these headings, `indent` spaces from the margin.
    pub(crate) fn new(indent: usize, columns: impl IntoIterator<Item = (String, Align)>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new(), indent }
    }

    /// Adds a row; cells beyond the headings are left out.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes headings and rows; headings that are all empty are left out.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let headings: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let mut widths = vec![0; self.columns.len()];
        for row in std::iter::once(&headings).chain(&self.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let headed = headings.iter().any(|h| !h.is_empty());
        for row in headed.then_some(&headings).into_iter().chain(&self.rows) {
            let mut line = " ".repeat(self.indent);
            for (i, ((_, align), cell)) in self.columns.iter().zip(row).enumerate() {
                let gap = if i == 0 { "" } else { "  " };
                let fill = " ".repeat(widths[i].saturating_sub(cell.chars().count()));
                match align {
                    Align::Left => line.extend([gap, cell, &fill]),
                    Align::Right => line.extend([gap, &fill, cell]),
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// `1 pod`, `2 pods`: a count with its noun.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The first `max` of `names`, and how many more there are.
pub(crate) fn some_of(names: &[String], max: usize) -> String {
    let shown = names[..names.len().min(max)].join(", ");
    if names.len() > max { format!("{shown} and {} more", names.len() - max) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_carry_no_trailing_space() {
        let mut table =
            Table::new(2, [("NODE".into(), Align::Left), ("N".into(), Align::Right), (String::new(), Align::Left)]);
        table.row(["a".into(), "10".into(), "x".into()]);
        table.row(["long-name".into(), "7".into(), String::new()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "  NODE        N\n  a          10  x\n  long-name   7\n");
    }
}
