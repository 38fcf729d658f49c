use super::{DecodeError, Decoder, bad, decode, selectors};
use crate::slim::{
    BudgetStatus, FieldError, Pairs, SelectorSpec, Slim, SlimBudget, SlimMeta, SlimReplicaSet,
    SlimReplicationController, SlimService, SlimStatefulSet, Text,
};
use berth_core::limits::DISRUPTED_PODS;
use berth_core::model::{LabelSelector, Labels, PodDisruptionBudget, Service, Str, Workload, WorkloadKind};
use serde::de::IgnoredAny;

const SELECTOR: &str = "spec.selector";

impl Decoder {
    pub fn service(&mut self, slim: &SlimService<'_>) -> Result<Service, DecodeError> {
        decode("service", slim, |parts| {
            let (namespace, name) = self.names(&slim.metadata);
            Ok(Service { namespace, name, selector: self.plain_selector(parts.spec.selector.as_ref())? })
        })
    }

    pub fn replication_controller(&mut self, slim: &SlimReplicationController<'_>) -> Result<Workload, DecodeError> {
        decode("replicationcontroller", slim, |parts| {
            let (namespace, name) = self.names(&slim.metadata);
            let labels = self.plain_selector(parts.spec.selector.as_ref())?;
            let selector = labels.as_ref().map(LabelSelector::from);
            Ok(Workload { kind: WorkloadKind::ReplicationController, namespace, name, selector })
        })
    }

    pub fn replica_set(&mut self, slim: &SlimReplicaSet<'_>) -> Result<Workload, DecodeError> {
        self.set("replicaset", WorkloadKind::ReplicaSet, slim)
    }

    pub fn stateful_set(&mut self, slim: &SlimStatefulSet<'_>) -> Result<Workload, DecodeError> {
        self.set("statefulset", WorkloadKind::StatefulSet, slim)
    }

    fn set(
        &mut self,
        name: &'static str,
        kind: WorkloadKind,
        slim: &Slim<'_, SelectorSpec<'_>, IgnoredAny>,
    ) -> Result<Workload, DecodeError> {
        decode(name, slim, |parts| {
            let (namespace, name) = self.names(&slim.metadata);
            let selector = selectors::of_object(self, parts.spec.selector.as_ref(), SELECTOR)?;
            Ok(Workload { kind, namespace, name, selector })
        })
    }

    pub fn budget(&mut self, slim: &SlimBudget<'_>) -> Result<PodDisruptionBudget, DecodeError> {
        decode("poddisruptionbudget", slim, |parts| {
            let (namespace, name) = self.names(&slim.metadata);
            Ok(PodDisruptionBudget {
                namespace,
                name,
                selector: selectors::of_object(self, parts.spec.selector.as_ref(), SELECTOR)?,
                disruptions_allowed: parts.status.disruptions_allowed,
                disrupted_pods: disrupted_pods(&parts.status)?,
            })
        })
    }

    /// The labels that a Service or ReplicationController selects by.
    fn plain_selector(&mut self, slim: Option<&Pairs<'_, Text<'_>>>) -> Result<Option<Labels>, FieldError> {
        selectors::check_size(SELECTOR, slim.map_or(0, |pairs| pairs.len()))?;
        Ok(slim.map(|pairs| self.labels(pairs)))
    }

    fn names(&mut self, metadata: &SlimMeta<'_>) -> (Str, Str) {
        (self.namespace_of(metadata), self.text(&metadata.name))
    }
}

/// The names of the pods whose evictions the budget has counted, sorted.
fn disrupted_pods(status: &BudgetStatus<'_>) -> Result<Vec<Str>, FieldError> {
    let count = status.disrupted_pods.len();
    if count > DISRUPTED_PODS {
        let message = format!(
            "{count} pods, at most {DISRUPTED_PODS} are read, so that no object takes up the memory of all: the disruption \
             controller, which removes pods that are gone, may not be running"
        );
        return Err(bad("status.disruptedPods", message));
    }
    let mut pods: Vec<Str> = status.disrupted_pods.iter().map(|(name, _)| (&**name).into()).collect();
    pods.sort();
    Ok(pods)
}

#[cfg(test)]
mod tests {
    use crate::decode::{DecodeError, Decoder, pool};
    use crate::slim::{
        SlimBudget, SlimCsiStorageCapacity, SlimReplicaSet, SlimReplicationController, SlimService, SlimStatefulSet,
    };
    use berth_core::limits::{DISRUPTED_PODS, SELECTOR_VALUES};
    use serde_json::{Map, Value, json};

    /// The keys and values that are kept of an object's selector.
    type Kept = Result<usize, DecodeError>;

    /// A label selector of so many keys and values.
    fn selector(values: usize) -> Value {
        let listed: Vec<String> = (0..values - 3).map(|i| format!("v{i}")).collect();
        let absent = json!({"key": "b", "operator": "NotIn", "values": listed});
        json!({"matchLabels": {"a": "v"}, "matchExpressions": [{"key": "c", "operator": "Exists"}, absent]})
    }

    fn labels(count: usize) -> Value {
        (0..count).map(|i| (format!("v{i}"), "v".into())).collect::<Map<_, _>>().into()
    }

    fn object(selector: Value) -> Vec<u8> {
        json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"selector": &selector}, "nodeTopology": &selector})
            .to_string()
            .into_bytes()
    }

    fn kept(selector: Option<&berth_core::model::LabelSelector>) -> usize {
        let requirements = &selector.expect("one that parses").requirements;
        requirements
            .iter()
            .map(|requirement| if requirement.key.starts_with('b') { 1 + requirement.values.len() } else { 1 })
            .sum()
    }

    #[test]
    fn objects_whose_selectors_list_too_much_are_refused_before_anything_is_copied() {
        type Case = (&'static str, fn(usize) -> Value, fn(&mut Decoder, &[u8]) -> Kept);
        let cases: [Case; 6] = [
            ("service n/a: spec.selector", labels, |decoder, bytes| {
                decoder.service(&SlimService::read(bytes)).map(|o| o.selector.expect("given").len())
            }),
            ("replicationcontroller n/a: spec.selector", labels, |decoder, bytes| {
                decoder
                    .replication_controller(&SlimReplicationController::read(bytes))
                    .map(|o| kept(o.selector.as_ref()))
            }),
            ("replicaset n/a: spec.selector", selector, |decoder, bytes| {
                decoder.replica_set(&SlimReplicaSet::read(bytes)).map(|o| kept(o.selector.as_ref()))
            }),
            ("statefulset n/a: spec.selector", selector, |decoder, bytes| {
                decoder.stateful_set(&SlimStatefulSet::read(bytes)).map(|o| kept(o.selector.as_ref()))
            }),
            ("poddisruptionbudget n/a: spec.selector", selector, |decoder, bytes| {
                decoder.budget(&SlimBudget::read(bytes)).map(|o| kept(o.selector.as_ref()))
            }),
            ("csistoragecapacity n/a: nodeTopology", selector, |decoder, bytes| {
                decoder.csi_capacity(&SlimCsiStorageCapacity::read(bytes)).map(|o| kept(o.nodes.as_ref()))
            }),
        ];
        for (object_and_field, of, read) in cases {
            let mut decoder = Decoder::plain();
            assert_eq!(read(&mut decoder, &object(of(SELECTOR_VALUES))), Ok(SELECTOR_VALUES), "{object_and_field}");
            let mut decoder = Decoder::plain();
            let error = read(&mut decoder, &object(of(SELECTOR_VALUES + 1))).expect_err("beyond the limit").to_string();
            assert!(error.starts_with(&format!("{object_and_field}: 4097 keys and values, at most 4096")), "{error}");
            let copied = |text: &str| decoder.texts.find(pool::hash([text]), |known| **known == *text).is_some();
            assert!(!copied("v0") && !copied("v"), "{object_and_field}");
        }
    }

    #[test]
    fn a_budget_that_lists_more_disrupted_pods_than_an_api_server_would_is_refused() {
        let read = |count: usize| {
            let pods: Map<String, Value> =
                (0..count).map(|i| (format!("p{i}"), "2026-01-01T00:00:00Z".into())).collect();
            let object = json!({"metadata": {"name": "a", "namespace": "n"}, "status": {"disruptedPods": pods}});
            Decoder::small().budget(&SlimBudget::read(object.to_string().as_bytes()))
        };
        assert_eq!(read(DISRUPTED_PODS).expect("within the limit").disrupted_pods.len(), DISRUPTED_PODS);
        let error = read(DISRUPTED_PODS + 1).expect_err("beyond the limit").to_string();
        assert!(error.starts_with("poddisruptionbudget n/a: status.disruptedPods: 4097 pods, at most 4096"), "{error}");
    }
}
