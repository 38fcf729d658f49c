use super::findings::{Findings, values_of_term};
use super::{Decoder, selectors};
use crate::slim::{LabelSelector, PodAffinity, PodAffinityTerm, PodSpec};
use berth_core::limits;
use berth_core::model::{AffinityTerm, NamespaceScope, PodShape, Str, WeightedTerm};

/// Fills in the terms of a pod in `shape.namespace` that speak of other pods.
///
/// Of a placed pod, only as many terms and values are read as a pending one may have: see `core/limits.rs`.
///
/// A list with a selector that upstream could not parse is left empty, as upstream leaves it for placed pods. It holds a
/// pod that is to be placed. After `PodInfo.Update` in `pkg/scheduler/framework/types.go`.
pub(super) fn read(decoder: &mut Decoder, spec: &PodSpec<'_>, shape: &mut PodShape, findings: &mut Findings) {
    let Some(affinity) = &spec.affinity else { return };
    let namespace = shape.namespace.clone();
    let mut lists = Lists { decoder, namespace: &namespace, findings, values: 0 };
    let (to, away) = (&affinity.pod_affinity, &affinity.pod_anti_affinity);
    shape.affinity = lists.required(to, "spec.affinity.podAffinity");
    shape.anti_affinity = lists.required(away, "spec.affinity.podAntiAffinity");
    shape.preferred_pods = lists.preferred(to, 1, "spec.affinity.podAffinity");
    shape.preferred_pods.extend(lists.preferred(away, -1, "spec.affinity.podAntiAffinity"));
}

struct Lists<'a> {
    decoder: &'a mut Decoder,
    namespace: &'a Str,
    findings: &'a mut Findings,
    /// Keys and values of the selectors read so far.
    values: usize,
}

impl Lists<'_> {
    fn required(&mut self, given: &PodAffinity<'_>, field: &str) -> Vec<AffinityTerm> {
        let within = self.within_limits(given.required.iter());
        let terms = within.into_iter().map(|term| self.term(term)).collect();
        self.whole(terms, &format!("{field}.required"))
    }

    fn preferred(&mut self, given: &PodAffinity<'_>, sign: i32, field: &str) -> Vec<WeightedTerm> {
        let weighed = |weight: i32, term| WeightedTerm { weight: weight.saturating_mul(sign), term };
        let within = self.within_limits(given.preferred.iter().map(|weighted| &weighted.pod_affinity_term));
        let weights = given.preferred.iter().map(|weighted| weighted.weight);
        let terms = weights.zip(within).map(|(weight, term)| Ok(weighed(weight, self.term(term)?))).collect();
        self.whole(terms, &format!("{field}.preferred"))
    }

    /// The first terms, as many as the limits allow.
    fn within_limits<'t, 's: 't>(
        &mut self,
        terms: impl Iterator<Item = &'t PodAffinityTerm<'s>>,
    ) -> Vec<&'t PodAffinityTerm<'s>> {
        let is_within = |term: &&PodAffinityTerm<'_>| {
            self.values += values_of_term(term);
            self.values <= limits::SELECTOR_VALUES_PER_POD
        };
        terms.take(limits::POD_AFFINITY_TERMS_PER_POD).take_while(is_within).collect()
    }

    /// The list, or nothing where a part of it does not parse.
    fn whole<T>(&mut self, terms: Result<Vec<T>, String>, field: &str) -> Vec<T> {
        terms.unwrap_or_else(|what| {
            self.findings.unknown(field, &what);
            Vec::new()
        })
    }

    fn term(&mut self, slim: &PodAffinityTerm<'_>) -> Result<AffinityTerm, String> {
        let mut names = self.decoder.texts(&slim.namespaces);
        if names.is_empty() && slim.namespace_selector.is_none() {
            names.push(self.namespace.clone());
        }
        names.sort();
        names.dedup();
        let mut selector = |given: &Option<LabelSelector<'_>>| {
            given.as_ref().map(|given| selectors::label_selector(self.decoder, given)).transpose()
        };
        Ok(AffinityTerm {
            selector: selector(&slim.label_selector)?,
            namespaces: NamespaceScope { names, selector: selector(&slim.namespace_selector)? },
            topology_key: self.decoder.text(&slim.topology_key),
        })
    }
}
