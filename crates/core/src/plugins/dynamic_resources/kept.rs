//! What looks at claims have found on rows, for all pods that ask the same.

use super::selectors::Selectors;
use crate::ledger::{Ledger, NodeId};
use crate::limits::{DEVICE_QUESTIONS_KEPT, DEVICE_ROWS_KEPT, DEVICE_SOLUTIONS_KEPT};
use crate::model::{ClaimAllocation, DeviceStatus, ExtendedRequests, Pod, ResourceClaim, Str};
use crate::plugins::context::{Cause, Verdict};
use berth_devices::Progress;
use berth_devices::model::ResourceClaim as ClaimSpec;
use std::sync::Arc;

/// Only to be faster: made from nothing it gives the same answers.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// That of the pod that is looked at comes first.
    questions: Vec<Known>,
    /// Whether a pod is looked at that has claims.
    is_asked: bool,
    labels_version: u64,
    pub(crate) selectors: Selectors,
}

#[derive(Debug)]
struct Known {
    question: Question,
    /// The uid of the pod that asked last.
    pod: Str,
    /// By node.
    rows: Vec<Option<Row>>,
    /// Whether some row has a failure: its text is about the claims of one pod.
    has_failed: bool,
    /// Whether some row's score is not 0.
    has_scores: bool,
    /// The search on the row that is looked at.
    unfinished: Option<Unfinished>,
    /// How many rows have got a solution.
    solutions: usize,
}

/// A search that goes on at the next look.
#[derive(Debug)]
struct Unfinished {
    of: Asked,
    search: Search,
}

/// A search on one row, and the steps that it took so far.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) progress: Progress,
    pub(super) steps: i64,
}

/// What was found on one row. Each attempt reads some thousands of them, so that what few have is elsewhere.
#[derive(Debug)]
struct Row {
    /// As in [`Asked`].
    version: u64,
    extended: u64,
    verdict: Verdict,
    raw_score: i64,
    unavailable: u128,
    rest: Option<Box<Rest>>,
}

/// What few rows have.
#[derive(Debug, Default)]
struct Rest {
    failure: Option<Str>,
    /// Where it took long, the devices that were found.
    solution: Option<Box<Progress>>,
}

/// What is asked of a row as it is now, and what an answer of it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) node: NodeId,
    /// Of the devices of the node.
    version: u64,
    /// Which of the pod's extended resources devices are to provide: see [`Wants`](super::extended::Wants).
    pub(super) extended: u64,
}

impl Asked {
    pub(super) fn now(ledger: &Ledger, node: NodeId, extended: u64) -> Self {
        Self { node, version: ledger.devices().version_on(node), extended }
    }
}

/// What of a pod's claims answers depend on. The names of claims that are to be allocated are not in it: those that are made from one
/// template ask the same.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    claims: Vec<AskedClaim>,
    extended: Option<Arc<[ExtendedRequests]>>,
}

#[derive(Debug)]
struct AskedClaim {
    spec: Arc<ClaimSpec>,
    got: Option<Got>,
}

/// What an allocated claim has got.
#[derive(Debug, PartialEq, Eq)]
struct Got {
    allocation: Arc<ClaimAllocation>,
    devices: Vec<DeviceStatus>,
    is_late: bool,
}

impl PartialEq for AskedClaim {
    fn eq(&self, other: &Self) -> bool {
        let (own, their) = (&self.spec, &other.spec);
        let same = own.requests == their.requests && own.constraints == their.constraints && own.config == their.config;
        self.got == other.got && (Arc::ptr_eq(own, their) || same)
    }
}

impl Eq for AskedClaim {}

impl AskedClaim {
    fn of(ledger: &Ledger, claim: &ResourceClaim) -> Self {
        let got = claim.allocation.as_ref().map(|allocation| Got {
            allocation: allocation.clone(),
            devices: claim.devices.clone(),
            is_late: ledger.devices().is_late(&claim.key),
        });
        Self { spec: claim.spec.clone(), got }
    }
}

/// What was found on one row.
#[derive(Debug)]
pub(crate) struct Found {
    pub(super) verdict: Verdict,
    /// Bit by bit, the claims of the pod that are allocated for other nodes.
    pub(super) unavailable: u128,
    /// The score before it is normalised.
    pub(super) raw_score: i64,
    /// What ends the attempt, in upstream's words.
    pub(super) failure: Option<Str>,
}

impl Found {
    pub(super) const fn fits(raw_score: i64) -> Self {
        Self { verdict: Verdict::FITS, unavailable: 0, raw_score, failure: None }
    }

    pub(super) const fn refused(cause: Cause) -> Self {
        Self { verdict: Verdict::unresolvable(cause), unavailable: 0, raw_score: 0, failure: None }
    }

    pub(super) fn failed(text: String) -> Self {
        Self { failure: Some(text.into()), ..Self::refused(Cause::Devices) }
    }
}

impl Kept {
    /// The pod is looked at next.
    pub(super) fn begin(
        &mut self,
        ledger: &Ledger,
        pod: &Pod,
        claims: &[&Arc<ResourceClaim>],
        extended: Option<&Arc<[ExtendedRequests]>>,
    ) {
        if self.labels_version != ledger.node_labels_version() {
            self.labels_version = ledger.node_labels_version();
            self.questions.clear();
        }
        self.is_asked = true;
        let claims = claims.iter().map(|claim| AskedClaim::of(ledger, claim)).collect();
        let question = Question { claims, extended: extended.cloned() };
        if let Some(at) = self.questions.iter().position(|known| known.question == question) {
            self.questions[..=at].rotate_right(1);
        } else {
            self.make_room();
            let (pod, rows) = (pod.uid.clone(), Vec::new());
            self.questions.insert(
                0,
                Known { question, pod, rows, has_failed: false, has_scores: false, unfinished: None, solutions: 0 },
            );
        }
        self.questions[0].is_asked_by(pod);
        for other in &mut self.questions[1..] {
            other.unfinished = None;
        }
    }

    /// Forgets the questions that were asked longest ago.
    fn make_room(&mut self) {
        self.questions.truncate(DEVICE_QUESTIONS_KEPT - 1);
        while self.questions.iter().map(|known| known.rows.len()).sum::<usize>() > DEVICE_ROWS_KEPT {
            self.questions.pop();
        }
    }

    /// A pod without claims is scored next: what was found for others says nothing of it.
    pub(crate) const fn end(&mut self) {
        self.is_asked = false;
    }

    /// Whether the pod that is looked at asks for devices.
    pub(crate) const fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// The claims of the pod that is looked at that have no devices yet.
    pub(crate) fn open(&self) -> Vec<Arc<ClaimSpec>> {
        let asked = self.questions.first().filter(|_| self.is_asked);
        let claims = asked.map_or(&[][..], |known| &known.question.claims);
        claims.iter().filter(|claim| claim.got.is_none()).map(|claim| claim.spec.clone()).collect()
    }

    /// Whether it is known what the row gives: see [`Self::found`].
    #[inline]
    pub(super) fn knows(&self, asked: Asked) -> bool {
        self.row(asked).is_some()
    }

    /// The verdict of the row, unless its devices have changed since. `note` is called with the claims that are unavailable there, and with
    /// what ends the attempt, if there is any of it.
    #[inline]
    pub(super) fn found(&self, asked: Asked, note: impl FnOnce(u128, Option<&Str>)) -> Option<Verdict> {
        let row = self.row(asked)?;
        if row.unavailable != 0 || row.rest.is_some() {
            note(row.unavailable, row.rest.as_ref().and_then(|rest| rest.failure.as_ref()));
        }
        Some(row.verdict)
    }

    /// The devices that were found on the row, if it took long to find them.
    pub(super) fn take_solution(&mut self, asked: Asked) -> Option<Box<Progress>> {
        self.row(asked)?;
        self.rest_mut(asked.node)?.solution.take()
    }

    /// Gives back what [`Self::take_solution`] took.
    pub(super) fn keep_solution(&mut self, asked: Asked, solution: Box<Progress>) {
        if let Some(rest) = self.rest_mut(asked.node) {
            rest.solution = Some(solution);
        }
    }

    fn rest_mut(&mut self, node: NodeId) -> Option<&mut Rest> {
        self.questions.first_mut()?.rows.get_mut(node.index())?.as_mut()?.rest.as_deref_mut()
    }

    #[inline]
    fn row(&self, asked: Asked) -> Option<&Row> {
        let Asked { node, version, extended } = asked;
        self.questions.first()?.row(node).filter(|row| (row.version, row.extended) == (version, extended))
    }

    pub(super) fn keep(&mut self, asked: Asked, found: &Found, solution: Option<Box<Progress>>) {
        let Some(known) = self.questions.first_mut() else { return };
        let Asked { node, version, extended } = asked;
        let Found { verdict, unavailable, raw_score, ref failure } = *found;
        known.has_failed |= failure.is_some();
        known.has_scores |= raw_score != 0;
        if known.rows.len() <= node.index() {
            known.rows.resize_with(node.index() + 1, || None);
        }
        known.count_solution(solution.is_some());
        let has_rest = failure.is_some() || solution.is_some();
        let rest = has_rest.then(|| Box::new(Rest { failure: failure.clone(), solution }));
        known.rows[node.index()] = Some(Row { version, extended, verdict, raw_score, unavailable, rest });
    }

    /// The search on the row, as far as it has come; only the steps that it took, where the row's devices are others by now.
    pub(super) fn take_unfinished(&mut self, asked: Asked) -> Search {
        let of_node = |unfinished: &mut Unfinished| unfinished.of.node == asked.node;
        let unfinished = self.questions.first_mut().and_then(|known| known.unfinished.take_if(of_node));
        let Some(Unfinished { of, search }) = unfinished else { return Search::default() };
        // Where devices change all the time, it begins anew and ends all the same.
        if of == asked { search } else { Search { steps: search.steps, ..Search::default() } }
    }

    pub(super) fn keep_unfinished(&mut self, asked: Asked, search: Search) {
        if let Some(known) = self.questions.first_mut() {
            known.unfinished = Some(Unfinished { of: asked, search });
        }
    }

    /// The raw scores of the nodes, which were judged for the pod that is scored. False if all are 0, so that the score tells none apart.
    pub(crate) fn raw_scores(&self, nodes: &[NodeId], out: &mut Vec<i64>) -> bool {
        let Some(known) = self.questions.first().filter(|known| self.is_asked && known.has_scores) else {
            return false;
        };
        out.extend(nodes.iter().map(|node| known.row(*node).map_or(0, |row| row.raw_score)));
        out.iter().any(|raw| *raw != 0)
    }
}

impl Known {
    #[inline]
    fn row(&self, node: NodeId) -> Option<&Row> {
        self.rows.get(node.index())?.as_ref()
    }

    /// Forgets all solutions where one more would be too many.
    fn count_solution(&mut self, there_is_one: bool) {
        if there_is_one && self.solutions >= DEVICE_SOLUTIONS_KEPT {
            self.solutions = 0;
            self.rows.iter_mut().flatten().filter_map(|row| row.rest.as_mut()).for_each(|rest| rest.solution = None);
        }
        self.solutions += usize::from(there_is_one);
    }

    fn is_asked_by(&mut self, pod: &Pod) {
        if self.pod == pod.uid {
            return;
        }
        self.pod = pod.uid.clone();
        if std::mem::take(&mut self.has_failed) {
            for row in &mut self.rows {
                *row = row.take().filter(|row| row.rest.as_ref().is_none_or(|rest| rest.failure.is_none()));
            }
        }
    }
}
