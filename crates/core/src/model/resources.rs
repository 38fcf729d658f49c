use super::Str;
use smallvec::SmallVec;

/// An amount of each resource: what a pod requests, or what a node offers.
///
/// Amounts are never negative. Scalars are extended resources, huge pages, `kubernetes.io/` resources and attachable
/// volumes, sorted by name; a scalar that is named with amount 0 stays in the list, as upstream keeps its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Requests {
    /// In thousandths of a core.
    pub milli_cpu: i64,
    /// In bytes.
    pub memory: i64,
    /// In bytes.
    pub ephemeral_storage: i64,
    /// Whole units of each scalar resource, sorted by name.
    pub scalars: SmallVec<[(Str, i64); 1]>,
}

impl Requests {
    /// The amount of the resource `name`, 0 if it is not named: thousandths of a core, bytes, pieces.
    pub fn amount(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.milli_cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            scalar => self.scalar(scalar).unwrap_or(0),
        }
    }

    /// The amount of the scalar `name`, if it is named at all.
    pub fn scalar(&self, name: &str) -> Option<i64> {
        self.scalars.binary_search_by(|(n, _)| (**n).cmp(name)).ok().map(|at| self.scalars[at].1)
    }

    /// Sets the scalar `name`, keeping the order by name.
    pub fn set_scalar(&mut self, name: Str, amount: i64) {
        match self.scalars.binary_search_by(|(n, _)| n.cmp(&name)) {
            Ok(i) => self.scalars[i].1 = amount,
            Err(i) => self.scalars.insert(i, (name, amount)),
        }
    }

    /// Whether CPU, memory and ephemeral storage are all 0 and no scalar is named.
    pub fn is_empty(&self) -> bool {
        self.milli_cpu == 0 && self.memory == 0 && self.ephemeral_storage == 0 && self.scalars.is_empty()
    }
}

/// Whether the resource `name` is Kubernetes' own: `IsNativeResource` in `pkg/apis/core/v1/helper/helpers.go`.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether upstream counts the resource `name` as a scalar: extended, huge page, `kubernetes.io/` or attachable volume.
///
/// Other unprefixed names (`storage`, say) count for nothing in scheduling.
/// After `pkg/apis/core/v1/helper/helpers.go` and `pkg/scheduler/util/utils.go`.
pub fn is_scalar_resource(name: &str) -> bool {
    if is_native(name) {
        name.starts_with("hugepages-") || name.contains("kubernetes.io/") || name.starts_with("attachable-volumes-")
    } else {
        !name.starts_with("requests.")
    }
}

/// Before a DeviceClass's name this makes the extended resource that every class stands for.
pub(crate) const OF_DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// Whether a DeviceClass may stand for the resource `name`.
///
/// After `IsDRAExtendedResourceName` in `pkg/scheduler/util/utils.go`.
pub fn is_extended_resource(name: &str) -> bool {
    if is_native(name) { name.starts_with(OF_DEVICE_CLASS) } else { !name.starts_with("requests.") }
}

/// A DeviceClass: which devices it means, and the extended resource that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceClass {
    pub name: Str,
    /// `spec.extendedResourceName`.
    pub extended_resource: Option<Str>,
    /// `metadata.creationTimestamp` in microseconds of Unix time, 0 if absent: of two classes for one resource the younger counts.
    pub created_unix_us: i64,
    pub spec: std::sync::Arc<berth_devices::model::DeviceClass>,
}
