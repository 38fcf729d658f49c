use crate::io::IdleClaim;
use crate::ledger::NodeId;
use crate::model::{PodShape, Str};
use crate::plugins::{Cause, Code, Plugin, PluginSet, Verdict};
use std::borrow::Cow;
use std::cmp::Ordering;
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
    pub diagnosis: Diagnosis,
    /// Which plugins refused: their hints decide what wakes the pod.
    pub rejectors: PluginSet,
    /// The nodes that passed Berth's filters and were refused by extenders. Preemption reads the code.
    pub refused: BTreeMap<NodeId, Code>,
    /// An allocated claim of the pod that stands in its way and that nobody else uses.
    pub idle_claim: Option<IdleClaim>,
}

/// One reason of a refusal, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A cause whose text is fixed.
    Cause(Cause),
    /// A resource that is lacking, as a bit of a verdict.
    Lacking(u32),
    /// A refusal of VolumeBinding, as a bit of a verdict.
    Volumes(u32),
    /// The message of NodeVolumeLimits about a claim that does not exist.
    MissingClaim(Str),
    /// An extender's message.
    Extender(Str),
}

/// The text of a reason, which costs nothing to keep where it is one of upstream's fixed ones. Compared as texts are.
#[derive(Debug, Clone)]
pub enum ReasonText {
    Fixed(&'static str),
    Own(Str),
}

impl ReasonText {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Fixed(text) => text,
            Self::Own(text) => text,
        }
    }
}

impl PartialEq for ReasonText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for ReasonText {}

impl PartialOrd for ReasonText {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ReasonText {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Reason {
    pub const fn plugin(&self) -> Option<Plugin> {
        match self {
            Self::Cause(cause) => cause.plugin(),
            Self::Lacking(_) => Some(Plugin::NodeResourcesFit),
            Self::Volumes(_) => Some(Plugin::VolumeBinding),
            Self::MissingClaim(_) => Some(Plugin::NodeVolumeLimits),
            Self::Extender(_) => Some(Plugin::Extender),
        }
    }

    /// Upstream's text for a pod of `shape`.
    pub fn text(&self, shape: &PodShape) -> ReasonText {
        match self {
            Self::Cause(cause) => ReasonText::Fixed(cause.text()),
            Self::Volumes(bit) => ReasonText::Fixed(crate::plugins::volume_text(*bit)),
            Self::Lacking(bit) => match crate::plugins::lacking_text(*bit, shape) {
                Cow::Borrowed(text) => ReasonText::Fixed(text),
                Cow::Owned(text) => ReasonText::Own(text.into()),
            },
            Self::MissingClaim(text) | Self::Extender(text) => ReasonText::Own(text.clone()),
        }
    }
}

impl Diagnosis {
    #[cfg(test)]
    pub(crate) fn of_no_node(shape: Arc<PodShape>) -> Self {
        Self { shape, nodes: 0, pre_filter: None, counts: Vec::new() }
    }

    /// The diagnosis of a pod that PreFilter refused on all `nodes`.
    pub(crate) fn before_filter(shape: &Arc<PodShape>, nodes: u32, message: &str) -> Self {
        Self { shape: shape.clone(), nodes, pre_filter: Some(message.into()), counts: Vec::new() }
    }

    /// Nodes that were candidates.
    pub const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The reasons with the number of nodes each holds for; their texts with [`Reason::text`] and [`Self::shape`].
    pub fn counts(&self) -> &[(Reason, u32)] {
        &self.counts
    }

    /// Whether `other` gives the same reasons for as many nodes.
    pub fn says_the_same(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || self.nodes == other.nodes && self.pre_filter == other.pre_filter && self.counts == other.counts
    }

    /// Adds the messages of extenders, each with its number of nodes.
    pub(super) fn with_extenders(mut self, messages: impl IntoIterator<Item = (Str, u32)>) -> Self {
        self.counts.extend(messages.into_iter().map(|(text, nodes)| (Reason::Extender(text), nodes)));
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
        if self.counts.is_empty() {
            return Ok(());
        }
        let counts = self.counts.iter().map(|(reason, count)| (reason.text(&self.shape).as_str().to_owned(), *count));
        write!(f, " {}.", counted_texts(counts))
    }
}

/// Upstream's list of reasons: `1 …, 2 …`, sorted as strings. Reasons that read alike, as messages of extenders may, are one.
pub(crate) fn counted_texts(counts: impl Iterator<Item = (String, u32)>) -> String {
    let mut by_text: BTreeMap<String, u32> = BTreeMap::new();
    for (text, count) in counts {
        *by_text.entry(text).or_insert(0) += count;
    }
    let mut entries: Vec<String> = by_text.iter().map(|(text, count)| format!("{count} {text}")).collect();
    entries.sort_unstable();
    entries.join(", ")
}

/// Counts refusals during a search.
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

    /// How many nodes were counted with [`Self::add`].
    pub(crate) const fn refused(&self) -> u32 {
        self.refused
    }

    /// How many nodes were refused for the cause.
    pub(super) const fn of(&self, cause: Cause) -> u32 {
        self.causes[cause as usize]
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

    fn rejectors(&self) -> PluginSet {
        let mut plugins = PluginSet::NONE;
        let counted = Cause::ALL.iter().filter(|c| self.causes[**c as usize] > 0);
        counted.filter_map(|c| c.plugin()).for_each(|p| plugins.insert(p));
        plugins
    }

    /// The end of an attempt in which none of `nodes` candidates fits, as counted so far.
    pub(super) fn no_fit(&self, shape: &Arc<PodShape>, nodes: u32, missing: Option<Str>) -> NoFit {
        let diagnosis = self.diagnose(shape, nodes, missing);
        NoFit { diagnosis, rejectors: self.rejectors(), refused: BTreeMap::new(), idle_claim: None }
    }

    /// The counts so far. `missing` is the message about a claim that does not exist.
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

/// Upstream's texts of a refusal; `missing` is the message about a claim that does not exist.
pub(super) fn reasons(verdict: Verdict, shape: &PodShape, missing: Option<&Str>) -> Vec<String> {
    match missing {
        Some(text) if verdict.cause() == Cause::MissingClaim => vec![text.to_string()],
        _ => verdict.reasons(shape),
    }
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
        let text = Diagnosis::before_filter(&Arc::new(shape()), 3, "pod affinity terms conflict").to_string();
        assert_eq!(text, "0/3 nodes are available: pod affinity terms conflict.");
    }
}
