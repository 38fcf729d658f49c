//! How answers leave the process: one buffered, locked standard output, aligned tables, amounts as people write them.
//!
//! Names come from manifests that others wrote. What goes to a terminal passes [`plain`], so that no name moves the cursor,
//! writes the clipboard or looks like a line of ours.

use berth_cluster::send::is_obeyed;
pub(crate) use berth_explain::{counted, some_of};
use clap::ValueEnum;
use std::borrow::Cow;
use std::fmt;
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

/// `text` as one line that a terminal only shows: special characters are written as escapes, such as `\n` and `\u{1b}`.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_obeyed(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown.into()
}

/// A writer for people. Each `write!` or `writeln!` makes at most one line: line breaks before its end are the names', and are
/// escaped. Bytes that are written otherwise pass unchanged.
struct Lines<W>(W);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        let text = text.to_string();
        let (line, end) = text.strip_suffix('\n').map_or((&*text, ""), |line| (line, "\n"));
        self.0.write_all(plain(line).as_bytes())?;
        self.0.write_all(end.as_bytes())
    }
}

/// Writes an answer to standard output, as [`Lines`] does. A reader that went away (`| head`) is not an error.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = Lines(io::BufWriter::new(io::stdout().lock()));
    match write(&mut out).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// The lines of an answer, made harmless as [`print`] makes them.
pub(crate) fn lines(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Vec<String>> {
    let mut out = Lines(Vec::new());
    write(&mut out)?;
    Ok(String::from_utf8_lossy(&out.0).lines().map(str::to_owned).collect())
}

/// Writes an answer in the form that was asked for: `value`, or what `text` writes.
pub(crate) fn answer(
    form: Format,
    value: &impl serde::Serialize,
    text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    match form {
        Format::Json => print_json(value),
        Format::Text => print(text),
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
    let _ = writeln!(Lines(io::stderr().lock()), "{text}");
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
    pub(crate) fn new(indent: usize, columns: impl IntoIterator<Item = (impl Into<String>, Align)>) -> Self {
        let columns = columns.into_iter().map(|(name, align)| (name.into(), align)).collect();
        Self { columns, rows: Vec::new(), indent }
    }

    /// An empty table of text.
    pub(crate) fn of_text<const N: usize>(indent: usize, headings: [&str; N]) -> Self {
        Self::new(indent, headings.map(|name| (name, Align::Left)))
    }

    /// Adds a row; cells beyond the headings are left out.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        // Here and not when they are written: the widths count what is shown.
        self.rows.push(cells.into_iter().map(|cell| plain(&cell).into_owned()).collect());
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

/// The largest unit alone, as kubectl prints ages: `50s`, `7m`, `3h`, `12d`.
pub(crate) fn age(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Thousandths of a core as `500m` or `2`.
pub(crate) fn cpu(milli: i64) -> String {
    if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") }
}

/// Bytes in the largest binary unit that leaves at least 1, one decimal at most, as `1.5Gi`.
pub(crate) fn bytes(amount: i64) -> String {
    const UNITS: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let exponent = (0..6).rev().find(|e| amount >> (10 * (e + 1)) > 0);
    let Some(exponent) = exponent else { return amount.to_string() };
    let unit = 1_i64 << (10 * (exponent + 1));
    // Rounded down: what is free is never made larger than it is.
    match (amount / unit, i128::from(amount % unit) * 10 / i128::from(unit)) {
        (whole, 0) => format!("{whole}{}", UNITS[exponent]),
        (whole, tenth) => format!("{whole}.{tenth}{}", UNITS[exponent]),
    }
}

/// An amount of the resource `name` with its unit.
pub(crate) fn amount(name: &str, amount: i64) -> String {
    match name {
        "cpu" => cpu(amount),
        "memory" | "ephemeral-storage" => bytes(amount),
        name if name.starts_with("hugepages-") => bytes(amount),
        _ => amount.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_carry_no_trailing_space() {
        let mut table = Table::new(2, [("NODE", Align::Left), ("N", Align::Right), ("", Align::Left)]);
        table.row(["a".into(), "10".into(), "x".into()]);
        table.row(["long-name".into(), "7".into(), String::new()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "  NODE        N\n  a          10  x\n  long-name   7\n");
    }

    #[test]
    fn a_name_is_shown_and_never_obeyed() {
        let clipboard = "a\u{1b}]52;c;eA==\u{7}b\r\nc\u{9b}2J\u{2028}\u{202e}\u{feff}é→";
        let shown = r"a\u{1b}]52;c;eA==\u{7}b\r\nc\u{9b}2J\u{2028}\u{202e}\u{feff}é→";
        assert_eq!(plain(clipboard), shown);
        let mut out = Lines(Vec::new());
        writeln!(out, "pod {clipboard}").unwrap();
        let through: &mut dyn Write = &mut out;
        let broken = "x\n";
        writeln!(through, "again {broken}").unwrap();
        let mut table = Table::of_text(0, ["POD", "NODE"]);
        table.row([clipboard.to_owned(), "n".to_owned()]);
        table.write(through).unwrap();
        let width = shown.chars().count();
        let want = format!("pod {shown}\nagain x\\n\n{:width$}  NODE\n{shown}  n\n", "POD");
        assert_eq!(String::from_utf8(out.0).unwrap(), want);
    }

    #[test]
    fn ages_have_one_unit() {
        for (seconds, text) in [(61, "61s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172_800, "2d")] {
            assert_eq!(age(seconds), text);
        }
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!((cpu(500).as_str(), cpu(2000).as_str(), cpu(0).as_str()), ("500m", "2", "0"));
        let table = [(0, "0"), (512, "512"), (1024, "1Ki"), (1536, "1.5Ki"), (8 << 30, "8Gi"), (i64::MAX, "7.9Ei")];
        for (amount, want) in table {
            assert_eq!(bytes(amount), want);
        }
    }
}
