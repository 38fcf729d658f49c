//! One node with pods laid over it against the same cluster with those pods on it.

use super::*;
use crate::core::cycle::Rng;
use crate::core::cycle::tests::Draw;
use crate::core::ledger::Ledger;
use crate::core::plugins::Tables;
use crate::core::profile::{CompiledProfile, Filter};
use std::sync::Arc;

/// The verdict of every filter on `node` with `overlay`; none where PreFilter refuses, or where the pod skips
/// InterPodAffinity, whose filter then does not look at the overlay either, as upstream.
fn verdict(
    profile: &CompiledProfile,
    ledger: &Ledger,
    pod: &Arc<Pod>,
    node: NodeId,
    overlay: &Overlay,
) -> Option<Verdict> {
    let cx = Cx { profile, ledger };
    let subject = Subject::new(profile, ledger, &pod.shape);
    let mut tables = Tables::default();
    let relations = tables.pre_filter(cx, pod, &subject).ok()?;
    let skips = relations.affinity.is_none() && overlay.added.iter().any(|p| !p.shape.anti_affinity.is_empty());
    let special = Special { promised: FxHashMap::default(), relations };
    let own = filter(profile, &subject, ledger.nodes(), node, overlay);
    (!skips).then(|| special.complete(cx, &subject, node, own, overlay))
}

#[test]
fn a_pod_laid_over_a_node_counts_as_if_it_were_there() {
    let (mut compared, mut refused) = (0, 0);
    for seed in 0..2_000 {
        let mut draw = Draw(Rng::seeded(seed));
        let (mut ledger, mut serial) = (Ledger::new(), 0);
        for _ in 0..40 {
            draw.change(&mut ledger, &mut serial);
        }
        let mut profile = draw.profile();
        // It goes by where pods of a Service are, and nobody is promised a node in its time.
        profile.filters = profile.filters.without(Filter::CheckServiceAffinity);
        let (subject, other) = (Arc::new(draw.pod("subject")), Arc::new(draw.pod("other")));
        let nodes = ledger.node_order();
        let Some(node) = nodes.get(draw.below(nodes.len().max(1) as u64) as usize).copied() else { continue };
        let name = ledger.nodes().name(node).clone();
        ledger.apply_pod((*subject).clone());
        let Some(crate::core::ledger::PodState::Pending(subject)) = ledger.pod("subject").cloned() else { continue };
        let mut overlay = Overlay::NONE;
        overlay.add(ledger.nodes(), &other);
        let laid_over = verdict(&profile, &ledger, &subject, node, &overlay);
        ledger.apply_pod(Pod { node_name: Some(name), ..(*other).clone() });
        let there = verdict(&profile, &ledger, &subject, node, &Overlay::NONE);
        if let (Some(laid_over), Some(there)) = (laid_over, there) {
            assert_eq!(laid_over, there, "seed {seed}: {subject:#?} beside {other:#?}");
            compared += 1;
            refused += i32::from(!there.fits());
        }
    }
    assert!(compared > 1_000 && refused > 300, "{compared} compared, {refused} refused");
}
