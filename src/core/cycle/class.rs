use crate::core::ledger::{Ledger, NodeId, NodeTable};
use crate::core::limits::CLASS_CACHE_BYTES;
use crate::core::model::PodShape;
use crate::core::plugins::{
    Overlay, Subject, Verdict, balanced_allocation, filter, image_locality, node_affinity, node_resources_fit,
    taint_toleration,
};
use crate::core::profile::{CompiledProfile, Score};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What a row scores before normalisation and choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RawScore {
    /// The weighted sum of the scores that are not normalised.
    pub(super) fixed: i64,
    /// Untolerated PreferNoSchedule taints.
    pub(super) soft_taints: i64,
    /// Weight of matching preferred terms.
    pub(super) preferred: i64,
}

/// The answers for one pod shape, row by row, each good as long as the row's version is the one it was made at.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) subject: Subject,
    columns: Columns,
    last_used: u64,
}

#[derive(Debug, Default)]
struct Columns {
    made_at: Vec<u64>,
    verdicts: Vec<Verdict>,
    scores: Vec<RawScore>,
}

impl Columns {
    const BYTES_PER_ROW: usize = size_of::<u64>() + size_of::<Verdict>() + size_of::<RawScore>();

    fn clear(&mut self) {
        self.made_at.fill(0);
    }

    fn fit_to(&mut self, rows: usize) {
        if self.made_at.len() < rows {
            self.made_at.resize(rows, 0);
            self.verdicts.resize(rows, Verdict::FITS);
            self.scores.resize(rows, RawScore::default());
        }
    }
}

impl Class {
    /// The verdict of the row as it is, without what nominations and placed anti-affinity may add.
    pub(super) fn verdict(&mut self, profile: &CompiledProfile, ledger: &Ledger, node: NodeId) -> Verdict {
        let i = node.index();
        let version = ledger.nodes().version[i];
        if self.columns.made_at[i] != version {
            let verdict = filter(profile, &self.subject, ledger.nodes(), node, &Overlay::NONE);
            self.columns.verdicts[i] = verdict;
            if verdict.fits() {
                self.columns.scores[i] = raw_score(profile, &self.subject, ledger, node);
            }
            self.columns.made_at[i] = version;
        }
        self.columns.verdicts[i]
    }

    /// The raw score of a row whose verdict was just found to fit.
    pub(super) fn score(&self, node: NodeId) -> RawScore {
        self.columns.scores[node.index()]
    }
}

/// Scores one row from nothing.
fn raw_score(profile: &CompiledProfile, subject: &Subject, ledger: &Ledger, node: NodeId) -> RawScore {
    let mut raw = RawScore::default();
    for (score, weight) in &profile.scores {
        match score {
            Score::TaintToleration if ledger.nodes().has_soft_taints() => {
                raw.soft_taints = taint_toleration::score(subject, ledger.nodes(), node);
            }
            Score::TaintToleration => {}
            Score::NodeAffinity => raw.preferred = node_affinity::score(profile, subject, ledger.nodes(), node),
            fixed => raw.fixed += weight * fixed_score(*fixed, profile, subject, ledger, node),
        }
    }
    raw
}

/// A score that is not normalised, 0 to 100; 0 where the plugin skips the pod.
pub(super) fn fixed_score(
    score: Score,
    profile: &CompiledProfile,
    subject: &Subject,
    ledger: &Ledger,
    node: NodeId,
) -> i64 {
    let nodes: &NodeTable = ledger.nodes();
    match score {
        Score::NodeResourcesFit => node_resources_fit::score(&profile.fit, subject, nodes, node),
        Score::NodeResourcesBalancedAllocation if subject.is_scored_by(profile, score) => {
            balanced_allocation::score(subject, nodes, node)
        }
        Score::ImageLocality => image_locality::score(subject, ledger, node),
        Score::NodeResourcesBalancedAllocation | Score::TaintToleration | Score::NodeAffinity => 0,
    }
}

/// Class results by shape, bounded; the least recently used goes and leaves its columns to the next.
#[derive(Debug, Default)]
pub(super) struct ClassCache {
    by_shape: FxHashMap<*const PodShape, Class>,
    uses: u64,
}

// The keys are addresses of shapes that the classes themselves keep alive; they are compared, never followed.
impl ClassCache {
    /// The class of `shape`, resolved against the ledger as it is now.
    ///
    /// Shapes are interned by the ledger: equal ones have one address.
    pub(super) fn get(&mut self, profile: &CompiledProfile, ledger: &Ledger, shape: &Arc<PodShape>) -> &mut Class {
        self.uses += 1;
        let rows = ledger.nodes().rows();
        let key = Arc::as_ptr(shape);
        if !self.by_shape.contains_key(&key) {
            let columns = self.recycle(rows);
            let class = Class { subject: Subject::new(profile, ledger, shape), columns, last_used: 0 };
            self.by_shape.insert(key, class);
        }
        let uses = self.uses;
        let class = self.by_shape.entry(key).or_insert_with(|| Class {
            subject: Subject::new(profile, ledger, shape),
            columns: Columns::default(),
            last_used: 0,
        });
        class.last_used = uses;
        if class.subject.refresh(profile, ledger) {
            class.columns.clear();
        }
        class.columns.fit_to(rows);
        class
    }

    /// Forgets everything: the profile changed.
    pub(super) fn clear(&mut self) {
        self.by_shape.clear();
    }

    /// Columns for one more class: those of the least recently used where the bound is reached.
    fn recycle(&mut self, rows: usize) -> Columns {
        let bound = (CLASS_CACHE_BYTES / (Columns::BYTES_PER_ROW * rows.max(1))).max(1);
        let mut columns = Columns::default();
        while self.by_shape.len() >= bound {
            #[allow(
                clippy::iter_over_hash_type,
                reason = "the least value of unique counters does not depend on order"
            )]
            let oldest = self.by_shape.iter().min_by_key(|(_, class)| class.last_used).map(|(key, _)| *key);
            let Some(class) = oldest.and_then(|key| self.by_shape.remove(&key)) else {
                break;
            };
            columns = class.columns;
            columns.clear();
        }
        columns
    }
}
