use super::{configuration, each, under};
use crate::decode::{DecodeError, Decoder, bad, decode};
use crate::slim::{
    CapacityRequirements, DeviceConstraint as SlimConstraint, DeviceRequest as SlimRequest, DeviceRequestDetails,
    EXTENDED_CLAIM, FieldError, ResourceClaimSpec, SlimMeta, SlimResourceClaim,
};
use berth_cel::QualifiedName;
use berth_core::limits::CAPACITIES_PER_DEVICE_REQUEST;
use berth_core::model::{ClaimKey, Quantity, ResourceClaim, Str};
use berth_devices::model::{
    AllocationMode, Attributes, ClaimConfiguration, DeviceConstraint, DeviceRequest, Request, RequestDetails,
    ResourceClaim as ClaimSpec, SubRequest,
};
use std::sync::Arc;

impl Decoder {
    /// An allocated claim is read even if what it wants does not decode: otherwise its devices would be given to others.
    pub fn resource_claim(&mut self, slim: &SlimResourceClaim<'_>) -> Result<ResourceClaim, DecodeError> {
        decode("resourceclaim", slim, |parts| {
            let (metadata, status) = (&slim.metadata, &parts.status);
            let key = ClaimKey { namespace: self.namespace_of(metadata), name: (&*metadata.name).into() };
            let allocation = status.allocation.as_ref().map(|allocation| self.allocation(allocation)).transpose()?;
            let unread = ClaimSpec { namespace: key.namespace.clone(), name: key.name.clone(), ..ClaimSpec::default() };
            let mut spec = match self.claim_spec(&parts.spec, &unread) {
                Err(_) if allocation.is_some() => unread,
                spec => spec?,
            };
            spec.unknown_fields = self.unknown_fields(&slim.unknown);
            let mut reserved_for: Vec<Str> = status.reserved_for.iter().map(|user| (&*user.uid).into()).collect();
            reserved_for.sort();
            Ok(ResourceClaim {
                key,
                uid: (&*metadata.uid).into(),
                resource_version: (&*metadata.resource_version).into(),
                deleting: !metadata.deletion_timestamp.is_absent(),
                controller: controller(metadata),
                has_finalizer: metadata.finalizers.delete_protection,
                is_extended: metadata.annotations.get(EXTENDED_CLAIM) == Some("true"),
                spec: Arc::new(spec),
                allocation: allocation.map(Arc::new),
                reserved_for,
                devices: self.device_statuses(&status.devices),
            })
        })
    }

    fn claim_spec(&mut self, slim: &ResourceClaimSpec<'_>, names: &ClaimSpec) -> Result<ClaimSpec, FieldError> {
        let devices = &slim.devices;
        Ok(ClaimSpec {
            namespace: names.namespace.clone(),
            name: names.name.clone(),
            requests: each(&devices.requests, "spec.devices.requests", |request| self.device_request(request))?,
            constraints: devices.constraints.iter().map(|constraint| self.device_constraint(constraint)).collect(),
            config: each(&devices.config, "spec.devices.config", |entry| {
                Ok(ClaimConfiguration { requests: self.texts(&entry.requests), configuration: configuration(entry)? })
            })?,
            unknown_fields: Vec::new(),
        })
    }

    fn device_request(&mut self, slim: &SlimRequest<'_>) -> Result<DeviceRequest, FieldError> {
        let request = match &slim.exactly {
            Some(exactly) => Request::Exactly {
                details: self.request_details(exactly).map_err(|error| under("exactly", error))?,
                admin_access: exactly.admin_access,
            },
            None => Request::FirstAvailable(each(&slim.first_available, "firstAvailable", |sub| {
                Ok(SubRequest { name: self.text(&sub.name), details: self.request_details(sub)? })
            })?),
        };
        Ok(DeviceRequest { name: self.text(&slim.name), request })
    }

    /// With the defaults that an API server sets, for manifests.
    fn request_details(&mut self, slim: &DeviceRequestDetails<'_>) -> Result<RequestDetails, FieldError> {
        let allocation_mode = match &*slim.allocation_mode {
            "" | "ExactCount" => AllocationMode::ExactCount,
            "All" => AllocationMode::All,
            other => AllocationMode::Other(self.text(other)),
        };
        let is_unset = slim.count == 0 && allocation_mode == AllocationMode::ExactCount;
        Ok(RequestDetails {
            device_class_name: self.text(&slim.device_class_name),
            selectors: self.device_selectors(&slim.selectors),
            allocation_mode,
            count: if is_unset { 1 } else { slim.count },
            tolerations: self.device_tolerations(&slim.tolerations),
            capacity: self.capacity_requests(&slim.capacity)?,
        })
    }

    fn capacity_requests(
        &mut self,
        slim: &CapacityRequirements<'_>,
    ) -> Result<Vec<(QualifiedName, Quantity)>, FieldError> {
        let count = slim.requests.len();
        if count > CAPACITIES_PER_DEVICE_REQUEST {
            let message = format!(
                "{count} capacities, at most {CAPACITIES_PER_DEVICE_REQUEST} are read, so that no object takes up the memory of all; no \
                 device has more: ask for those alone that the devices have"
            );
            return Err(bad("capacity.requests", message));
        }
        self.amounts(&slim.requests, "capacity.requests")
    }

    fn device_constraint(&mut self, slim: &SlimConstraint<'_>) -> DeviceConstraint {
        let attributes = match (&slim.match_attribute, &slim.distinct_attribute) {
            (Some(name), _) => Attributes::Match(self.qualified_name(name)),
            (None, Some(name)) => Attributes::Distinct(self.qualified_name(name)),
            (None, None) => Attributes::Unknown,
        };
        DeviceConstraint { requests: self.texts(&slim.requests), attributes }
    }
}

/// The uid of the owner reference that is marked as the controller.
fn controller(metadata: &SlimMeta<'_>) -> Option<Str> {
    metadata.owner_references.iter().find(|owner| owner.controller).map(|owner| (&*owner.uid).into())
}
