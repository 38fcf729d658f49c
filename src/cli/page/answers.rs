//! Pods judged for the page. Judging one takes O(nodes), so pods that the engine cannot tell apart share an answer where many wait.

use super::data::{Answer, Data, Text, Texts};
use crate::cli::explain::{Reason, in_words, reasons};
use berth_core::ledger::Ledger;
use berth_core::model::{Pod, PodShape, Str};
use berth_core::profile::CompiledProfile;
use berth_explain::{self as explain, Asked, NodeReport, PodReport, ScoredNode};
use berth_simulate::{Cluster, serving};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Nodes that an answer shows.
const BEST: usize = 20;

/// Reasons that an answer shows.
const REASONS: usize = 40;

/// Answers of one page: each takes some 3 KB of it.
const ANSWERS: usize = 1000;

/// Nodes that are asked for one page, all pods together: some seconds.
const NODES_ASKED: usize = 2_000_000;

/// Answers of one page, however many nodes there are.
const LEAST_ANSWERS: usize = 64;

/// What pods have in common that get equal answers: profile, shape, priority and nominated node; and the uid, of a pod that is
/// judged by itself.
pub(super) type Kind = (Option<Str>, Str, Arc<PodShape>, i32, Option<Str>);

/// Who has been judged, and how many more may be.
pub(super) struct Judged<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) profiles: &'a [Arc<CompiledProfile>],
    known: HashMap<Kind, i32>,
    left: usize,
    /// Whether there are so few pods that each is judged by itself.
    each: bool,
}

impl<'a> Judged<'a> {
    /// Nobody yet, of `pods` that wait.
    pub(super) fn new(cluster: &'a Cluster, profiles: &'a [Arc<CompiledProfile>], pods: usize) -> Self {
        let left = (NODES_ASKED / cluster.nodes.len().max(1)).clamp(LEAST_ANSWERS, ANSWERS);
        Self { cluster, profiles, known: HashMap::new(), left, each: pods <= left }
    }

    /// Nobody yet, of the same pods in `cluster`, which is what a run left: with what is left of the answers.
    pub(super) fn later(&self, cluster: &'a Cluster) -> Self {
        Self { cluster, known: HashMap::new(), left: self.left.max(LEAST_ANSWERS), ..*self }
    }

    /// Nobody yet, of pods that have reports of their own.
    pub(super) fn by_report(cluster: &'a Cluster, profiles: &'a [Arc<CompiledProfile>]) -> Self {
        Self { cluster, profiles, known: HashMap::new(), left: ANSWERS, each: true }
    }

    /// Whether `pod` is the first of its kind in `kinds`.
    pub(super) fn is_new(&self, pod: &Pod, kinds: &mut HashSet<Kind>) -> bool {
        self.kind(pod).is_some_and(|kind| kinds.insert(kind))
    }

    pub(super) fn may_judge(&self) -> bool {
        self.left > 0
    }

    /// The answer that `pod` shares with one judged before.
    pub(super) fn known(&self, pod: &Pod) -> Option<i32> {
        self.known.get(&self.kind(pod)?).copied()
    }

    /// Judges `pod` against `ledger`, unless there were too many already; `moment` says as of when.
    pub(super) fn judge(&mut self, data: &mut Data, ledger: &Ledger, pod: &Pod, moment: &str) -> i32 {
        if self.left == 0 {
            return -1;
        }
        let report = explain::explain_one(ledger, self.profiles, pod);
        self.keep(data, ledger, pod, &report, moment)
    }

    /// Makes `report`, which judged `pod` against `ledger`, the answer of all pods alike.
    pub(super) fn keep(
        &mut self,
        data: &mut Data,
        ledger: &Ledger,
        pod: &Pod,
        report: &PodReport,
        moment: &str,
    ) -> i32 {
        let (Some(kind), Some(nodes)) = (self.kind(pod), &report.nodes) else { return -1 };
        if self.left == 0 {
            return -1;
        }
        self.left -= 1;
        let judged = if self.each {
            format!("Judged {moment}.")
        } else {
            format!(
                "Judged {moment}, for {}; pods that no filter and no score can tell apart share the answer.",
                pod.key
            )
        };
        let profile = serving(self.profiles, pod);
        let asked = profile.map(|profile| Asked { cluster: self.cluster, ledger, profile, pod });
        let refused = asked.map_or_else(Vec::new, |asked| refused(&mut data.texts, asked, nodes));
        let (scores, best) = best(data, nodes);
        let texts = &mut data.texts;
        let changes = report.changes.as_ref();
        let answer = Answer {
            judged: texts.id(&judged),
            feasible: report.feasible,
            of: nodes.len(),
            scores,
            best,
            refused,
            changes: changes.map(|changes| changes.iter().map(|change| texts.id(&change.text)).collect()),
            preemption: report.preemption.as_ref().map_or(0, |preemption| texts.id(&preemption.to_string())),
        };
        data.answers.push(answer);
        let place = (data.answers.len() - 1) as i32;
        self.known.insert(kind, place);
        place
    }

    fn kind(&self, pod: &Pod) -> Option<Kind> {
        let profile = serving(self.profiles, pod)?.name.clone();
        // Claims belong to one pod.
        let own = (self.each || pod.has_claims()).then(|| pod.uid.clone());
        Some((own, profile, pod.shape.clone(), pod.priority, pod.nominated_node.clone()))
    }
}

/// The names of the scores, and of the best nodes what each adds.
fn best(data: &mut Data, nodes: &[NodeReport]) -> (Vec<Text>, Vec<Vec<i64>>) {
    let mut rows: Vec<&ScoredNode> = nodes
        .iter()
        .filter_map(|node| match node {
            NodeReport::Scored(scored) => Some(scored),
            NodeReport::Refused { .. } => None,
        })
        .collect();
    rows.sort_by_key(|row| (Reverse(row.total), &row.name));
    rows.truncate(BEST);
    let names: Vec<&str> = rows.first().map(|row| row.scores.keys().copied().collect()).unwrap_or_default();
    let row = |row: &&ScoredNode| {
        let scores = names.iter().map(|name| row.scores.get(name).copied().unwrap_or(0));
        [i64::from(data.node(&row.name)), row.total].into_iter().chain(scores).collect()
    };
    let best = rows.iter().map(row).collect();
    (names.iter().map(|name| data.texts.id(name)).collect(), best)
}

/// The reasons for which nodes refuse `pod`, with the facts behind them.
fn refused(texts: &mut Texts, asked: Asked<'_>, nodes: &[NodeReport]) -> Vec<(usize, Text, Text, Text)> {
    let mut rows = Vec::new();
    for Reason { plugin, text, resource, nodes } in reasons(nodes).into_iter().take(REASONS) {
        let detail = asked.detail(plugin, resource.map(|name| &**name), &nodes);
        rows.push((nodes.len(), texts.id(plugin), texts.id(text), texts.id(&in_words(&detail))));
    }
    rows
}
