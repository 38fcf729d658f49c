//! VolumeZone: a volume whose labels name zones or regions is used there only.
//! After `pkg/scheduler/framework/plugins/volumezone/volume_zone.go`.

use super::context::{Cause, Plugin, PluginContext, PreFilterRefusal, Stop, Verdict};
use super::volumes::mounts::{Mounts, missing_claim};
use crate::ledger::NodeId;
use crate::model::{BindingMode, Labels, PersistentVolume, PersistentVolumeClaim, Str, ZONE};

const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
const REGION: &str = "topology.kubernetes.io/region";
const KEYS: [&str; 4] = [BETA_ZONE, BETA_REGION, ZONE, REGION];

/// Where one volume can be used, by one label.
#[derive(Debug)]
struct Place {
    key: &'static str,
    values: Vec<Str>,
}

/// What PreFilter found out.
#[derive(Debug)]
pub(crate) struct State(Vec<Place>);

impl State {
    /// `None` where the plugin skips the pod.
    pub(crate) fn prepare(cx: PluginContext<'_>, mounts: &Mounts<'_, '_>) -> Result<Option<Self>, Stop> {
        let mut places = Vec::new();
        for (key, claim) in mounts.named() {
            let text = match claim {
                _ if key.name.is_empty() => "PersistentVolumeClaim had no name".to_owned(),
                None => missing_claim(&key.name),
                Some(claim) => match volume_of(cx, claim) {
                    Ok(volume) => {
                        places.extend(volume.into_iter().flat_map(places_of));
                        continue;
                    }
                    Err(text) => text,
                },
            };
            return Err(Stop::Refused(PreFilterRefusal::unresolvable(Plugin::VolumeZone, text)));
        }
        Ok((!places.is_empty()).then_some(Self(places)))
    }

    /// How many comparisons [`Self::filter`] takes.
    pub(crate) fn comparisons(&self) -> usize {
        self.0.iter().map(|place| 1 + place.values.len()).sum()
    }

    pub(crate) fn filter(&self, cx: PluginContext<'_>, node: NodeId) -> Verdict {
        let labels = cx.ledger.nodes().labels(node);
        let is_in = |place: &Place| value(labels, place.key).is_some_and(|value| place.values.contains(value));
        // A node without any of the labels is taken to be in a cluster of one zone.
        if KEYS.iter().all(|key| labels.get(key).is_none()) || self.0.iter().all(is_in) {
            return Verdict::FITS;
        }
        Verdict::unresolvable(Cause::VolumeZone)
    }
}

/// The claim's volume; `None` where the class waits for the first consumer.
fn volume_of<'t>(cx: PluginContext<'t>, claim: &PersistentVolumeClaim) -> Result<Option<&'t PersistentVolume>, String> {
    let volumes = cx.ledger.volumes();
    if let Some(name) = &claim.volume {
        return volumes
            .volume(name)
            .map(|volume| Some(&**volume))
            .ok_or_else(|| format!("persistentvolume {name:?} not found"));
    }
    if claim.class.is_empty() {
        return Err("PersistentVolumeClaim had no pv name and storageClass name".to_owned());
    }
    let name = &*claim.class;
    let class = volumes.class(name).ok_or_else(|| format!("storageclass.storage.k8s.io {name:?} not found"))?;
    match class.binding_mode {
        None => Err(format!("VolumeBindingMode not set for StorageClass {name:?}")),
        Some(BindingMode::WaitForFirstConsumer) => Ok(None),
        Some(BindingMode::Immediate) => Err("PersistentVolume had no name".to_owned()),
    }
}

/// Where the volume can be used, by its labels. A list with an empty zone in it is ignored.
fn places_of(volume: &PersistentVolume) -> impl Iterator<Item = Place> {
    KEYS.into_iter().filter_map(|key| {
        let values: Vec<Str> = volume.labels.get(key)?.split("__").map(|value| value.trim().into()).collect();
        values.iter().all(|value| !value.is_empty()).then_some(Place { key, values })
    })
}

/// The node's value for `key`, or for the stable label that replaced a missing beta label.
fn value<'l>(labels: &'l Labels, key: &str) -> Option<&'l Str> {
    labels.get(key).or_else(|| match key {
        BETA_ZONE => labels.get(ZONE),
        BETA_REGION => labels.get(REGION),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::model::{Node, StorageClass};
    use crate::profile::CompiledProfile;
    use crate::volume_testing::{answers, answers_by, bound, claim, node_in, using, volume, waiting_class};

    const ELSEWHERE: &str = "VolumeZone: node(s) had no available volume zone";

    fn cluster(of_volume: &[(&str, &str)], of_node: &[(&str, &str)]) -> Ledger {
        let mut ledger = Ledger::new();
        ledger.apply_node(&Node { labels: of_node.iter().copied().collect(), ..node_in("a", "z") });
        ledger.apply_volume(PersistentVolume { labels: of_volume.iter().copied().collect(), ..volume("v", "", 1) });
        ledger.apply_claim(bound("c", "v"));
        ledger
    }

    type Pairs<'a> = &'a [(&'a str, &'a str)];

    #[test]
    fn a_volume_is_used_in_its_zones_and_regions_only() {
        let cases: [(Pairs<'_>, Pairs<'_>, bool); 13] = [
            (&[(ZONE, "a")], &[(ZONE, "a")], true),
            (&[(ZONE, "a")], &[(ZONE, "b")], false),
            (&[(ZONE, "a__b")], &[(ZONE, "b")], true),
            (&[(ZONE, "a__ b ")], &[(ZONE, "b")], true),
            (&[(ZONE, "a__")], &[(ZONE, "b")], true),
            (&[(ZONE, "a")], &[], true),
            (&[(ZONE, "a")], &[(REGION, "r")], false),
            (&[(ZONE, "a"), (REGION, "r")], &[(ZONE, "a"), (REGION, "r")], true),
            (&[(ZONE, "a"), (REGION, "r")], &[(ZONE, "a"), (REGION, "s")], false),
            (&[(BETA_ZONE, "a")], &[(ZONE, "a")], true),
            (&[(BETA_REGION, "r")], &[(REGION, "s")], false),
            (&[(ZONE, "a")], &[(BETA_ZONE, "a")], false),
            (&[("zone", "a")], &[(ZONE, "b")], true),
        ];
        for (of_volume, of_node, fits) in cases {
            let ledger = cluster(of_volume, of_node);
            let wanted = if fits { "a: fits".to_owned() } else { format!("a: {ELSEWHERE}") };
            assert_eq!(answers(&ledger, &using("p", &["c"])), wanted, "{of_volume:?} on {of_node:?}");
        }
    }

    #[test]
    fn alone_it_says_what_is_wrong_with_claims() {
        let mut ledger = cluster(&[], &[]);
        let mut profile = CompiledProfile::default_preset("test");
        for filter in [Plugin::VolumeRestrictions, Plugin::NodeVolumeLimits, Plugin::VolumeBinding] {
            profile.filters = profile.filters.without(filter);
        }
        ledger.apply_storage_class(waiting_class("late", "p"));
        ledger.apply_storage_class(StorageClass {
            binding_mode: Some(BindingMode::Immediate),
            ..waiting_class("now", "p")
        });
        ledger.apply_storage_class(StorageClass { binding_mode: None, ..waiting_class("unset", "p") });
        ledger.apply_claim(bound("lost", "gone"));
        for class in ["", "late", "now", "unset", "gone"] {
            ledger.apply_claim(claim(&format!("of-{class}"), class, 1));
        }
        for (name, text) in [
            ("", "PersistentVolumeClaim had no name"),
            ("x", "persistentvolumeclaim \"x\" not found"),
            ("lost", "persistentvolume \"gone\" not found"),
            ("of-", "PersistentVolumeClaim had no pv name and storageClass name"),
            ("of-gone", "storageclass.storage.k8s.io \"gone\" not found"),
            ("of-unset", "VolumeBindingMode not set for StorageClass \"unset\""),
            ("of-now", "PersistentVolume had no name"),
        ] {
            let answers = answers_by(&profile, &ledger, &using("p", &[name]));
            assert_eq!(answers, format!("a: VolumeZone: {text}"), "{name:?}");
        }
        assert_eq!(answers_by(&profile, &ledger, &using("p", &["of-late"])), "a: fits");
    }
}
