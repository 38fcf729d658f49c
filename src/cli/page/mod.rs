//! The page that `--html FILE` writes: a map of the nodes before and after, pods by profile, why each went where it did or fits
//! nowhere, and the queue of a simulation step by step.
//!
//! ```text
//!  data       what the page shows, as columns of numbers and one table of texts
//!  answers    pods judged for it, those alike once
//!  simulated  a run, or two runs compared
//!  diffed     what changed profiles would do to what is placed and to what waits
//!  explained  pending pods as they are now
//!  shadowed   what a profile in mode DryRun would have done with pods that others bound
//!  document   the file: shell, style, script, and the policy that allows nothing else
//!  assets/    what the browser runs; one file for each part
//! ```
//!
//! The file loads nothing and sends nothing. All that others named goes through the table of texts, and the script makes text
//! nodes of it alone. Another command gets its page by filling a [`data::Data`]: two states are a before and an after.

mod answers;
mod data;
mod diffed;
mod document;
mod explained;
mod shadowed;
mod simulated;

#[cfg(test)]
mod tests;

pub(super) use data::Data;
pub(super) use diffed::{Sides, diffed};
pub(super) use explained::explained;
pub(super) use shadowed::{Shadowed, Would, shadowed};
pub(super) use simulated::{compared, simulated};

use anyhow::{Context, ensure};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Pods of one page: three times the largest cluster that upstream supports. A browser still opens it in seconds.
const MOST_PODS: usize = 450_000;

/// Writes the page to the file `path`, in place of what is there.
pub(super) fn write(path: &Path, data: &Data) -> anyhow::Result<()> {
    let pods = data.pod_count();
    ensure!(pods <= MOST_PODS, "--html: {pods} pods; a page shows {MOST_PODS} at most: leave out namespaces");
    let file = || format!("--html {}", path.display());
    let mut out = BufWriter::new(File::create(path).with_context(file)?);
    document::write(&mut out, data).and_then(|()| out.flush()).with_context(file)
}
