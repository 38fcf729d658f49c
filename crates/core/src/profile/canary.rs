use super::CompiledProfile;
use crate::fnv::fnv1a;
use crate::model::Pod;
use std::sync::Arc;
use std::time::Duration;

/// A changed profile that decides for a share of the pods, beside the one that is known to be good.
///
/// Both serve the same names, take pods of the same namespaces from one queue and ask the same extenders: only how they decide differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canary {
    pub profile: Arc<CompiledProfile>,
    pub share: Share,
    /// Pods count for so long after they were tried.
    pub window: Duration,
}

/// What the pods of one arm have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareBy {
    /// Each pod by itself, by its uid.
    Pod,
    /// All pods of a namespace together, by its name.
    Namespace,
}

/// Which pods are the canary's: always the same for one share, and among those of each larger one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub by: ShareBy,
    /// 1 to 99.
    pub percent: u8,
}

impl Share {
    /// O(length of the uid, or of the namespace's name).
    pub fn has(self, pod: &Pod) -> bool {
        let text = match self.by {
            ShareBy::Pod => &pod.uid,
            ShareBy::Namespace => &pod.key.namespace,
        };
        spread(text) % 100 < u64::from(self.percent)
    }
}

/// FNV-1a, then the finalizer of MurmurHash3 for its low bits. The next leader, of another build maybe, must come to the same.
fn spread(text: &str) -> u64 {
    let mut hash = fnv1a(text.bytes());
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pending_pod;

    #[test]
    fn a_share_has_about_so_many_pods_or_namespaces_and_a_larger_one_has_the_same_and_more() {
        let pods: Vec<Pod> = (0..10_000).map(|i| pending_pod(&format!("team-{i}"), &format!("p-{i}"))).collect();
        for by in [ShareBy::Pod, ShareBy::Namespace] {
            let of = |percent| pods.iter().map(|pod| Share { by, percent }.has(pod)).collect::<Vec<_>>();
            let (mut smaller, mut before) = (vec![false; pods.len()], 0);
            for percent in [1, 5, 25, 50, 99] {
                let (now, count) = (of(percent), of(percent).into_iter().filter(|has| *has).count());
                assert!(
                    count.abs_diff(usize::from(percent) * 100) < 150 && count > before,
                    "{by:?} {percent}: {count}"
                );
                assert!(smaller.iter().zip(&now).all(|(smaller, larger)| !smaller || *larger));
                (smaller, before) = (now, count);
            }
        }
    }

    #[test]
    fn the_next_leader_comes_to_the_same() {
        assert_eq!(["", "a", "team-1"].map(|text| spread(text) % 100), [42, 15, 89]);
    }

    #[test]
    fn pods_of_a_namespace_are_in_one_arm() {
        let share = Share { by: ShareBy::Namespace, percent: 50 };
        for namespace in ["a", "b", "c", "d", "e"] {
            let of: Vec<bool> = (0..20).map(|i| share.has(&pending_pod(namespace, &format!("p{i}")))).collect();
            assert!(of.iter().all(|has| *has == of[0]));
        }
    }
}
