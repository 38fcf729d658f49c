use crate::ledger::NodeId;
use crate::model::{PodShape, Str};
use crate::plugins::{Cause, Code, Plugin, PluginSet, Verdict};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Why no node fits, counted; the text is made when someone reads it.
///
/// `Display` gives upstream's FitError without its preemption part: `0/3 nodes are available: 1 …, 2 ….`
/// (`FitError.Error` in `pkg/scheduler/framework/types.go`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    shape: Arc<PodShape>,
    nodes: u32,
    pre_filter: Option<Str>,
    counts: Vec<(Reason, u32)>,
}

/// Why an attempt ended without a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoFit {
    /// What to say.
    pub diagnosis: Diagnosis,
    /// Which plugins refused: their hints decide what wakes the pod.
    pub rejectors: PluginSet,
    /// The nodes that extenders refused after own filters had not, each with the code: preemption goes by it.
    pub refused: BTreeMap<NodeId, Code>,
}

/// One reason of a refusal, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A cause whose text is fixed.
    Cause(Cause),
    /// A resource lacking, as a bit of a verdict.
    Lacking(u32),
    /// What VolumeBinding found, as a bit of a verdict.
    Volumes(u32),
    /// What NodeVolumeLimits says of a claim that is not there.
    MissingClaim(Str),
    /// What an extender says.
    Extender(Str),
}

impl Reason {
    /// The plugin behind it.
    pub const fn plugin(&self) -> Option<Plugin> {
        match self {
            Self::Cause(cause) => cause.plugin(),
            Self::Lacking(_) => Some(Plugin::NodeResourcesFit),
            Self::Volumes(_) => Some(Plugin::VolumeBinding),
            Self::MissingClaim(_) => Some(Plugin::NodeVolumeLimits),
            Self::Extender(_) => Some(Plugin::Extender),
        }
    }

    /// The text for a pod of `shape`.
    pub fn text(&self, shape: &PodShape) -> String {
        match self {
            Self::Cause(cause) => cause.text().to_owned(),
            Self::Lacking(bit) => crate::plugins::lacking_text(*bit, shape),
            Self::Volumes(bit) => crate::plugins::volume_text(*bit).to_owned(),
            Self::MissingClaim(text) | Self::Extender(text) => text.to_string(),
        }
    }
}

impl Diagnosis {
    /// A diagnosis that counts nothing.
    #[cfg(test)]
    pub(crate) fn of_no_node(shape: Arc<PodShape>) -> Self {
        Self { shape, nodes: 0, pre_filter: None, counts: Vec::new() }
    }

    /// Nodes that were candidates.
    pub const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The reasons with the number of nodes each holds for; their texts with [`Reason::text`] and [`Self::shape`].
    pub fn counts(&self) -> &[(Reason, u32)] {
        &self.counts
    }

    /// The same with what extenders said, each text with its number of nodes.
    pub(super) fn with_extenders(mut self, said: impl IntoIterator<Item = (Str, u32)>) -> Self {
        self.counts.extend(said.into_iter().map(|(text, nodes)| (Reason::Extender(text), nodes)));
        self
    }

    /// The shape of the pod that was refused.
    pub fn shape(&self) -> &PodShape {
        &self.shape
    }

    /// PreFilter's message, if it refused the pod before any node was looked at.
    pub const fn pre_filter(&self) -> Option<&Str> {
        self.pre_filter.as_ref()
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0/{} nodes are available:", self.nodes)?;
        if let Some(message) = &self.pre_filter {
            return write!(f, " {message}.");
        }
        // Two reasons may read alike: an extender speaks as it likes.
        let mut by_text: BTreeMap<String, u32> = BTreeMap::new();
        for (reason, count) in &self.counts {
            *by_text.entry(reason.text(&self.shape)).or_insert(0) += count;
        }
        let mut entries: Vec<String> = by_text.iter().map(|(text, count)| format!("{count} {text}")).collect();
        entries.sort_unstable();
        if entries.is_empty() { Ok(()) } else { write!(f, " {}.", entries.join(", ")) }
    }
}

/// Counts refusals while a search goes on.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    causes: [u32; Cause::ALL.len() + 1],
    lacking: [u32; u64::BITS as usize],
    volumes: [u32; VOLUME_REASONS],
    refused: u32,
}

const VOLUME_REASONS: usize = crate::plugins::VOLUME_TEXTS.len();

impl Tally {
    pub(crate) const fn new() -> Self {
        Self {
            causes: [0; Cause::ALL.len() + 1],
            lacking: [0; u64::BITS as usize],
            volumes: [0; VOLUME_REASONS],
            refused: 0,
        }
    }

    /// Nodes counted.
    pub(crate) const fn refused(&self) -> u32 {
        self.refused
    }

    pub(crate) const fn add(&mut self, verdict: Verdict) {
        self.refused += 1;
        self.causes[verdict.cause() as usize] += 1;
        let mut bits = verdict.bits();
        let counts: &mut [u32] =
            if matches!(verdict.cause(), Cause::Volumes) { &mut self.volumes } else { &mut self.lacking };
        while bits != 0 {
            counts[bits.trailing_zeros() as usize] += 1;
            bits &= bits - 1;
        }
    }

    /// Counts `nodes` nodes refused for one cause at once.
    pub(super) const fn add_many(&mut self, cause: Cause, nodes: u32) {
        self.causes[cause as usize] += nodes;
    }

    pub(super) fn rejectors(&self) -> PluginSet {
        let mut plugins = PluginSet::NONE;
        let counted = Cause::ALL.iter().filter(|c| self.causes[**c as usize] > 0);
        counted.filter_map(|c| c.plugin()).for_each(|p| plugins.insert(p));
        plugins
    }

    /// The counts so far. `missing` is what the attempt says of a claim that is not there.
    pub(crate) fn diagnose(&self, shape: &Arc<PodShape>, nodes: u32, missing: Option<Str>) -> Diagnosis {
        let fixed = Cause::ALL.iter().filter(|c| !matches!(c, Cause::Resources | Cause::Volumes));
        let reason = |cause: Cause| match (&missing, cause) {
            (Some(text), Cause::MissingClaim) => Reason::MissingClaim(text.clone()),
            _ => Reason::Cause(cause),
        };
        let causes = fixed.map(|c| (reason(*c), self.causes[*c as usize]));
        let lacking = (0..u64::BITS).map(|bit| (Reason::Lacking(bit), self.lacking[bit as usize]));
        let volumes = (0..VOLUME_REASONS as u32).map(|bit| (Reason::Volumes(bit), self.volumes[bit as usize]));
        let counts = causes.chain(lacking).chain(volumes).filter(|(_, count)| *count > 0).collect();
        Diagnosis { shape: shape.clone(), nodes, pre_filter: None, counts }
    }
}

/// The diagnosis of a pod that PreFilter refused on all `nodes`.
pub(super) fn refused_before_filter(shape: &Arc<PodShape>, nodes: u32, message: &str) -> Diagnosis {
    Diagnosis { shape: shape.clone(), nodes, pre_filter: Some(message.into()), counts: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shape;

    #[test]
    fn the_histogram_sorts_as_strings() {
        let mut tally = Tally::new();
        for _ in 0..10 {
            tally.add(Verdict::lacking(1 << Verdict::CPU, false));
        }
        for _ in 0..2 {
            tally.add(Verdict::lacking(1 << Verdict::PODS, false));
        }
        let text = tally.diagnose(&Arc::new(shape()), 12, None).to_string();
        assert_eq!(text, "0/12 nodes are available: 10 Insufficient cpu, 2 Too many pods.");
    }

    #[test]
    fn a_pre_filter_message_replaces_the_histogram() {
        let text = refused_before_filter(&Arc::new(shape()), 3, "pod affinity terms conflict").to_string();
        assert_eq!(text, "0/3 nodes are available: pod affinity terms conflict.");
    }
}
