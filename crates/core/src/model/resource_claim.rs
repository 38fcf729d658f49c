//! ResourceClaims, and how pods name them.

use super::{ClaimKey, Footprint, Pod, Str};
use berth_devices::model::{AllocationResult, ResourceClaim as ClaimSpec};
use std::sync::Arc;

/// A ResourceClaim, with what scheduling reads of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceClaim {
    pub key: ClaimKey,
    pub uid: Str,
    pub resource_version: Str,
    /// Whether it has a deletionTimestamp: then it keeps its users, and gets no new ones.
    pub deleting: bool,
    /// The uid of the owner that is marked as its controller. A claim that was made for a pod has the pod.
    pub controller: Option<Str>,
    /// Whether it has the finalizer `resource.kubernetes.io/delete-protection`, without which it may not be allocated.
    pub has_finalizer: bool,
    /// Whether it was made for the extended resources of a pod (annotation `resource.kubernetes.io/extended-resource-claim`).
    pub is_extended: bool,
    /// Which devices it wants. It cannot be changed.
    pub spec: Arc<ClaimSpec>,
    /// `status.allocation`.
    pub allocation: Option<Arc<ClaimAllocation>>,
    /// The uids of `status.reservedFor`, sorted.
    pub reserved_for: Vec<Str>,
    /// `status.devices`, as far as they have conditions.
    pub devices: Vec<DeviceStatus>,
}

impl ResourceClaim {
    /// As it is once it is written that it gets `allocation`, if it is not allocated yet, and is reserved for the pod `uid`.
    #[must_use]
    pub fn once_written(&self, allocation: Option<&AllocationResult>, uid: &Str) -> Self {
        let mut claim = self.clone();
        if let Some(result) = allocation.filter(|_| self.allocation.is_none()) {
            claim.allocation = Some(Arc::new(ClaimAllocation { result: result.clone(), allocated_unix_us: None }));
            claim.has_finalizer = true;
        }
        if let Err(at) = claim.reserved_for.binary_search(uid) {
            claim.reserved_for.insert(at, uid.clone());
        }
        claim
    }

    pub fn is_reserved_for(&self, uid: &str) -> bool {
        self.reserved_for.binary_search_by(|own| (**own).cmp(uid)).is_ok()
    }
}

/// What a claim has got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimAllocation {
    pub result: AllocationResult,
    /// `allocationTimestamp` in microseconds of Unix time.
    pub allocated_unix_us: Option<i64>,
}

/// What the driver of an allocated device says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceStatus {
    pub driver: Str,
    pub pool: Str,
    pub device: Str,
    pub conditions: Vec<DeviceCondition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCondition {
    pub kind: Str,
    /// Whether its status is `True`.
    pub is_true: bool,
    pub reason: Str,
    pub message: Str,
}

/// An entry of a pod's `spec.resourceClaims`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodResourceClaim {
    /// The name of the entry.
    pub name: Str,
    pub source: ClaimSource,
}

/// Which claim an entry means.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClaimSource {
    /// `resourceClaimName`.
    Named(Str),
    /// `resourceClaimTemplateName`, and the claim that the pod's status says was made from it.
    Generated(Str),
    /// The pod's status says that none is needed.
    NotNeeded,
    /// The pod's status does not say yet which claim was made from the template.
    NotCreated,
    /// No field that we know says.
    Unset,
}

impl ClaimSource {
    /// The name of the claim, where there is one.
    pub const fn claim(&self) -> Option<&Str> {
        match self {
            Self::Named(name) | Self::Generated(name) => Some(name),
            Self::NotNeeded | Self::NotCreated | Self::Unset => None,
        }
    }
}

/// The entries in the pod's order.
pub type PodResourceClaims = Arc<[PodResourceClaim]>;

impl Footprint for PodResourceClaim {
    fn heap_bytes(&self) -> usize {
        self.name.heap_bytes() + self.source.claim().map_or(0, Str::heap_bytes)
    }
}

/// What is to be written to one claim before a pod that uses it can be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimWrite {
    pub key: ClaimKey,
    pub uid: Str,
    /// That of the object which was judged.
    pub resource_version: Str,
    pub has_finalizer: bool,
    /// What the claim gets; `None` where it is allocated, and the pod is only added to those that it is reserved for.
    pub allocation: Option<Arc<AllocationResult>>,
    /// What it had when it was judged: with other devices the pod may not be able to use it on its node.
    pub judged: Option<Arc<ClaimAllocation>>,
    /// Whether there is anything to write: the claim may be reserved for the pod already.
    pub needed: bool,
    /// What the claim is made from, if there is none yet: then its name is chosen, and its uid unknown.
    pub creates: Option<Arc<ExtendedClaim>>,
}

impl ClaimWrite {
    /// The devices that the claim has once it is written.
    pub fn devices(&self) -> Option<&AllocationResult> {
        let judged = self.judged.as_ref().map(|judged| &judged.result);
        self.allocation.as_deref().or(judged)
    }
}

/// The claim that is made for a pod's extended resources where devices provide them. It depends on the node: what device plugins
/// provide there is not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtendedClaim {
    /// Its requests. The names are those that messages use while there is no claim.
    pub spec: ClaimSpec,
    /// `requestMappings` of the pod's `status.extendedResourceClaimStatus`.
    pub mappings: Vec<RequestMapping>,
}

impl ExtendedClaim {
    /// How the name begins of a claim for this pod: its `generateName`, of at most so many characters.
    pub fn generate_name(pod: &Pod, longest: usize) -> String {
        format!("{}-extended-resources-", pod.key.name).chars().take(longest).collect()
    }
}

/// Which request of the claim provides an extended resource to a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestMapping {
    pub container: Str,
    pub resource: Str,
    pub request: Str,
}

/// The extended resources that one container of a pod requests, as far as a DeviceClass may stand for them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ExtendedRequests {
    /// The container's name.
    pub container: Str,
    /// Its index among the init containers and then the containers of the pod.
    pub index: u32,
    /// Whether it ends before the pod's containers start: an init container that is no sidecar.
    pub is_short_lived: bool,
    /// By resource, sorted: the index of its name among those of all resources that the container requests, and how many pieces.
    pub resources: Vec<(Str, u32, i64)>,
}
