/// Declares the events once: name, and upstream's label.
macro_rules! queue_events {
    ($( $(#[doc = $doc:literal])* $event:ident => $label:literal; )*) => {
        /// What brings a pod into a part of the queue, by the labels of `queue_incoming_pods_total`.
        ///
        /// After `pkg/scheduler/framework/events.go` and `ClusterEvent.Label` in `k8s.io/kube-scheduler/framework/types.go`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum QueueEvent {
            /// Anything may have happened, or somebody wants the pod tried.
            #[default]
            ForceActivate,
            $( $(#[doc = $doc])* $event, )*
        }

        impl QueueEvent {
            pub const ALL: &[Self] = &[Self::ForceActivate, $(Self::$event,)*];

            pub const fn label(self) -> &'static str {
                match self { Self::ForceActivate => "ForceActivate", $( Self::$event => $label, )* }
            }
        }
    };
}

queue_events! {
    PodAdd => "UnschedulablePodAdd";
    PodUpdate => "UnschedulablePodUpdate";
    AttemptFailure => "ScheduleAttemptFailure";
    BackoffComplete => "BackoffComplete";
    PopFromBackoff => "PopFromBackoffQ";
    /// The sweep of pods that no event has woken for long.
    UnschedulableTimeout => "UnschedulableTimeout";
    PlacedPodAdd => "AssignedPodAdd";
    PlacedPodLabel => "AssignedPodUpdatePodLabel";
    PlacedPodScaleDown => "AssignedPodUpdatePodScaleDown";
    PlacedPodDelete => "AssignedPodDelete";
    NodeAdd => "NodeAdd";
    NodeDelete => "NodeDelete";
    NodeAllocatable => "NodeUpdateNodeAllocatable";
    NodeLabel => "NodeUpdateNodeLabel";
    NodeTaint => "NodeUpdateNodeTaint";
    /// Features, conditions and annotations are one change of the ledger.
    NodeDeclared => "NodeUpdateNodeDeclaredFeature";
    VolumeAdd => "PersistentVolumeAdd";
    VolumeUpdate => "PersistentVolumeUpdate";
    VolumeDelete => "PersistentVolumeDelete";
    ClaimAdd => "PersistentVolumeClaimAdd";
    ClaimUpdate => "PersistentVolumeClaimUpdate";
    ClaimDelete => "PersistentVolumeClaimDelete";
    ClassAdd => "storage.k8s.io/StorageClassAdd";
    ClassUpdate => "storage.k8s.io/StorageClassUpdate";
    CsiNodeAdd => "storage.k8s.io/CSINodeAdd";
    CsiNodeUpdate => "storage.k8s.io/CSINodeUpdate";
    CsiDriverUpdate => "storage.k8s.io/CSIDriverUpdate";
    CapacityUpdate => "storage.k8s.io/CSIStorageCapacityUpdate";
    ResourceClaimUpdate => "resource.k8s.io/ResourceClaimUpdate";
    ResourceSliceUpdate => "resource.k8s.io/ResourceSliceUpdate";
    DeviceClassUpdate => "resource.k8s.io/DeviceClassUpdate";
    AttachmentDelete => "storage.k8s.io/VolumeAttachmentDelete";
}
