use super::super::selectors::node_test;
use super::Decoder;
use crate::slim::{Expression, Text, TopologyTerm, VolumeNodeAffinity};
use berth_core::model::VolumeAffinity;
use std::borrow::Cow;

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// The terms of a volume's node affinity before they are parsed; `None` where there is no required affinity.
#[derive(Debug, Clone)]
pub(super) struct RawAffinity<'s>(Option<Vec<RawTerm<'s>>>);

#[derive(Debug, Clone, Default)]
struct RawTerm<'s> {
    expressions: Vec<Expression<'s>>,
    /// Whether the term names fields. Fields that parse match every node.
    fields: bool,
    fields_parse: bool,
}

impl<'s> RawAffinity<'s> {
    pub(super) fn read(affinity: Option<&VolumeNodeAffinity<'s>>) -> Self {
        let required = affinity.and_then(|affinity| affinity.required.as_ref());
        let term = |term: &crate::slim::NodeSelectorTerm<'s>| RawTerm {
            expressions: term.match_expressions.clone(),
            fields: !term.match_fields.is_empty(),
            fields_parse: term
                .match_fields
                .iter()
                .all(|field| matches!(&*field.operator, "In" | "NotIn") && field.values.len() == 1),
        };
        Self(required.map(|required| required.node_selector_terms.iter().map(term).collect()))
    }

    pub(super) fn parse(&self, decoder: &mut Decoder) -> Option<VolumeAffinity> {
        let terms = self.0.as_ref()?;
        let parsed = terms.iter().filter(|term| term.fields || !term.expressions.is_empty()).filter_map(|term| {
            let tests = term.expressions.iter().map(|e| node_test(decoder, e)).collect::<Option<_>>()?;
            (term.fields_parse || !term.fields).then_some(tests)
        });
        Some(VolumeAffinity { terms: parsed.collect() })
    }

    /// The affinity with the labels of the CSI driver whose zone label is `zone_key`.
    ///
    /// After `translateTopologyFromInTreeToCSI` in `csi-translation-lib`: zones of the affinity take precedence over those of
    /// the volume's labels; without either, nothing changes.
    pub(super) fn into_csi(mut self, zone_key: &'s str, label: impl Fn(&str) -> Option<&'s str>) -> Self {
        let (zone, region) = self.labels(&label);
        if !self.values(zone).is_empty() {
            self.rename(zone, zone_key);
        } else if let Some(zones) = label(zone) {
            self.add(zone_key, zones.split("__"));
        }
        if region == BETA_REGION && !self.values(region).is_empty() {
            self.rename(region, REGION);
        }
        self
    }

    /// The zone and region labels that this volume uses.
    fn labels(&self, label: impl Fn(&str) -> Option<&'s str>) -> (&'static str, &'static str) {
        let (stable, beta) = ((ZONE, REGION), (BETA_ZONE, BETA_REGION));
        let only_beta = || label(ZONE).is_none() && label(BETA_ZONE).is_some();
        let is_beta = !self.names(ZONE) && (self.names(BETA_ZONE) || only_beta());
        if is_beta { beta } else { stable }
    }

    fn expressions(&self) -> impl Iterator<Item = &Expression<'s>> {
        self.0.iter().flatten().flat_map(|term| &term.expressions)
    }

    fn names(&self, key: &str) -> bool {
        self.expressions().any(|expression| &*expression.key == key)
    }

    fn values(&self, key: &str) -> Vec<&str> {
        self.expressions().filter(|e| &*e.key == key).flat_map(|e| e.values.iter().map(|v| &**v)).collect()
    }

    fn rename(&mut self, from: &str, to: &'s str) {
        let all = self.0.iter_mut().flatten().flat_map(|term| &mut term.expressions);
        all.filter(|expression| &*expression.key == from).for_each(|expression| expression.key = to.into());
    }

    fn add(&mut self, key: &'s str, zones: impl Iterator<Item = &'s str>) {
        let mut zones: Vec<&str> = zones.map(str::trim).filter(|zone| !zone.is_empty()).collect();
        zones.sort_unstable();
        zones.dedup();
        if zones.is_empty() {
            return;
        }
        let terms = self.0.get_or_insert_with(Vec::new);
        if terms.is_empty() {
            terms.push(RawTerm::default());
        }
        let values: Vec<Text<'s>> = zones.into_iter().map(|zone| Text(Cow::Borrowed(zone))).collect();
        for term in terms {
            term.expressions.push(Expression { key: key.into(), operator: "In".into(), values: values.clone() });
        }
    }
}

/// Where volumes of a class can be provisioned; `None` is everywhere.
///
/// After `MatchTopologySelectorTerms` in `pkg/apis/core/v1/helper/helpers.go`.
pub(super) fn allowed(decoder: &mut Decoder, terms: &[TopologyTerm<'_>]) -> Option<VolumeAffinity> {
    if terms.is_empty() {
        return None;
    }
    let tests = |term: &TopologyTerm<'_>| {
        let tests = term.match_label_expressions.iter().map(|e| {
            let expression = Expression { key: e.key.clone(), operator: "In".into(), values: e.values.clone() };
            node_test(decoder, &expression)
        });
        tests.collect::<Option<Vec<_>>>().filter(|tests| !tests.is_empty())
    };
    Some(VolumeAffinity { terms: terms.iter().filter_map(tests).collect() })
}
