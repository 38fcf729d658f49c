use crate::ledger::Ledger;
use crate::model::{ClaimKey, PersistentVolumeClaim, Pod, PodKey, PodVolume, PodVolumes, Str};
use smallvec::SmallVec;
use std::sync::Arc;

/// One volume of the pod with its claim, if it has one.
#[derive(Debug)]
pub(crate) enum Mount<'t> {
    Claim {
        key: ClaimKey,
        /// Whether the claim is made for the pod by an ephemeral volume.
        ephemeral: bool,
        /// `None` where the claim does not exist.
        claim: Option<&'t PersistentVolumeClaim>,
    },
    /// By the volume's place in the pod's list.
    Other(usize),
}

/// The pod's volumes with their claims looked up.
#[derive(Debug)]
pub(crate) struct Mounts<'t, 'p> {
    pub(crate) pod: &'p PodKey,
    pub(crate) uid: &'p Str,
    pub(crate) volumes: &'p Arc<PodVolumes>,
    /// In the pod's order.
    pub(crate) all: SmallVec<[Mount<'t>; 2]>,
}

impl<'t, 'p> Mounts<'t, 'p> {
    pub(crate) fn resolve(ledger: &'t Ledger, pod: &'p Pod, volumes: &'p Arc<PodVolumes>) -> Self {
        let mount = |(at, volume): (usize, &PodVolume)| match volume.claim(&pod.key.name) {
            Some((name, ephemeral)) => {
                let key = ClaimKey { namespace: pod.key.namespace.clone(), name };
                let claim = ledger.volumes().claim(&key).map(Arc::as_ref);
                Mount::Claim { key, ephemeral, claim }
            }
            None => Mount::Other(at),
        };
        let all = volumes.iter().enumerate().map(mount).collect();
        Self { pod: &pod.key, uid: &pod.uid, volumes, all }
    }

    /// The claims that the pod names, without those of ephemeral volumes.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&ClaimKey, Option<&'t PersistentVolumeClaim>)> {
        self.all.iter().filter_map(|mount| match mount {
            Mount::Claim { key, ephemeral: false, claim } => Some((key, *claim)),
            _ => None,
        })
    }

    /// Upstream's text if the claim was made for another pod.
    ///
    /// After `VolumeIsForPod` in `component-helpers/storage/ephemeral`.
    pub(crate) fn foreign(&self, claim: &PersistentVolumeClaim) -> Option<String> {
        if claim.controller.as_ref() == Some(self.uid) {
            return None;
        }
        Some(format!("PVC {} was not created for pod {} (pod is not owner)", claim.key, self.pod))
    }
}

/// The API's text for a claim that does not exist.
pub(crate) fn missing_claim(name: &str) -> String {
    format!("persistentvolumeclaim {name:?} not found")
}
