//! The page of a report: what was compared, on the nodes of the cluster as it is by now.

use super::report::Report;
use crate::cli::inputs::Inputs;
use crate::cli::live::{self, ClusterArgs, SourceArgs};
use crate::cli::{output, page};
use anyhow::anyhow;
use std::path::{Path, PathBuf};

/// Reads the cluster, and writes the page of `report` to `file`.
pub(super) fn write(file: &Path, report: &Report, cluster: &ClusterArgs, manifests: &[PathBuf]) -> anyhow::Result<()> {
    let source = SourceArgs::of(cluster, manifests.to_vec(), Vec::new()).with_whole_pods();
    let Inputs { cluster, profiles, stand_in, notes, .. } = live::load(&source)?.inputs;
    let own = profiles.iter().find(|profile| !stand_in && *profile.name == *report.profile);
    let own = own.ok_or_else(|| {
        anyhow!("--html: no SchedulerProfile {} where nodes and pods are read: give that cluster", report.profile)
    })?;
    output::notes(&notes);
    page::write(file, &page::shadowed(&cluster, own, &report.shadowed(), &notes))
}
