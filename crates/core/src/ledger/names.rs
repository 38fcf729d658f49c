use super::keyed::HashKey;
use super::parted::{PARTS, part_of};
use crate::model::{PodKey, Str};
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Which uid has a name. A name itself is where the pod is, and who looks one up says how to find it there: of a million pods the names take
/// as much as everything else that is kept of where they are.
///
/// In parts, as [`Parted`](super::parted::Parted) is. Tenants choose names, so they are hashed with the ledger's key, each once.
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

    /// The uid of another pod of this name than `uid`. `has_name`: whether the pod of a uid has the name.
    pub(super) fn other(&self, key: &PodKey, uid: &str, has_name: impl Fn(&str) -> bool) -> Option<&Str> {
        let hash = self.hasher.hash_one(key);
        let is_it = |named: &Named| named.hash == hash && (*named.uid == *uid || has_name(&named.uid));
        self.parts[part_of(hash)].find(hash, is_it).map(|named| &named.uid).filter(|other| ***other != *uid)
    }

    /// The name is that of the pod `uid` from now on. `has_name` as in [`Self::other`].
    pub(super) fn insert(&mut self, key: &PodKey, uid: &Str, has_name: impl Fn(&str) -> bool) {
        let hash = self.hasher.hash_one(key);
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
        if let Ok(named) = self.parts[part_of(hash)].find_entry(hash, |named| named.hash == hash && *named.uid == *uid)
        {
            named.remove();
        }
    }
}
