//! What a watch has shown: the version of each object that it has not taken back. The audit compares it with what the API server has.
//!
//! 24 bytes an object, besides what a B-tree takes: an ordered table can be read in short parts while it changes, and never moves as a whole.

use crate::send::version_number;
use crate::write::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;
use std::sync::Mutex;

/// Deletions that are remembered while a comparison is under way: 100 a second for a quarter of an hour. Beyond that the comparison says
/// nothing.
const DELETIONS: usize = 100_000;

/// A uid in 16 bytes: the number that it is, or a hash of one that is no UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(u128);

/// The first half of what stands for a uid that is no UUID: no UUID of a known version has it.
const HASHED: u128 = !0 << 64;

/// Where a UUID has its dashes.
const DASHES: [usize; 4] = [8, 13, 18, 23];

impl Uid {
    pub fn of(uid: &str) -> Self {
        read_uuid(uid).map_or_else(
            || {
                let mut hasher = DefaultHasher::new();
                uid.hash(&mut hasher);
                Self(HASHED | u128::from(hasher.finish()))
            },
            Self,
        )
    }

    /// The uid, unless only its hash is known.
    pub fn text(self) -> Option<String> {
        if (self.0 & HASHED) == HASHED {
            return None;
        }
        let mut text = format!("{:032x}", self.0);
        for dash in DASHES {
            text.insert(dash, '-');
        }
        Some(text)
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().as_deref().unwrap_or("?"))
    }
}

/// Reads a UUID as API servers write it: [`Uid::text`] must give the same back.
fn read_uuid(text: &str) -> Option<u128> {
    if text.len() != 36 {
        return None;
    }
    let mut number = 0;
    for (at, byte) in text.bytes().enumerate() {
        let digit = match byte {
            b'-' if DASHES.contains(&at) => continue,
            _ if DASHES.contains(&at) => return None,
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        number = (number << 4) | u128::from(digit);
    }
    Some(number)
}

/// An object as the watch has shown it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) version: u64,
    /// Whether it was decoded. What cannot be is left as it was.
    pub(super) decoded: bool,
}

impl Known {
    const fn pack(self) -> u64 {
        (self.version << 1) | self.decoded as u64
    }

    const fn unpack(packed: u64) -> Self {
        Self { version: packed >> 1, decoded: packed & 1 == 1 }
    }
}

/// Shared by the watch, which writes, and the audit, which reads. Nothing holds its lock for longer than some microseconds.
#[derive(Debug, Default)]
pub struct Shown(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    known: BTreeMap<Uid, u64>,
    /// What the whole read under way has shown; `None` between two reads. A table that is made of it at once is made faster, and is
    /// fuller, than one that grows in no order.
    read: Option<Vec<(Uid, u64)>>,
    /// Whole reads completed.
    reads: u64,
    /// What was deleted since the comparison under way began; `None` if there is none.
    deleted: Option<BTreeSet<Uid>>,
    /// There were more than are remembered.
    lost_deletions: bool,
}

impl Shown {
    /// A whole read begins.
    pub(super) fn begin(&self) {
        let dropped = lock(&self.0).read.replace(Vec::new());
        // Not under the lock.
        drop(dropped);
    }

    /// Comes before the sink has the object. An object without a uid cannot be told from others.
    pub(super) fn present(&self, uid: &str, version: &str, decoded: bool) {
        if !uid.is_empty() {
            let (uid, known) = (Uid::of(uid), Known { version: version_number(version), decoded }.pack());
            let mut table = lock(&self.0);
            if let Some(read) = &mut table.read {
                read.push((uid, known));
            } else {
                table.known.insert(uid, known);
            }
        }
    }

    /// No whole read is under way: it shows what there is, and nothing else.
    pub(super) fn deleted(&self, uid: &str) {
        let (uid, mut table) = (Uid::of(uid), lock(&self.0));
        table.known.remove(&uid);
        let Some(deleted) = &mut table.deleted else { return };
        if deleted.len() < DELETIONS {
            deleted.insert(uid);
        } else {
            table.lost_deletions = true;
        }
    }

    /// The whole read is complete.
    pub(super) fn synced(&self) {
        // The lock is not held while a table is made or given back, which may be large. Nobody but the watch writes.
        let Some(read) = lock(&self.0).read.as_mut().map(std::mem::take) else { return };
        let known = read.into_iter().collect();
        let mut table = lock(&self.0);
        table.read = None;
        let before = std::mem::replace(&mut table.known, known);
        table.reads += 1;
        drop(table);
        drop(before);
    }

    /// Remembers deletions from now on, until [`Self::stop_comparing`]. Returns how many whole reads there were.
    pub(super) fn compare(&self) -> u64 {
        let mut table = lock(&self.0);
        table.deleted = Some(BTreeSet::new());
        table.lost_deletions = false;
        table.reads
    }

    pub(super) fn stop_comparing(&self) {
        let deleted = lock(&self.0).deleted.take();
        drop(deleted);
    }

    /// Whether what was compared since [`Self::compare`] returned `reads` still counts: nothing was read anew, and no deletion is lost.
    pub(super) fn is_comparable(&self, reads: u64) -> bool {
        let table = lock(&self.0);
        table.reads == reads && table.read.is_none() && !table.lost_deletions
    }

    /// What is known of an object; `Err` if it was deleted during the comparison.
    pub(super) fn known(&self, uid: Uid) -> Result<Option<Known>, Deleted> {
        let table = lock(&self.0);
        match table.known.get(&uid) {
            Some(packed) => Ok(Some(Known::unpack(*packed))),
            None if table.deleted.as_ref().is_some_and(|deleted| deleted.contains(&uid)) => Err(Deleted),
            None => Ok(None),
        }
    }

    /// The next `most` objects after `last`, in the order of their uids.
    pub(super) fn after(&self, last: Option<Uid>, most: usize) -> Vec<(Uid, Known)> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let table = lock(&self.0);
        let known = table.known.range((from, Bound::Unbounded)).take(most);
        known.map(|(uid, packed)| (*uid, Known::unpack(*packed))).collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        lock(&self.0).known.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The watch has shown that an object is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deleted;

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(number: u32) -> String {
        format!("{number:08x}-0000-4000-8000-0000000000ff")
    }

    #[test]
    fn a_uid_comes_back_as_it_was_or_not_at_all() {
        assert_eq!(Uid::of(&uid(7)).text(), Some(uid(7)));
        for other in ["", "u-a", "0000000A-0000-4000-8000-0000000000ff", "00000007a0000-4000-8000-0000000000ff", "é"] {
            assert_eq!(Uid::of(other).text(), None, "{other:?}");
        }
        assert_ne!(Uid::of("u-a"), Uid::of("u-b"));
        assert_eq!((Uid::of("u-a").to_string(), Uid::of(&uid(7)).to_string()), ("?".to_owned(), uid(7)));
    }

    #[test]
    fn a_whole_read_takes_the_place_of_what_was_shown_before() {
        let shown = Shown::default();
        shown.begin();
        shown.present(&uid(1), "5", true);
        shown.present(&uid(2), "6", false);
        assert!(shown.is_empty(), "not before it is complete");
        shown.synced();
        let known = |number| shown.known(Uid::of(&uid(number)));
        assert_eq!(known(1), Ok(Some(Known { version: 5, decoded: true })));
        assert_eq!(known(2), Ok(Some(Known { version: 6, decoded: false })));
        shown.begin();
        shown.present(&uid(2), "9", true);
        assert_eq!(known(2), Ok(Some(Known { version: 6, decoded: false })));
        shown.synced();
        assert_eq!((known(1), known(2)), (Ok(None), Ok(Some(Known { version: 9, decoded: true }))));
    }

    #[test]
    fn deletions_are_remembered_while_something_is_compared() {
        let shown = Shown::default();
        shown.begin();
        (1..=3).for_each(|number| shown.present(&uid(number), "1", true));
        shown.synced();
        let known = |number| shown.known(Uid::of(&uid(number)));
        shown.deleted(&uid(1));
        let reads = shown.compare();
        shown.deleted(&uid(2));
        assert_eq!((known(1), known(2)), (Ok(None), Err(Deleted)));
        assert!(shown.is_comparable(reads));
        shown.begin();
        assert!(!shown.is_comparable(reads), "another read is under way");
        shown.synced();
        assert!(!shown.is_comparable(reads));
        shown.stop_comparing();
        assert_eq!(known(2), Ok(None));
    }

    #[test]
    fn it_is_read_in_parts_in_order() {
        let shown = Shown::default();
        (1..=5).for_each(|number| shown.present(&uid(number), "1", true));
        let (mut last, mut parts) = (None, Vec::new());
        loop {
            let part = shown.after(last, 2);
            let Some((uid, _)) = part.last() else { break };
            last = Some(*uid);
            parts.push(part.len());
        }
        assert_eq!((parts, shown.len()), (vec![2, 2, 1], 5));
    }
}
