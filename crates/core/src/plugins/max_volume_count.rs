//! MaxEBSVolumeCount, MaxGCEPDVolumeCount, MaxAzureDiskVolumeCount and MaxCinderVolumeCount of the Policy era: a node takes
//! so many in-tree disks of a kind. After `pkg/scheduler/algorithm/predicates` of 1.12; `KUBE_MAX_PD_VOLS` is ignored.

use super::context::{Cause, Overlay, Plugin, PluginContext, Verdict};
use super::volumes::volumes_there;
use crate::ledger::NodeId;
use crate::limits::COMPARISONS_PER_WORK;
use crate::model::{
    ClaimKey, InTreePlugin, InlineDisk, Labels, Pod, PodKey, PodVolume, PodVolumes, Str, VolumeSource, steps,
};
use crate::profile::{CompiledProfile, LegacyArgs};
use smallvec::SmallVec;

/// A look-up of a claim and its volume, in comparisons.
const LOOK_UP: usize = 4;

#[derive(Debug, Clone, Copy)]
struct Kind {
    filter: Plugin,
    cause: Cause,
    plugin: InTreePlugin,
    /// The resource with which a node declares its own limit.
    resource: &'static str,
}

impl Kind {
    const fn new(filter: Plugin, cause: Cause, plugin: InTreePlugin, resource: &'static str) -> Self {
        Self { filter, cause, plugin, resource }
    }
}

const KINDS: [Kind; 4] = [
    Kind::new(Plugin::MaxEBSVolumeCount, Cause::EbsCount, InTreePlugin::Ebs, "attachable-volumes-aws-ebs"),
    Kind::new(Plugin::MaxGCEPDVolumeCount, Cause::GcePdCount, InTreePlugin::GcePd, "attachable-volumes-gce-pd"),
    Kind::new(
        Plugin::MaxAzureDiskVolumeCount,
        Cause::AzureDiskCount,
        InTreePlugin::AzureDisk,
        "attachable-volumes-azure-disk",
    ),
    Kind::new(Plugin::MaxCinderVolumeCount, Cause::CinderCount, InTreePlugin::Cinder, "attachable-volumes-cinder"),
];

/// The limit of EBS volumes on instances of the Nitro generation, where the profile does not set one.
const NITRO_EBS: i64 = 25;

/// The pod's disks by filter; filters without any are left out.
#[derive(Debug)]
pub(crate) struct State(SmallVec<[(Kind, Vec<Str>); 1]>);

impl State {
    /// `None` where no such filter runs or the pod has no such disk.
    pub(crate) fn prepare(cx: PluginContext<'_>, pod: &Pod) -> Option<Self> {
        let volumes = pod.volumes.as_ref().filter(|_| cx.profile.filters.has_legacy())?;
        let of_kind = |kind: Kind| (kind, disks(cx, kind.plugin, &pod.key, volumes));
        let kinds = KINDS.into_iter().filter(|kind| cx.profile.filters.has(kind.filter)).map(of_kind);
        let state = Self(kinds.filter(|(_, disks)| !disks.is_empty()).collect());
        (!state.0.is_empty()).then_some(state)
    }

    /// What [`Self::filter`] takes, in units of [`Work`](super::context::Work): each volume there is looked up, and sorted in, for
    /// each kind.
    pub(crate) fn cost_on(&self, cx: PluginContext<'_>, node: NodeId, overlay: &Overlay) -> usize {
        let there = volumes_there(cx, node, overlay);
        let of_kind = |new: &[Str]| there * (LOOK_UP + steps(there)) + new.len() * steps(there);
        self.0.iter().map(|(_, new)| of_kind(new)).sum::<usize>() / COMPARISONS_PER_WORK
    }

    pub(crate) fn filter(&self, cx: PluginContext<'_>, node: NodeId, overlay: &Overlay) -> Verdict {
        for (kind, new) in &self.0 {
            let mut there: Vec<Str> = Vec::new();
            let placed = cx.ledger.volumes().placed_on(node).iter();
            for placed in placed.filter(|placed| !overlay.has_removed(&placed.uid)) {
                there.extend(disks(cx, kind.plugin, &placed.pod, &placed.volumes));
            }
            for (pod, volumes) in overlay.mounts_added() {
                there.extend(disks(cx, kind.plugin, pod, volumes));
            }
            there.sort_unstable();
            there.dedup();
            let more = new.iter().filter(|disk| there.binary_search(disk).is_err()).count();
            if (there.len() + more) as i64 > limit(cx, *kind, node) {
                return Verdict::unschedulable(kind.cause);
            }
        }
        Verdict::FITS
    }
}

/// The most disks of a kind on the node: what the node declares, or else what the profile says.
fn limit(cx: PluginContext<'_>, kind: Kind, node: NodeId) -> i64 {
    let nodes = cx.ledger.nodes();
    let own = nodes.scalar(kind.resource).map_or(0, |scalar| nodes.scalar_allocatable(scalar, node));
    if own > 0 { own } else { limit_of_profile(cx.profile, kind, nodes.labels(node)) }
}

fn limit_of_profile(profile: &CompiledProfile, kind: Kind, labels: &Labels) -> i64 {
    let legacy = &profile.legacy;
    let limit = match kind.plugin {
        InTreePlugin::Ebs if legacy.max_ebs == LegacyArgs::default().max_ebs && is_nitro(labels) => return NITRO_EBS,
        InTreePlugin::Ebs => legacy.max_ebs,
        InTreePlugin::GcePd => legacy.max_gce_pd,
        InTreePlugin::AzureDisk => legacy.max_azure_disk,
        _ => legacy.max_cinder,
    };
    i64::from(limit)
}

/// By the pattern of 1.12, which is not anchored: `^[cmr]5.*|t3|z1d`.
fn is_nitro(labels: &Labels) -> bool {
    let label = |key| labels.get(key);
    let kind = label("node.kubernetes.io/instance-type").or_else(|| label("beta.kubernetes.io/instance-type"));
    kind.is_some_and(|kind| {
        ["c5", "m5", "r5"].iter().any(|family| kind.starts_with(family)) || kind.contains("t3") || kind.contains("z1d")
    })
}

/// The disks of a plugin that a pod mounts, each once. A claim that does not exist is ignored; a claim without a volume counts as a
/// disk if the provisioner of its class is this plugin.
fn disks(cx: PluginContext<'_>, plugin: InTreePlugin, pod: &PodKey, volumes: &PodVolumes) -> Vec<Str> {
    let mut disks: Vec<Str> = volumes
        .iter()
        .filter_map(|volume| {
            if let PodVolume::Disk { disk, .. } = volume {
                return inline(disk, plugin);
            }
            let (name, _) = volume.claim(&pod.name)?;
            claimed(cx, &ClaimKey { namespace: pod.namespace.clone(), name }, plugin)
        })
        .collect();
    disks.sort_unstable();
    disks.dedup();
    disks
}

fn inline(disk: &InlineDisk, plugin: InTreePlugin) -> Option<Str> {
    match (disk, plugin) {
        (InlineDisk::Ebs { id }, InTreePlugin::Ebs) | (InlineDisk::Cinder { id }, InTreePlugin::Cinder) => {
            Some(id.clone())
        }
        (InlineDisk::GcePd { name, .. }, InTreePlugin::GcePd)
        | (InlineDisk::AzureDisk { name, .. }, InTreePlugin::AzureDisk) => Some(name.clone()),
        _ => None,
    }
}

fn claimed(cx: PluginContext<'_>, key: &ClaimKey, plugin: InTreePlugin) -> Option<Str> {
    let volumes = cx.ledger.volumes();
    let claim = volumes.claim(key)?;
    if let Some(volume) = claim.volume.as_ref().and_then(|name| volumes.volume(name)) {
        return match &volume.source {
            VolumeSource::InTree { migration, disk, .. } if migration.plugin == plugin => Some(disk.clone()),
            _ => None,
        };
    }
    let is_ours = volumes.class(&claim.class).is_some_and(|class| *class.provisioner == *plugin.name());
    // No disk has such a name.
    is_ours.then(|| format!("\u{0}{key}").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::model::{Migration, Node, PersistentVolume};
    use crate::volume_testing::{answers_by, bound, claim, mounting, named, node_in, on, using, volume, waiting_class};

    fn profile(kinds: &[Plugin]) -> CompiledProfile {
        let mut profile = CompiledProfile::default_preset("test");
        profile.filters = kinds.iter().fold(profile.filters, |all, kind| all.with(*kind));
        profile.legacy = LegacyArgs { max_ebs: 2, max_gce_pd: 1, max_azure_disk: 1, max_cinder: 1, ..profile.legacy };
        profile
    }

    fn disk(disk: InlineDisk) -> PodVolume {
        PodVolume::Disk { volume: "v".into(), disk, counts: Ok(None) }
    }

    fn ebs(id: &str) -> PodVolume {
        disk(InlineDisk::Ebs { id: id.into() })
    }

    fn in_tree(name: &str, plugin: InTreePlugin, id: &str) -> PersistentVolume {
        let migration = Migration { plugin, affinity: Ok(None) };
        PersistentVolume {
            source: VolumeSource::InTree { attachable: None, migration, disk: id.into() },
            ..volume(name, "", 1)
        }
    }

    #[test]
    fn disks_of_a_kind_are_counted_whatever_names_them() {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node_in("a", "z"));
        ledger.apply_storage_class(waiting_class("ebs", "kubernetes.io/aws-ebs"));
        ledger.apply_storage_class(waiting_class("csi", "ebs.csi.aws.com"));
        ledger.apply_volume(in_tree("v", InTreePlugin::Ebs, "vol-1"));
        ledger.apply_volume(in_tree("w", InTreePlugin::Cinder, "vol-9"));
        for (name, volume) in [("of-v", "v"), ("of-w", "w"), ("of-gone", "gone")] {
            ledger.apply_claim(bound(name, volume));
        }
        for (name, class) in [("late", "ebs"), ("later", "ebs"), ("csi", "csi")] {
            ledger.apply_claim(claim(name, class, 1));
        }
        ledger.apply_pod(on("a", mounting("placed", vec![ebs("vol-1"), named("late"), named("gone")])));
        let ebs_only = profile(&[Plugin::MaxEBSVolumeCount]);
        let full = "a: MaxEBSVolumeCount: node(s) exceed max volume count";
        for (volumes, fits) in [
            (vec![named("of-v")], true),
            (vec![named("late"), named("of-v")], true),
            (vec![named("later")], false),
            (vec![ebs("vol-2")], false),
            (vec![named("of-w")], true),
            (vec![named("csi")], true),
            (vec![disk(InlineDisk::GcePd { name: "vol-2".into(), read_only: true })], true),
        ] {
            let answers = answers_by(&ebs_only, &ledger, &mounting("p", volumes.clone()));
            // A placed pod mounts vol-1 inline, which VolumeRestrictions does not mind in a claim.
            assert_eq!(answers, if fits { "a: fits" } else { full }, "{volumes:?}");
        }
        let all = profile(&KINDS.map(|kind| kind.filter));
        ledger.apply_pod(on("a", using("cinder", &["of-w"])));
        let cinder = mounting("p", vec![disk(InlineDisk::Cinder { id: "vol-8".into() })]);
        assert_eq!(answers_by(&all, &ledger, &cinder), "a: MaxCinderVolumeCount: node(s) exceed max volume count");
    }

    #[test]
    fn a_node_may_tell_its_own_limit_and_nitro_instances_take_fewer() {
        let profile = CompiledProfile::default_preset("test");
        let kind = KINDS[0];
        let limit_of = |ledger: &Ledger| {
            let cx = PluginContext { profile: &profile, ledger };
            limit(cx, kind, ledger.nodes().find("a").expect("there"))
        };
        let mut ledger = Ledger::new();
        for (instance, expected) in
            [("m4.large", 39), ("m5.large", 25), ("r5d.xlarge", 25), ("t3.small", 25), ("z1d.large", 25)]
        {
            let labels = [("beta.kubernetes.io/instance-type", instance)].into_iter().collect();
            ledger.apply_node(&Node { labels, ..node_in("a", "z") });
            assert_eq!(limit_of(&ledger), expected, "{instance}");
        }
        let mut node = node_in("a", "z");
        node.allocatable.set_scalar(kind.resource.into(), 7);
        ledger.apply_node(&node);
        assert_eq!(limit_of(&ledger), 7);
    }
}
