//! The guided tour of `make demo`.
//!
//! ```text
//! screen   what the user sees: headings, commands and their output
//! setup    a cluster of 50 nodes with the chart installed and the operator running
//! tour     one function per stop
//! ```

mod screen;
mod setup;
mod tour;

use std::path::PathBuf;

use anyhow::Result;

use crate::wait::StopFlag;
use screen::Screen;

/// What to show and what to leave behind.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// The `berth` binary.
    pub binary: PathBuf,
    /// Leave everything running at the end, and say how to use and how to end it.
    pub keep: bool,
    /// Raised to end the tour early.
    pub stop: StopFlag,
}

/// Runs the tour and ends all that it started, unless it is to be kept. An error says which stop went wrong.
pub fn run(options: &DemoOptions) -> Result<()> {
    let screen = Screen::new(options.stop.clone());
    let mut cluster = setup::bring_up(&screen, &options.binary, &options.stop)?;
    tour::run(&screen, &cluster.plane, &cluster.extender).map_err(|error| cluster.operator.process.explain(&error))?;
    if let Some(status) = cluster.operator.process.ended()? {
        anyhow::bail!("the operator ended during the tour ({status})");
    }
    if options.keep {
        return cluster.keep(&screen);
    }
    let began = std::time::Instant::now();
    drop(cluster);
    screen.progress("all processes ended, nothing is left", began)
}
