use crate::core::ledger::{Ledger, NodeId};
use crate::core::model::{Pod, PodShape, Str};
use crate::core::plugins::{Cause, Overlay, Subject, Verdict, filter, inter_pod_affinity};
use crate::core::profile::CompiledProfile;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// What the cached verdicts of a class leave out because it is not a row's own: nominations, and placed anti-affinity.
///
/// In most clusters both are empty, and this costs two comparisons an attempt.
#[derive(Debug, Default)]
pub(super) struct Special {
    /// Nodes promised to pods of at least this pod's priority, with what those pods add.
    promised: FxHashMap<NodeId, Overlay>,
    /// Domains closed by the required anti-affinity of placed pods.
    closed: Domains,
}

/// Labels (key and value) that close a node.
type Domains = Arc<FxHashSet<(Str, Str)>>;

/// Closed domains by shape, good for one version of the terms. Each entry keeps the shape whose address is its key.
#[derive(Debug, Default)]
pub(super) struct ClosedDomains {
    version: u64,
    by_shape: FxHashMap<*const PodShape, (Arc<PodShape>, Domains)>,
}

impl ClosedDomains {
    fn get(&mut self, ledger: &Ledger, shape: &Arc<PodShape>) -> Domains {
        if ledger.terms().is_empty() {
            return Arc::default();
        }
        if self.version != ledger.terms().version() {
            self.version = ledger.terms().version();
            self.by_shape.clear();
        }
        let compute = || (shape.clone(), Arc::new(ledger.closed_domains(shape)));
        self.by_shape.entry(Arc::as_ptr(shape)).or_insert_with(compute).1.clone()
    }
}

impl Special {
    pub(super) fn of(ledger: &Ledger, pod: &Pod, domains: &mut ClosedDomains) -> Self {
        Self { promised: promised(ledger, pod), closed: domains.get(ledger, &pod.shape) }
    }

    /// The same computed from nothing.
    pub(super) fn fresh(ledger: &Ledger, pod: &Pod) -> Self {
        Self { promised: promised(ledger, pod), closed: Arc::new(ledger.closed_domains(&pod.shape)) }
    }

    /// Whether every row's own verdict stands.
    pub(super) fn is_empty(&self) -> bool {
        self.promised.is_empty() && self.closed.is_empty()
    }

    /// The verdict of a row whose own verdict is `plain`.
    ///
    /// With pods nominated to the node both passes must do: with them (room, ports, anti-affinity) and without
    /// (semantics §3.3). A refusal of the first pass is final.
    pub(super) fn judge(
        &self,
        profile: &CompiledProfile,
        subject: &Subject,
        ledger: &Ledger,
        node: NodeId,
        plain: impl FnOnce() -> Verdict,
    ) -> Verdict {
        if let Some(overlay) = self.promised.get(&node) {
            let with_promised = self.close(ledger, node, filter(profile, subject, ledger.nodes(), node, overlay));
            if !with_promised.fits() {
                return with_promised;
            }
        }
        self.close(ledger, node, plain())
    }

    fn close(&self, ledger: &Ledger, node: NodeId, verdict: Verdict) -> Verdict {
        if verdict.fits() && inter_pod_affinity::excludes(&self.closed, ledger.nodes().labels(node)) {
            return Verdict::unschedulable(Cause::ExistingAntiAffinity);
        }
        verdict
    }
}

/// What pods of at least `pod`'s priority that are promised a node would add to it.
fn promised(ledger: &Ledger, pod: &Pod) -> FxHashMap<NodeId, Overlay> {
    let mut promised = FxHashMap::default();
    if ledger.nominations().is_empty() {
        return promised;
    }
    #[allow(clippy::iter_over_hash_type, reason = "a map is built, so the order does not show")]
    for name in ledger.nominations().nodes() {
        let Some(node) = ledger.nodes().find(name) else {
            continue;
        };
        let mut overlay = Overlay::NONE;
        for nomination in ledger.nominations().on(name) {
            let other = &nomination.pod;
            if other.priority >= pod.priority && other.uid != pod.uid {
                add(&mut overlay, ledger, node, other, &pod.shape);
            }
        }
        if overlay.pods > 0 {
            promised.insert(node, overlay);
        }
    }
    promised
}

fn add(overlay: &mut Overlay, ledger: &Ledger, node: NodeId, other: &Pod, shape: &PodShape) {
    let requests = &other.usage.requests;
    overlay.pods += 1;
    overlay.cpu += requests.milli_cpu;
    overlay.memory += requests.memory;
    overlay.storage += requests.ephemeral_storage;
    for (name, amount) in &requests.scalars {
        if let Some(id) = ledger.nodes().scalar(name) {
            overlay.scalars.push((id, *amount));
        }
    }
    overlay.ports.extend(other.usage.ports.iter().cloned());
    let labels = ledger.nodes().labels(node);
    overlay.excludes |= inter_pod_affinity::term_excludes(&other.shape.anti_affinity, ledger, shape, labels);
}
