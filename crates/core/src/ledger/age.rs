use crate::model::{Pod, PodKey, Str};
use std::sync::Arc;

/// As many bytes of names are compared beside each other; where they are the same, the pods are looked at.
const COMPARED: usize = 16;

/// A pod, with what nearly always decides its place.
struct Aged {
    created_unix_us: i64,
    name: u128,
    pod: Arc<Pod>,
}

/// Sorts pods by age, then by name. Pods are not read again for each comparison: those of one workload are created in the same second, and
/// their names begin alike.
pub fn oldest_first(pods: &mut Vec<Arc<Pod>>) {
    let common = common_prefix(pods);
    let aged = |pod: Arc<Pod>| Aged { created_unix_us: pod.created_unix_us, name: common.next_of(&pod.key), pod };
    let mut aged: Vec<Aged> = pods.drain(..).map(aged).collect();
    aged.sort_by(|a, b| {
        let rank = |one: &Aged| (one.created_unix_us, one.name);
        rank(a).cmp(&rank(b)).then_with(|| a.pod.key.cmp(&b.pod.key))
    });
    pods.extend(aged.into_iter().map(|one| one.pod));
}

/// How many bytes the names of all pods begin with alike: of the namespaces, and where these are the same, of the names in them. Two keys
/// are in the order of what comes after that.
fn common_prefix(pods: &[Arc<Pod>]) -> Prefix {
    let Some((first, rest)) = pods.split_first() else { return Prefix::OfName(0) };
    let PodKey { namespace, name } = &first.key;
    let alike = |text: &Str, most: usize, other: &Str| {
        let pairs = text.bytes().take(most).zip(other.bytes());
        pairs.take_while(|(a, b)| a == b).count()
    };
    if rest.iter().all(|pod| pod.key.namespace == *namespace) {
        Prefix::OfName(rest.iter().fold(name.len(), |most, pod| alike(name, most, &pod.key.name)))
    } else {
        Prefix::OfNamespace(rest.iter().fold(namespace.len(), |most, pod| alike(namespace, most, &pod.key.namespace)))
    }
}

/// What need not be compared.
#[derive(Debug, Clone, Copy)]
enum Prefix {
    OfNamespace(usize),
    /// All are in one namespace.
    OfName(usize),
}

impl Prefix {
    /// The next bytes of the key, as a number that is in their order. No name has a byte 0.
    fn next_of(self, key: &PodKey) -> u128 {
        let mut next = [0; COMPARED];
        match self {
            Self::OfName(after) => fill(&mut next, &key.name.as_bytes()[after..]),
            Self::OfNamespace(after) => {
                let rest = &key.namespace.as_bytes()[after..];
                fill(&mut next, rest);
                if let Some(left) = next.get_mut(rest.len() + 1..) {
                    fill(left, key.name.as_bytes());
                }
            }
        }
        u128::from_be_bytes(next)
    }
}

/// Copies as much of `text` as there is room for.
fn fill(room: &mut [u8], text: &[u8]) {
    let length = room.len().min(text.len());
    room[..length].copy_from_slice(&text[..length]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::Rng;
    use crate::model::PodKey;
    use crate::testing::{pod, shape};

    /// 500 lists of up to 60 pods, whose names begin alike for a while, or are one the beginning of another.
    #[test]
    fn pods_are_in_the_order_of_age_and_name() {
        let shape = Arc::new(shape());
        for seed in 0..500 {
            let mut rng = Rng::seeded(seed);
            let alike = "a".repeat(rng.below(40) as usize);
            let mut drawn = || {
                let namespace = ["", "n", "n-2", "other"][rng.below(1 + seed % 4) as usize].into();
                let name =
                    format!("{alike}{}", "ab-".repeat(rng.below(9) as usize)) + ["", "a", "z"][rng.below(3) as usize];
                let key = PodKey { namespace, name: name.into() };
                Arc::new(Pod { key, created_unix_us: rng.below(3) as i64 - 1, ..pod("p", (*shape).clone()) })
            };
            let mut pods: Vec<Arc<Pod>> = (0..seed % 60).map(|_| drawn()).collect();
            let mut want = pods.clone();
            want.sort_by(|a, b| (a.created_unix_us, &a.key).cmp(&(b.created_unix_us, &b.key)));
            oldest_first(&mut pods);
            assert!(pods.iter().map(Arc::as_ptr).eq(want.iter().map(Arc::as_ptr)), "seed {seed}");
        }
    }
}
