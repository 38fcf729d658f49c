//! The hints read the other way: for the plugins that refused a pod, the events that let it be tried again.

use crate::ledger::{Change, DeviceChange, MatchClass, NodeAspects, NodeId, VolumeChange, VolumeNames};
use crate::model::{ClaimKey, HostPort, Plugin, PluginSet, Protocol, Requests, Usage};
use crate::plugins::helped::{claim_matters_to, helped_by};
use std::sync::Arc;

/// Declares the events once, in the order of messages: name, and what happens as half a sentence.
macro_rules! wake_events {
    ($( $(#[doc = $doc:literal])* $event:ident: $text:literal; )*) => {
        /// Something that may happen in a cluster and let an unschedulable pod be tried again.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum WakeEvent { $( $(#[doc = $doc])* $event, )* }

        impl WakeEvent {
            const ALL: [Self; [$(Self::$event,)*].len()] = [$(Self::$event,)*];

            /// What happens, as half a sentence.
            pub const fn text(self) -> &'static str {
                match self { $( Self::$event => $text, )* }
            }
        }
    };
}

wake_events! {
    /// Deleted, finished or evicted.
    PodLeaves: "a pod leaves a node";
    PodWithPortsLeaves: "a pod with host ports leaves a node";
    PodShrunk: "a running pod is resized to less";
    PodPlaced: "a pod is placed or relabelled";
    NominationEnded: "a node nominated for another pod is free again";
    NodeAdded: "a node joins";
    NodeRemoved: "a node goes";
    NodeTaints: "a node loses a taint or is uncordoned";
    NodeAllocatable: "a node's allocatable changes";
    NodeLabels: "a node's labels change";
    NodeDeclared: "a node's declared features or conditions change";
    Namespace: "a namespace appears or is relabelled";
    Workload: "a Service or controller changes";
    Claim: "a claim of the pod appears or changes";
    Volume: "a PersistentVolume appears or changes";
    /// A StorageClass is added, or allows other topologies.
    Class: "a StorageClass appears or changes";
    CsiNode: "a CSINode appears, goes or can attach more";
    Capacity: "a CSIStorageCapacity reports more capacity";
    Detached: "a volume is detached";
    ResourceClaim: "a ResourceClaim of the pod appears or changes";
    DevicesFreed: "a ResourceClaim gives devices back";
    Slice: "a ResourceSlice appears, changes or goes";
    DeviceClass: "a DeviceClass appears or changes";
}

impl WakeEvent {
    /// Changes of the ledger that stand for the event.
    fn samples(self) -> Vec<Change> {
        let node = NodeId::new(0);
        let of_node = |aspects| vec![Change::Node { node, aspects }];
        let volumes = |changes: &[VolumeChange]| changes.iter().cloned().map(Change::Volume).collect();
        match self {
            Self::PodLeaves => vec![Change::Freed { node, usage: Arc::default(), match_class: match_class() }],
            Self::PodWithPortsLeaves => {
                let port = HostPort { protocol: Protocol::Tcp, port: 1, ip: "0.0.0.0".into() };
                let usage = Usage { ports: vec![port], ..Usage::default() };
                vec![Change::Freed { node, usage: Arc::new(usage), match_class: match_class() }]
            }
            Self::PodPlaced => vec![Change::PodPlaced { node, match_class: match_class() }],
            Self::PodShrunk => {
                let requests = Requests { milli_cpu: 1, ..Requests::default() };
                let before = Arc::new(Usage { requests, ..Usage::default() });
                vec![Change::Resized { node, before, after: Arc::default() }]
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
            Self::Claim | Self::ResourceClaim => Vec::new(),
            Self::Volume => {
                let names = VolumeNames::default;
                let relabelled = VolumeChange::VolumeUpdated { names: names(), zones: true };
                volumes(&[VolumeChange::VolumeAdded { names: names() }, relabelled])
            }
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
            Self::DevicesFreed => {
                let key = ClaimKey { namespace: "".into(), name: "".into() };
                let freed = ["".into()].into_iter().collect();
                vec![Change::Device(DeviceChange::Claim { key, freed, of_pod: None })]
            }
            Self::Slice => vec![Change::Device(DeviceChange::Slice { driver: "".into() })],
            Self::DeviceClass => vec![Change::DeviceClass],
        }
    }
}

fn match_class() -> Arc<MatchClass> {
    Arc::new(MatchClass::plain("".into()))
}

/// The events that let a pod that `rejectors` refused be tried again, each on a node that the profile places on. Not every placed or
/// deleted pod does: it is compared with the waiting pod when it moves.
pub fn wake_events(rejectors: PluginSet) -> Vec<WakeEvent> {
    let helps = |event: &WakeEvent| match event {
        WakeEvent::Claim => claim_matters_to(rejectors),
        WakeEvent::ResourceClaim => rejectors.has(Plugin::DynamicResources),
        // Listed only where the ports make the difference.
        WakeEvent::PodWithPortsLeaves => {
            is_helped(WakeEvent::PodWithPortsLeaves, rejectors) && !is_helped(WakeEvent::PodLeaves, rejectors)
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
            Namespace, NodeAdded, NodeAllocatable, NodeLabels, NodeRemoved, NodeTaints, NominationEnded, PodLeaves,
            PodPlaced, PodShrunk, PodWithPortsLeaves,
        };
        let table: [(Plugin, &[WakeEvent]); 6] = [
            (Plugin::NodeUnschedulable, &[NodeAdded, NodeTaints]),
            (Plugin::TaintToleration, &[NodeAdded, NodeTaints]),
            (Plugin::NodeAffinity, &[NodeAdded, NodeTaints, NodeLabels]),
            (Plugin::NodePorts, &[PodWithPortsLeaves, NominationEnded, NodeAdded, NodeTaints]),
            (
                Plugin::NodeResourcesFit,
                &[PodLeaves, PodShrunk, NominationEnded, NodeAdded, NodeTaints, NodeAllocatable],
            ),
            (
                Plugin::InterPodAffinity,
                &[PodLeaves, PodPlaced, NominationEnded, NodeAdded, NodeRemoved, NodeTaints, NodeLabels, Namespace],
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
