use super::{Decoder, in_tree, or};
use crate::slim::{PodSpec, Volume};
use berth_core::model::{Attachable, InTreePlugin, InlineDisk, PodVolume, PodVolumes, Str};
use std::sync::Arc;

/// The volumes of a pod that a plugin reads.
pub(in crate::decode) fn pod_volumes(decoder: &mut Decoder, spec: &PodSpec<'_>) -> Option<Arc<PodVolumes>> {
    let volumes: Vec<PodVolume> = spec.volumes.iter().filter_map(|volume| read(decoder, volume)).collect();
    (!volumes.is_empty()).then(|| Arc::new(PodVolumes::from(volumes)))
}

fn read(decoder: &mut Decoder, slim: &Volume<'_>) -> Option<PodVolume> {
    if let Some(source) = &slim.persistent_volume_claim {
        return Some(PodVolume::Claim { claim: (&*source.claim_name).into() });
    }
    if slim.ephemeral.is_some() {
        return Some(PodVolume::Ephemeral { volume: decoder.text(&slim.name) });
    }
    if let Some(csi) = &slim.csi {
        return Some(PodVolume::Csi { driver: decoder.text(&csi.driver) });
    }
    let (disk, counts) = disk(decoder, slim)?;
    Some(PodVolume::Disk { volume: decoder.text(&slim.name), disk, counts })
}

type Counts = Result<Option<Attachable>, Str>;

fn disk(decoder: &mut Decoder, slim: &Volume<'_>) -> Option<(InlineDisk, Counts)> {
    let mut counts = |plugin: InTreePlugin, handle: Result<&str, Str>| -> Counts {
        handle.map(|handle| in_tree::attachable(decoder, plugin, handle))
    };
    if let Some(gce) = &slim.gce_persistent_disk {
        let counts = counts(InTreePlugin::GcePd, Ok(&in_tree::gce_inline(&gce.pd_name)));
        return Some((InlineDisk::GcePd { name: (&*gce.pd_name).into(), read_only: gce.read_only }, counts));
    }
    if let Some(ebs) = &slim.aws_elastic_block_store {
        let counts = counts(InTreePlugin::Ebs, in_tree::ebs(&ebs.volume_id));
        return Some((InlineDisk::Ebs { id: (&*ebs.volume_id).into() }, counts));
    }
    if let Some(azure) = &slim.azure_disk {
        let counts = counts(InTreePlugin::AzureDisk, in_tree::azure_disk(azure));
        let disk = InlineDisk::AzureDisk { name: (&*azure.disk_name).into(), uri: (&*azure.disk_uri).into() };
        return Some((disk, counts));
    }
    if let Some(cinder) = &slim.cinder {
        let counts = counts(InTreePlugin::Cinder, Ok(&cinder.volume_id));
        return Some((InlineDisk::Cinder { id: (&*cinder.volume_id).into() }, counts));
    }
    if let Some(portworx) = &slim.portworx_volume {
        let counts = counts(InTreePlugin::Portworx, Ok(&portworx.volume_id));
        return Some((InlineDisk::Portworx { id: (&*portworx.volume_id).into() }, counts));
    }
    let uncounted = if let Some(iscsi) = &slim.iscsi {
        InlineDisk::Iscsi { iqn: (&*iscsi.iqn).into(), read_only: iscsi.read_only }
    } else if let Some(rbd) = &slim.rbd {
        InlineDisk::Rbd {
            monitors: decoder.texts(&rbd.monitors),
            pool: decoder.text(or(&rbd.pool, "rbd")),
            image: (&*rbd.image).into(),
            read_only: rbd.read_only,
        }
    } else if slim.azure_file.is_some() {
        InlineDisk::AzureFile
    } else if slim.vsphere_volume.is_some() {
        InlineDisk::Vsphere
    } else {
        return None;
    };
    Some((uncounted, Ok(None)))
}
