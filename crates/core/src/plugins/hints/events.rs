//! The hints read the other way: for the plugins that refused a pod, the events that let it be tried again.

use super::volumes::claim_matters_to;
use crate::ledger::{Change, MatchClass, NodeAspects, NodeId, VolumeChange};
use crate::model::{HostPort, Labels, PluginSet, Protocol, Requests, Usage};
use crate::plugins::helped_by;
use std::sync::Arc;

/// Something that may happen in a cluster and let an unschedulable pod be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WakeEvent {
    /// Deleted, finished or evicted.
    PodGone,
    PodWithPortsGone,
    /// Or a placed pod is relabelled.
    PodPlaced,
    PodShrunk,
    NominationEnded,
    NodeAdded,
    NodeRemoved,
    /// Or the node is uncordoned.
    NodeTaints,
    NodeAllocatable,
    NodeLabels,
    /// Declared features or conditions.
    NodeDeclared,
    Namespace,
    /// A Service or a controller.
    Workload,
    /// A claim of the pod.
    Claim,
    Volume,
    /// A StorageClass is added, or allows other topologies.
    Class,
    CsiNode,
    /// A CSIStorageCapacity grows.
    Capacity,
    Detached,
}

impl WakeEvent {
    /// Every event, in the order of messages.
    pub const ALL: [Self; 19] = [
        Self::PodGone,
        Self::PodWithPortsGone,
        Self::PodShrunk,
        Self::PodPlaced,
        Self::NominationEnded,
        Self::NodeAdded,
        Self::NodeRemoved,
        Self::NodeTaints,
        Self::NodeAllocatable,
        Self::NodeLabels,
        Self::NodeDeclared,
        Self::Namespace,
        Self::Workload,
        Self::Claim,
        Self::Volume,
        Self::Class,
        Self::CsiNode,
        Self::Capacity,
        Self::Detached,
    ];

    /// What happens, as half a sentence.
    pub const fn text(self) -> &'static str {
        match self {
            Self::PodGone => "a pod leaves a node",
            Self::PodWithPortsGone => "a pod with host ports leaves a node",
            Self::PodPlaced => "a pod is placed or relabelled",
            Self::PodShrunk => "a running pod is resized to less",
            Self::NominationEnded => "a node promised to another pod is free again",
            Self::NodeAdded => "a node joins",
            Self::NodeRemoved => "a node goes",
            Self::NodeTaints => "a node loses a taint or is uncordoned",
            Self::NodeAllocatable => "a node's allocatable changes",
            Self::NodeLabels => "a node's labels change",
            Self::NodeDeclared => "a node's declared features or conditions change",
            Self::Namespace => "a namespace appears or is relabelled",
            Self::Workload => "a Service or controller changes",
            Self::Claim => "a claim of the pod appears or changes",
            Self::Volume => "a PersistentVolume appears or changes",
            Self::Class => "a StorageClass appears or changes",
            Self::CsiNode => "a CSINode appears, goes or can attach more",
            Self::Capacity => "a CSIStorageCapacity tells of more room",
            Self::Detached => "a volume is detached",
        }
    }

    /// Changes of the ledger that stand for the event.
    fn samples(self) -> Vec<Change> {
        let node = NodeId::new(0);
        let of_node = |aspects| vec![Change::Node { node, aspects }];
        let volumes = |changes: &[VolumeChange]| changes.iter().cloned().map(Change::Volume).collect();
        match self {
            Self::PodGone => vec![Change::Freed { node, usage: Arc::default(), match_class: match_class() }],
            Self::PodWithPortsGone => {
                vec![Change::Freed { node, usage: Arc::new(with_port()), match_class: match_class() }]
            }
            Self::PodPlaced => vec![Change::PodPlaced { node, match_class: match_class() }],
            Self::PodShrunk => {
                vec![Change::Resized { node, before: Arc::new(with_cpu()), after: Arc::default() }]
            }
            Self::NominationEnded => vec![Change::NominationEnded { priority: 0 }],
            Self::NodeAdded => of_node(NodeAspects::ADDED),
            Self::NodeRemoved => of_node(NodeAspects::REMOVED),
            Self::NodeTaints => of_node(NodeAspects::TAINTS),
            Self::NodeAllocatable => of_node(NodeAspects::ALLOCATABLE),
            Self::NodeLabels => of_node(NodeAspects::LABELS),
            Self::NodeDeclared => of_node(NodeAspects::DECLARED),
            Self::Namespace => vec![Change::Namespace { name: "".into() }],
            Self::Workload => vec![Change::Workload],
            Self::Claim => Vec::new(),
            Self::Volume => volumes(&[VolumeChange::VolumeAdded, VolumeChange::VolumeUpdated { zones: true }]),
            Self::Class => {
                volumes(&[VolumeChange::ClassAdded { waits: true }, VolumeChange::ClassUpdated { topologies: true }])
            }
            Self::CsiNode => volumes(&[
                VolumeChange::CsiNodeAdded,
                VolumeChange::CsiNodeDeleted,
                VolumeChange::CsiNodeUpdated { raised: true, migrated: false },
            ]),
            Self::Capacity => volumes(&[VolumeChange::CapacityGrew]),
            Self::Detached => volumes(&[VolumeChange::Detached]),
        }
    }
}

fn match_class() -> Arc<MatchClass> {
    Arc::new(MatchClass {
        namespace: "".into(),
        labels: Labels::none(),
        terminating: false,
        affinity: Vec::new(),
        anti_affinity: Vec::new(),
        preferred: Vec::new(),
    })
}

fn with_port() -> Usage {
    let port = HostPort { protocol: Protocol::Tcp, port: 1, ip: "0.0.0.0".into() };
    Usage { ports: vec![port], ..Usage::default() }
}

fn with_cpu() -> Usage {
    Usage { requests: Requests { milli_cpu: 1, ..Requests::default() }, ..Usage::default() }
}

/// The events that let a pod that `rejectors` refused be tried again, each on a node that the profile places on. Not every placed or
/// deleted pod does: it is compared with the waiting pod when it moves.
pub fn wake_events(rejectors: PluginSet) -> Vec<WakeEvent> {
    let helps = |event: &WakeEvent| match event {
        WakeEvent::Claim => claim_matters_to(rejectors),
        // Listed only where the ports make the difference.
        WakeEvent::PodWithPortsGone => {
            is_helped(WakeEvent::PodWithPortsGone, rejectors) && !is_helped(WakeEvent::PodGone, rejectors)
        }
        event => is_helped(*event, rejectors),
    };
    WakeEvent::ALL.into_iter().filter(helps).collect()
}

fn is_helped(event: WakeEvent, rejectors: PluginSet) -> bool {
    event.samples().iter().any(|change| rejectors.iter().any(|plugin| helped_by(change, true).has(plugin)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Plugin;

    fn events(plugin: Plugin) -> Vec<WakeEvent> {
        wake_events(PluginSet::of(plugin))
    }

    #[test]
    fn each_plugin_is_woken_by_what_its_hints_say() {
        use WakeEvent::{
            Namespace, NodeAdded, NodeAllocatable, NodeLabels, NodeRemoved, NodeTaints, NominationEnded, PodGone,
            PodPlaced, PodShrunk, PodWithPortsGone,
        };
        let table: [(Plugin, &[WakeEvent]); 6] = [
            (Plugin::NodeUnschedulable, &[NodeAdded, NodeTaints]),
            (Plugin::TaintToleration, &[NodeAdded, NodeTaints]),
            (Plugin::NodeAffinity, &[NodeAdded, NodeTaints, NodeLabels]),
            (Plugin::NodePorts, &[PodWithPortsGone, NominationEnded, NodeAdded, NodeTaints]),
            (Plugin::NodeResourcesFit, &[PodGone, PodShrunk, NominationEnded, NodeAdded, NodeTaints, NodeAllocatable]),
            (
                Plugin::InterPodAffinity,
                &[PodGone, PodPlaced, NominationEnded, NodeAdded, NodeRemoved, NodeTaints, NodeLabels, Namespace],
            ),
        ];
        for (plugin, want) in table {
            assert_eq!(events(plugin), want, "{}", plugin.name());
        }
    }

    #[test]
    fn whoever_refuses_something_wakes_its_pods() {
        for plugin in Plugin::ALL {
            assert!(!events(plugin).is_empty(), "{}", plugin.name());
        }
    }

    #[test]
    fn only_plugins_of_volumes_are_woken_by_claims() {
        for plugin in Plugin::ALL {
            let volumes =
                [Plugin::VolumeRestrictions, Plugin::NodeVolumeLimits, Plugin::VolumeBinding, Plugin::VolumeZone];
            assert_eq!(events(plugin).contains(&WakeEvent::Claim), volumes.contains(&plugin), "{}", plugin.name());
        }
    }
}
