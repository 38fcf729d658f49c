//! Lines on stderr that say how far the benchmark is.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::Result;

/// Writes one line, with the seconds since the first one before it.
pub(super) fn progress(text: &str) -> Result<()> {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let seconds = BEGAN.get_or_init(Instant::now).elapsed().as_secs();
    Ok(writeln!(io::stderr(), "[{seconds:>5} s] {text}")?)
}
