//! The kinds that the model API server has.

/// Where a kind is, and what it is called.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) name: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) namespaced: bool,
}

macro_rules! kinds {
    ($($index:ident: $group:literal $version:literal $name:literal $plural:literal $namespaced:literal;)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum Of { $($index),+ }

        pub(crate) static KINDS: &[Kind] = &[$(Kind {
            group: $group,
            version: $version,
            name: $name,
            plural: $plural,
            namespaced: $namespaced,
        }),+];

        impl Of {
            pub(crate) const ALL: &[Self] = &[$(Self::$index),+];
        }
    };
}

kinds! {
    Pods: "" "v1" "Pod" "pods" true;
    Nodes: "" "v1" "Node" "nodes" false;
    Namespaces: "" "v1" "Namespace" "namespaces" false;
    Services: "" "v1" "Service" "services" true;
    ReplicationControllers: "" "v1" "ReplicationController" "replicationcontrollers" true;
    ReplicaSets: "apps" "v1" "ReplicaSet" "replicasets" true;
    StatefulSets: "apps" "v1" "StatefulSet" "statefulsets" true;
    Volumes: "" "v1" "PersistentVolume" "persistentvolumes" false;
    Claims: "" "v1" "PersistentVolumeClaim" "persistentvolumeclaims" true;
    StorageClasses: "storage.k8s.io" "v1" "StorageClass" "storageclasses" false;
    CsiNodes: "storage.k8s.io" "v1" "CSINode" "csinodes" false;
    CsiDrivers: "storage.k8s.io" "v1" "CSIDriver" "csidrivers" false;
    Capacities: "storage.k8s.io" "v1" "CSIStorageCapacity" "csistoragecapacities" true;
    Attachments: "storage.k8s.io" "v1" "VolumeAttachment" "volumeattachments" false;
    Budgets: "policy" "v1" "PodDisruptionBudget" "poddisruptionbudgets" true;
    Leases: "coordination.k8s.io" "v1" "Lease" "leases" true;
    Events: "events.k8s.io" "v1" "Event" "events" true;
    Revisions: "apps" "v1" "ControllerRevision" "controllerrevisions" true;
    Profiles: "scheduling.berth.dev" "v1alpha1" "SchedulerProfile" "schedulerprofiles" false;
    Slices: "discovery.k8s.io" "v1" "EndpointSlice" "endpointslices" true;
    DeviceClasses: "resource.k8s.io" "v1" "DeviceClass" "deviceclasses" false;
    DeviceSlices: "resource.k8s.io" "v1" "ResourceSlice" "resourceslices" false;
    DeviceClaims: "resource.k8s.io" "v1" "ResourceClaim" "resourceclaims" true;
}

impl Of {
    pub(crate) fn kind(self) -> &'static Kind {
        &KINDS[self as usize]
    }

    /// The kind of a collection in a path.
    pub(crate) fn find(group: &str, plural: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|of| of.kind().plural == plural && of.kind().group == group)
    }
}

impl Kind {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The plural with its group, as messages name it.
    pub(crate) fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}
