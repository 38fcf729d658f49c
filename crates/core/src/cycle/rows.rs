use crate::ledger::{NodeId, NodeTable};
use crate::plugins::{
    PluginContext, ResolvedPod, Verdict, Work, cost_on, filter, fixed_score, node_affinity, taint_toleration,
};
use crate::profile::Score;
use rustc_hash::FxHashMap;

#[cfg(test)]
thread_local! {
    /// How many rows were judged in this thread.
    pub(crate) static JUDGED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The raw scores of a row that are normalised over the feasible nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Relative {
    /// Untolerated PreferNoSchedule taints.
    pub(super) soft_taints: i64,
    /// Weight of matching preferred terms.
    pub(super) preferred: i64,
}

/// What is known of a row, in eight bytes: scans read nothing else of it.
///
/// The weighted sum of the scores that are not normalised, where the pod fits; the lowest values stand for refusals, and for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Answer(i64);

impl Answer {
    /// The row has changed, or was never judged.
    const STALE: Self = Self(i64::MIN);
    /// The first refusal: those that follow are as many as a `u32` counts. No sum of scores is that low.
    const REFUSED: i64 = i64::MIN + 1;
    const LOWEST_FIT: Self = Self(i64::MIN + (1 << 33));

    fn refused(refusal: u32) -> Self {
        Self(Self::REFUSED + i64::from(refusal))
    }

    fn fitting(fixed: i64) -> Self {
        Self(fixed).max(Self::LOWEST_FIT)
    }

    pub(super) fn fits(self) -> bool {
        self >= Self::LOWEST_FIT
    }

    /// The weighted sum of the scores that are not normalised, of a row that fits.
    pub(super) const fn fixed(self) -> i64 {
        self.0
    }
}

/// Distinct refusals of one class: more than pods and nodes have without trying.
const REFUSALS: usize = 4_096;

/// The answers for one class, row by row. Each is good as long as its row does not change: before they are read,
/// [`Self::follow`] marks those that are no more.
#[derive(Debug, Default)]
pub(super) struct CachedRows {
    answers: Vec<Answer>,
    /// The row's version that was judged: read only where too much has changed to know which rows.
    made_at: Vec<u64>,
    /// Empty where no row has any.
    relative: Vec<Relative>,
    refusals: Vec<Verdict>,
    refusal_of: FxHashMap<Verdict, u32>,
    /// How many changes of rows were followed: see [`NodeTable::touched_since`].
    followed: u64,
    /// The rows that have an answer, unless `many` have.
    judged: Vec<NodeId>,
    many: bool,
}

impl CachedRows {
    /// Of one row, without what few classes have.
    pub(super) const BYTES_PER_ROW: usize = size_of::<Answer>() + size_of::<u64>();

    pub(super) fn bytes(&self) -> usize {
        self.answers.len() * Self::BYTES_PER_ROW
            + self.relative.len() * size_of::<Relative>()
            + self.judged.capacity() * size_of::<NodeId>()
            + self.refusals.len() * 4 * size_of::<Verdict>()
    }

    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.many) {
            self.answers.fill(Answer::STALE);
            self.judged.clear();
        }
        for node in self.judged.drain(..) {
            self.answers[node.index()] = Answer::STALE;
        }
        self.refusals.clear();
        self.refusal_of.clear();
    }

    /// Grows to the table's rows, and marks what has changed since the last call. O(changed rows), or O(rows) after many changes.
    pub(super) fn follow(&mut self, nodes: &NodeTable) {
        if self.answers.len() < nodes.rows() {
            self.answers.resize(nodes.rows(), Answer::STALE);
            self.made_at.resize(nodes.rows(), 0);
        }
        match nodes.touched_since(self.followed) {
            Some(touched) => {
                for node in touched {
                    self.answers[node.index()] = Answer::STALE;
                }
            }
            None => {
                for ((answer, made_at), version) in self.answers.iter_mut().zip(&self.made_at).zip(&nodes.version) {
                    if made_at != version {
                        *answer = Answer::STALE;
                    }
                }
            }
        }
        self.followed = nodes.touched();
    }

    /// The answer of the row as it is, without what [`NonRowChecks`](super::non_row_checks::NonRowChecks) may add; none where it is
    /// to be judged and no `work` is left for that.
    #[inline]
    pub(super) fn answer_within(
        &mut self,
        cx: PluginContext<'_>,
        resolved: &ResolvedPod,
        node: NodeId,
        work: &mut Work,
    ) -> Option<Answer> {
        let answer = self.answers[node.index()];
        if answer == Answer::STALE { self.judge(cx, resolved, node, work) } else { Some(answer) }
    }

    /// What a row's answer says.
    #[inline]
    pub(super) fn verdict_of(&self, answer: Answer) -> Verdict {
        if answer.fits() { Verdict::FITS } else { self.refusals[(answer.0 - Answer::REFUSED) as usize] }
    }

    /// As [`Self::answer_within`], with all the work that it takes.
    #[inline]
    pub(super) fn verdict(&mut self, cx: PluginContext<'_>, resolved: &ResolvedPod, node: NodeId) -> Verdict {
        let answer = self.answer_within(cx, resolved, node, &mut Work::unbounded());
        answer.map_or(Verdict::FITS, |answer| self.verdict_of(answer))
    }

    /// As [`Self::verdict`]; none where the row has changed and no `work` is left to judge it.
    #[inline]
    pub(super) fn verdict_within(
        &mut self,
        cx: PluginContext<'_>,
        resolved: &ResolvedPod,
        node: NodeId,
        work: &mut Work,
    ) -> Option<Verdict> {
        self.answer_within(cx, resolved, node, work).map(|answer| self.verdict_of(answer))
    }

    /// The weighted sum of the scores that are not normalised, of a row whose verdict was just found to fit.
    #[inline]
    pub(super) fn fixed(&self, node: NodeId) -> i64 {
        self.answers[node.index()].fixed()
    }

    /// The raw scores that are normalised, of a row whose verdict was just found to fit.
    pub(super) fn relative(&self, node: NodeId) -> Relative {
        self.relative.get(node.index()).copied().unwrap_or_default()
    }

    /// Filters and scores a row from nothing and keeps the answer, if `work` is left for it. Apart from the loops that find most
    /// rows judged.
    #[inline(never)]
    fn judge(
        &mut self,
        cx: PluginContext<'_>,
        resolved: &ResolvedPod,
        node: NodeId,
        work: &mut Work,
    ) -> Option<Answer> {
        work.take(cost_on(resolved, cx.ledger.nodes(), node)).ok()?;
        #[cfg(test)]
        JUDGED.set(JUDGED.get() + 1);
        let PluginContext { profile, ledger } = cx;
        let i = node.index();
        let verdict = filter(profile, resolved, ledger.nodes(), node);
        self.made_at[i] = ledger.nodes().version[i];
        let answer = if verdict.fits() {
            Answer::fitting(self.score(cx, resolved, node))
        } else {
            Answer::refused(self.number_of(verdict))
        };
        self.many |= self.judged.len() >= self.answers.len() / 16;
        if !self.many {
            self.judged.push(node);
        }
        self.answers[i] = answer;
        Some(answer)
    }

    /// The weighted sum of the scores that are not normalised; keeps those that are.
    fn score(&mut self, cx: PluginContext<'_>, resolved: &ResolvedPod, node: NodeId) -> i64 {
        let PluginContext { profile, ledger } = cx;
        let i = node.index();
        let relative = resolved.has_preferences(profile) || ledger.nodes().has_soft_taints();
        if relative && self.relative.len() < self.answers.len() {
            self.relative.resize(self.answers.len(), Relative::default());
        }
        let mut fixed = 0;
        for (score, weight) in &profile.scores {
            match score {
                Score::TaintToleration | Score::NodeAffinity if !relative => {}
                Score::TaintToleration => {
                    self.relative[i].soft_taints = taint_toleration::score(resolved, ledger.nodes(), node);
                }
                Score::NodeAffinity => {
                    self.relative[i].preferred = node_affinity::score(profile, resolved, ledger.nodes(), node);
                }
                Score::ImageLocality if resolved.images.is_empty() => {}
                other => fixed += weight * fixed_score(*other, cx, resolved, node),
            }
        }
        fixed
    }

    fn number_of(&mut self, refusal: Verdict) -> u32 {
        if self.refusals.len() >= REFUSALS && !self.refusal_of.contains_key(&refusal) {
            self.clear();
        }
        let next = self.refusals.len() as u32;
        let number = *self.refusal_of.entry(refusal).or_insert(next);
        if number == next {
            self.refusals.push(refusal);
        }
        number
    }
}
