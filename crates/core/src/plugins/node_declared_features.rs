//! NodeDeclaredFeatures: refuses nodes that do not declare every feature the pod needs.
//! After `pkg/scheduler/framework/plugins/nodedeclaredfeatures/nodedeclaredfeatures.go`.
//!
//! What a pod needs follows from its spec alone and is inferred when it is decoded.

use super::context::ResolvedPod;
use crate::ledger::{NodeId, NodeTable};

#[inline]
pub(super) fn fits(subject: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> bool {
    let required = &subject.shape.required_features;
    required.is_empty() || required.iter().all(|f| nodes.declared_features[node.index()].binary_search(f).is_ok())
}

#[cfg(test)]
mod tests {
    use crate::ledger::Ledger;
    use crate::model::Str;
    use crate::plugins::Plugin;
    use crate::plugins::{Cause, Code, Overlay, ResolvedPod, Verdict, filter};
    use crate::profile::CompiledProfile;
    use crate::testing::{node, shape};
    use std::sync::Arc;

    fn verdict(required: &[&str], declared: &[&str], profile: &CompiledProfile) -> Verdict {
        let texts = |of: &[&str]| of.iter().map(|f| Str::from(*f)).collect::<Vec<Str>>();
        let mut ledger = Ledger::new();
        let mut object = node("a", 1000, 1 << 30, 10);
        object.declared_features = texts(declared).into();
        ledger.apply_node(&object);
        let mut pod = shape();
        pod.required_features = texts(required);
        let subject = ResolvedPod::new(profile, &ledger, &Arc::new(pod));
        filter(profile, &subject, ledger.nodes(), ledger.nodes().find("a").expect("applied"), Overlay::none())
    }

    #[test]
    fn every_required_feature_must_be_declared() {
        let profile = CompiledProfile::default_preset("p");
        for (required, declared, fits) in [
            (&[][..], &[][..], true),
            (&[], &["A"], true),
            (&["A"], &["A"], true),
            (&["A", "C"], &["A", "B", "C"], true),
            (&["A"], &[], false),
            (&["A", "C"], &["A", "B"], false),
        ] {
            let verdict = verdict(required, declared, &profile);
            assert_eq!(verdict.fits(), fits, "{required:?} of {declared:?}");
            if !fits {
                assert_eq!(
                    (verdict.cause(), verdict.code()),
                    (Cause::DeclaredFeatures, Code::UnschedulableAndUnresolvable)
                );
            }
        }
    }

    #[test]
    fn it_can_be_switched_off() {
        let mut profile = CompiledProfile::default_preset("p");
        profile.filters = profile.filters.without(Plugin::NodeDeclaredFeatures);
        assert!(verdict(&["A"], &[], &profile).fits());
    }
}
