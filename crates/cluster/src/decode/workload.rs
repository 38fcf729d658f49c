use super::{DecodeError, Decoder, decode, selectors};
use crate::slim::{
    LabelSelector as SlimLabelSelector, SelectorSpec, Slim, SlimBudget, SlimMeta, SlimReplicaSet,
    SlimReplicationController, SlimService, SlimStatefulSet,
};
use berth_core::model::{LabelSelector, PodDisruptionBudget, Service, Str, Workload, WorkloadKind};
use serde::de::IgnoredAny;

impl Decoder {
    pub fn service(&mut self, slim: &SlimService<'_>) -> Result<Service, DecodeError> {
        decode("service", slim, |parts| {
            let (namespace, name) = self.names(&slim.metadata);
            Ok(Service { namespace, name, selector: parts.spec.selector.as_ref().map(|s| self.labels(s)) })
        })
    }

    pub fn replication_controller(&mut self, slim: &SlimReplicationController<'_>) -> Result<Workload, DecodeError> {
        decode("replicationcontroller", slim, |parts| {
            let (namespace, name) = self.names(&slim.metadata);
            let labels = parts.spec.selector.as_ref().map(|s| self.labels(s));
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
            Ok(Workload { kind, namespace, name, selector: self.selector(parts.spec.selector.as_ref()) })
        })
    }

    pub fn budget(&mut self, slim: &SlimBudget<'_>) -> Result<PodDisruptionBudget, DecodeError> {
        decode("poddisruptionbudget", slim, |parts| {
            let (namespace, name) = self.names(&slim.metadata);
            let disrupted = parts.status.disrupted_pods.iter();
            let mut disrupted_pods: Vec<Str> = disrupted.map(|(name, _)| (&**name).into()).collect();
            disrupted_pods.sort();
            Ok(PodDisruptionBudget {
                namespace,
                name,
                selector: self.selector(parts.spec.selector.as_ref()),
                disruptions_allowed: parts.status.disruptions_allowed,
                disrupted_pods,
            })
        })
    }

    /// One that does not parse selects nothing, as upstream.
    fn selector(&mut self, slim: Option<&SlimLabelSelector<'_>>) -> Option<LabelSelector> {
        slim.and_then(|slim| selectors::label_selector(self, slim).ok())
    }

    fn names(&mut self, metadata: &SlimMeta<'_>) -> (Str, Str) {
        (self.namespace_of(metadata), self.text(&metadata.name))
    }
}
