//! What the user of the tour sees.

use std::io::{self, Write};
use std::time::Instant;

use anyhow::{Result, bail};

use crate::control_plane::ControlPlane;
use crate::kubectl::Outcome;
use crate::wait::StopFlag;

/// Standard output, as a story: headings, sentences, commands above their output.
#[derive(Debug)]
pub(super) struct Screen {
    stop: StopFlag,
}

impl Screen {
    pub(super) fn new(stop: StopFlag) -> Self {
        Self { stop }
    }

    /// One line for a part that is done, with the time it took.
    pub(super) fn progress(&self, what: &str, began: Instant) -> Result<()> {
        self.print(&format!("  {:>5.1} s  {what}\n", began.elapsed().as_secs_f64()))
    }

    /// The heading of a stop, and a sentence on what is to be seen there.
    pub(super) fn heading(&self, title: &str, text: &str) -> Result<()> {
        self.print(&format!("\n── {title}\n   {text}\n\n"))
    }

    /// A block of text as it is.
    pub(super) fn print(&self, text: &str) -> Result<()> {
        if self.stop.is_raised() {
            bail!("interrupted");
        }
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// Runs kubectl, shows the command and its output, and returns it; an error when it fails.
    pub(super) fn kubectl(&self, plane: &ControlPlane, args: &[&str]) -> Result<Outcome> {
        let outcome = self.kubectl_any(plane, args)?;
        if !outcome.success {
            bail!("kubectl {} failed: {}", args.join(" "), outcome.stderr.trim());
        }
        Ok(outcome)
    }

    /// Runs kubectl, shows the command and its output, and returns it, success or not.
    pub(super) fn kubectl_any(&self, plane: &ControlPlane, args: &[&str]) -> Result<Outcome> {
        self.command("kubectl", args)?;
        let outcome = plane.kubectl(args)?;
        self.output(&format!("{}{}", outcome.stdout, outcome.stderr))?;
        Ok(outcome)
    }

    /// Runs kubectl and shows the command and its tab-separated output in columns; an error when it fails.
    pub(super) fn kubectl_table(&self, plane: &ControlPlane, args: &[&str]) -> Result<()> {
        self.command("kubectl", args)?;
        let output = plane.kubectl_ok(args)?;
        let rows: Vec<Vec<String>> = output.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect();
        self.output(&table(&rows))
    }

    /// Runs helm, shows the command, and returns its output; an error when it fails.
    pub(super) fn helm(&self, plane: &ControlPlane, args: &[&str]) -> Result<String> {
        self.command("helm", args)?;
        plane.helm(args)
    }

    fn command(&self, program: &str, args: &[&str]) -> Result<()> {
        self.print(&format!("$ {program} {}\n", command_line(args)))
    }

    fn output(&self, text: &str) -> Result<()> {
        match text.trim_end() {
            "" => self.print("\n"),
            text => self.print(&format!("{text}\n\n")),
        }
    }
}

/// The arguments as one would type them into a shell.
fn command_line(args: &[&str]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%".contains(c);
    let words: Vec<String> = args
        .iter()
        .map(|arg| {
            if !arg.is_empty() && arg.chars().all(plain) {
                (*arg).to_owned()
            } else {
                format!("'{}'", arg.replace('\'', r"'\''"))
            }
        })
        .collect();
    words.join(" ")
}

/// Rows of cells in columns two spaces apart, each line indented by three.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("   {}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted_into_a_shell() {
        assert_eq!(command_line(&["get", "sprof", "-o", "wide"]), "get sprof -o wide");
        assert_eq!(command_line(&["-l", "app in (a,b)", "it's"]), r"-l 'app in (a,b)' 'it'\''s'");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".into(), "bbb".into()], vec!["cccc".into(), "d".into()]];
        assert_eq!(table(&rows), "   a     bbb\n   cccc  d\n");
    }
}
