use super::keyed::HashKey;
use super::parted::{PARTS, part_of};
use crate::model::{PodKey, Str};
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Which uid has a name. A name itself is where the pod is, and who looks one up says how to find it there: of a million pods the names take
/// as much as everything else that is kept of where they are.
///
/// In parts, as [`Parted`](super::parted::Parted) is. Tenants choose names, so they are hashed with the ledger's key, and not again when a
/// part grows.
#[derive(Debug)]
pub(super) struct Names {
    hasher: HashKey,
    parts: Box<[HashTable<Named>]>,
}

#[derive(Debug)]
struct Named {
    hash: u64,
    uid: Str,
}

impl Names {
    pub(super) fn new(key: &HashKey) -> Self {
        Self { hasher: key.clone(), parts: (0..PARTS).map(|_| HashTable::new()).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(HashTable::len).sum()
    }

    /// The uid of another pod of this name than `uid`. `has_name`: whether the pod of a uid has the name.
    pub(super) fn other(&self, key: &PodKey, uid: &str, has_name: impl Fn(&str) -> bool) -> Option<&Str> {
        self.hashed(self.hasher.hash_one(key), uid, has_name).filter(|other| ***other != *uid)
    }

    /// Whether the name is kept as that of the pod `uid`.
    pub(super) fn is_of(&self, key: &PodKey, uid: &str) -> bool {
        self.hashed(self.hasher.hash_one(key), uid, |_| false).is_some()
    }

    /// The uid among those with this hash that is `uid`, or has the name.
    fn hashed(&self, hash: u64, uid: &str, has_name: impl Fn(&str) -> bool) -> Option<&Str> {
        let is_it = |named: &Named| named.hash == hash && (*named.uid == *uid || has_name(&named.uid));
        self.parts[part_of(hash)].find(hash, is_it).map(|named| &named.uid)
    }

    /// The name is that of the pod `uid` from now on. `has_name` as in [`Self::other`].
    pub(super) fn insert(&mut self, key: &PodKey, uid: &Str, has_name: impl Fn(&str) -> bool) {
        self.insert_hashed(self.hasher.hash_one(key), uid, has_name);
    }

    fn insert_hashed(&mut self, hash: u64, uid: &Str, has_name: impl Fn(&str) -> bool) {
        let part = &mut self.parts[part_of(hash)];
        let is_it = |named: &Named| named.hash == hash && (named.uid == *uid || has_name(&named.uid));
        match part.find_mut(hash, is_it) {
            Some(named) => named.uid = uid.clone(),
            None => drop(part.insert_unique(hash, Named { hash, uid: uid.clone() }, |named| named.hash)),
        }
    }

    /// The pod `uid` does not have the name any more.
    pub(super) fn remove(&mut self, key: &PodKey, uid: &str) {
        let hash = self.hasher.hash_one(key);
        let is_it = |named: &Named| named.hash == hash && *named.uid == *uid;
        if let Ok(named) = self.parts[part_of(hash)].find_entry(hash, is_it) {
            named.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_of_one_hash_stay_two() {
        let mut names = Names::new(&HashKey::default());
        let (a, b): (Str, Str) = ("a".into(), "b".into());
        names.insert_hashed(7, &a, |_| false);
        names.insert_hashed(7, &b, |_| false);
        assert_eq!((names.len(), names.hashed(7, "", |uid| uid == "a")), (2, Some(&a)));
        assert_eq!((names.hashed(7, "", |uid| uid == "b"), names.hashed(7, "", |_| false)), (Some(&b), None));
        // Another pod of the name of `a`.
        names.insert_hashed(7, &"c".into(), |uid| uid == "a");
        assert_eq!((names.len(), names.hashed(7, "a", |_| false)), (2, None));
    }

    #[test]
    fn names_are_spread_over_the_parts() {
        let mut names = Names::new(&HashKey::new([1, 2]));
        for n in 0..50_000 {
            let key = PodKey { namespace: "default".into(), name: format!("web-{n}").into() };
            names.insert(&key, &format!("{n}").into(), |_| false);
        }
        let sizes: Vec<usize> = names.parts.iter().map(HashTable::len).collect();
        assert!(sizes.iter().all(|size| (250..550).contains(size)), "{sizes:?}");
    }
}
