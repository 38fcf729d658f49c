//! One attempt to place a pod.

use std::fmt;

/// Why no node fits: counts of reasons over nodes; text is made by `Display`, upstream's FitError without preemption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0/0 nodes are available")
    }
}
