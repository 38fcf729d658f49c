//! Which Kubernetes these tests ran on: docs/support.md counts as run only what they passed on.

use std::fs;
use std::path::Path;

use crate::cluster::shared;

/// Whether the control plane is of the minor whose filters, scores and series Berth has. What holds for that one alone is not asked of others.
pub(crate) fn is_ours() -> bool {
    asked_for().is_empty()
}

/// The minor that was asked for by name; empty if none was.
fn asked_for() -> String {
    std::env::var("BERTH_KUBERNETES").unwrap_or_default()
}

/// Reads the pins as `hack/upstream.sh` does; `make e2e-minor` sets the variable.
#[test]
fn the_control_plane_is_of_the_minor_that_was_asked_for() {
    let minor = asked_for();
    let dash = if minor.is_empty() { "" } else { "-" };
    let pins = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/upstream/kubernetes{dash}{minor}/go.mod"));
    let pins = fs::read_to_string(pins).unwrap();
    let pinned = pins.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes ")).unwrap();
    let pinned = pinned.split(' ').next().unwrap();
    assert!(pinned.starts_with(&format!("v{minor}")), "{pinned} is not of {minor}");
    let served = shared().plane.api.get("/version").unwrap();
    assert_eq!(served["gitVersion"], pinned);
}
