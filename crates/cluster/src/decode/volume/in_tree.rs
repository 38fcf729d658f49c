//! In-tree disks under the handles of the CSI drivers that took them over. After `csi-translation-lib/plugins`.

use super::Decoder;
use crate::slim::AzureDisk;
use berth_core::model::{Attachable, InTreePlugin, Str};

/// The zone label of the CSI driver that took over from `plugin`; `None` where upstream does not translate topology.
pub(super) const fn zone_key(plugin: InTreePlugin) -> Option<&'static str> {
    match plugin {
        InTreePlugin::Ebs => Some("topology.ebs.csi.aws.com/zone"),
        InTreePlugin::GcePd => Some("topology.gke.io/zone"),
        InTreePlugin::Cinder => Some("topology.cinder.csi.openstack.org/zone"),
        _ => None,
    }
}

/// What a disk of `plugin` counts as towards its driver's limit.
pub(super) fn attachable(decoder: &mut Decoder, plugin: InTreePlugin, handle: &str) -> Option<Attachable> {
    plugin.driver().map(|driver| Attachable { driver: decoder.text(driver), handle: handle.into() })
}

/// The handle of a GCE disk named in a pod: neither project nor zone is known.
pub(super) fn gce_inline(name: &str) -> String {
    format!("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{name}")
}

/// The handle of a GCE disk whose volume is in `zones` (separated by two underscores).
pub(super) fn gce_volume(name: &str, zones: &str) -> Result<String, Str> {
    let zones: Vec<&str> = zones.split("__").collect();
    match &zones[..] {
        [] | [""] => Ok(gce_inline(name)),
        [zone] => Ok(format!("projects/UNSPECIFIED/zones/{zone}/disks/{name}")),
        several => {
            let region = gce_region(several).map_err(|e| Str::from(format!("failed to get region from zones: {e}")))?;
            Ok(format!("projects/UNSPECIFIED/regions/{region}/disks/{name}"))
        }
    }
}

fn gce_region(zones: &[&str]) -> Result<String, String> {
    let mut regions: Vec<String> = Vec::new();
    for zone in zones {
        let parts: Vec<&str> = zone.split('-').collect();
        let [place, region, _] = parts[..] else {
            return Err(format!("zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"));
        };
        regions.push(format!("{place}-{region}"));
    }
    regions.sort();
    regions.dedup();
    match &regions[..] {
        [region] => Ok(region.clone()),
        several => {
            // As Go prints a set.
            let set: Vec<String> = several.iter().map(|region| format!("{region}:{{}}")).collect();
            Err(format!("multiple or no regions gotten from zones, got: map[{}]", set.join(" ")))
        }
    }
}

/// The handle of an EBS volume: the id itself, or the end of `aws://zone/vol-…`.
pub(super) fn ebs(id: &str) -> Result<&str, Str> {
    let Some(rest) = id.strip_prefix("aws://") else { return Ok(id) };
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let volume = path.find('/').map_or("", |slash| &path[slash..]).trim_matches('/');
    if volume.starts_with("vol-") && !volume.contains('/') {
        return Ok(volume);
    }
    Err(format!("failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({id})").into())
}

/// The handle of an Azure disk. Only managed disks were taken over; one that names no kind is shared.
pub(super) fn azure_disk<'s>(disk: &'s AzureDisk<'_>) -> Result<&'s str, Str> {
    let kind = if disk.kind.is_empty() { "Shared" } else { &*disk.kind };
    if kind.eq_ignore_ascii_case("Managed") {
        return Ok(&disk.disk_uri);
    }
    Err(format!("kind({kind}) is not supported in csi migration").into())
}
