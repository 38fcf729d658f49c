//! Prometheus' own tool: it parses what a scrape reads, checks rules, and evaluates rules and queries with Prometheus' engine.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::kubectl::Outcome;
use crate::upstream::Upstream;

/// Runs promtool in `directory`, with `input` as its standard input. An error only when it could not be started.
pub fn promtool(directory: &Path, args: &[&str], input: Option<&Path>) -> Result<Outcome> {
    let mut command = Command::new(Upstream::promtool()?);
    command.args(args).current_dir(directory);
    match input {
        Some(file) => command.stdin(File::open(file).with_context(|| format!("opening {}", file.display()))?),
        None => command.stdin(Stdio::null()),
    };
    let output = command.output().context("running promtool")?;
    Ok(Outcome {
        success: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
