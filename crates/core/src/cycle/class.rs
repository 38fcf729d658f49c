use super::recent::RecentKeys;
use super::rows::CachedRows;
use crate::ledger::ImageId;
use crate::limits::{CLASS_CACHE_BYTES, SHAPES_REMEMBERED};
use crate::model::{Controller, Footprint, PodShape, RowShape};
use crate::plugins::{ImageWorths, PluginContext, ResolvedPod, image_worths};
use crate::profile::Score;
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

/// What a profile's own filters and scores find for pods of equal [`RowShape`].
#[derive(Debug)]
pub(super) struct Class {
    key: ClassKey,
    pub(super) resolved: ResolvedPod,
    pub(super) rows: CachedRows,
    /// Bytes of the shape that the class keeps alive: that of the pod that was looked at last.
    shape_bytes: usize,
    /// The bytes that it was last taken to have.
    counted: usize,
}

impl Class {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.shape_bytes + self.rows.bytes()
    }
}

/// What pods have in common that share a class: all that the answers about a row depend on.
///
/// The ledger interns row shapes, so equal ones have one address. A class keeps its row shape alive, so its address stays unique.
/// Addresses are compared, never followed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ClassKey {
    row: usize,
    /// The images that ImageLocality counts.
    images: SmallVec<[ImageId; 2]>,
    /// The scale of ImageLocality; 0 where it counts no image.
    containers: u32,
    /// Where the profile has a score that reads it.
    controller: Option<Controller>,
}

impl ClassKey {
    fn of(cx: PluginContext<'_>, shape: &PodShape, images: &ImageWorths) -> Self {
        let reads_controller = cx.profile.weight(Score::NodePreferAvoidPodsPriority).is_some();
        Self {
            row: address(&shape.row),
            images: images.iter().map(|(image, _)| *image).collect(),
            containers: if images.is_empty() { 0 } else { shape.container_count },
            controller: shape.controller.as_ref().filter(|_| reads_controller).cloned(),
        }
    }

    fn hash_of_all(&self) -> u64 {
        FxBuildHasher.hash_one((self, &self.controller))
    }
}

impl Hash for ClassKey {
    /// Without the controller, whose texts tenants choose: keys that differ in nothing else are compared one by one.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.row, &self.images).hash(state);
    }
}

/// Classes by key, bounded by the bytes of their rows and row shapes. The least recently used class is evicted and hands its columns
/// to the next. A class that nobody uses goes with time.
///
/// While half of the room is left, a key gets a class of its own at once; after that when it comes back before the others that came in
/// between have filled the room. Until then it is judged in one scratch class: pods that never come back would push out those that do.
#[derive(Debug, Default)]
pub(super) struct ClassCache {
    slots: FxHashMap<ClassKey, usize>,
    classes: Vec<Class>,
    /// By slot: the value of `uses` when the class was last used.
    last_used: Vec<u64>,
    uses: u64,
    /// The slot that was used last, unless it has gone or moved.
    latest: usize,
    /// The value of `uses` when [`Self::age`] was called last.
    aged: u64,
    /// Bytes of all classes.
    bytes: usize,
    scratch: Option<Class>,
    /// Keys that were judged in the scratch class.
    recent: RecentKeys,
}

/// A number, so that a scheduler can go from thread to thread.
fn address(row: &Arc<RowShape>) -> usize {
    Arc::as_ptr(row) as usize
}

/// What a class of so many rows commonly takes.
const fn bytes_of_one(rows: usize) -> usize {
    size_of::<Class>() + CachedRows::BYTES_OF_ANSWERS + rows * CachedRows::BYTES_PER_ROW
}

/// How many of these fit into the cache.
fn room(rows: usize) -> usize {
    (CLASS_CACHE_BYTES / bytes_of_one(rows)).min(SHAPES_REMEMBERED)
}

impl ClassCache {
    /// The class of `shape`, resolved against the ledger as it is now.
    pub(super) fn get(&mut self, cx: PluginContext<'_>, shape: &Arc<PodShape>) -> &mut Class {
        self.find(cx, shape, false)
    }

    fn find(&mut self, cx: PluginContext<'_>, shape: &Arc<PodShape>, goes_on: bool) -> &mut Class {
        self.weigh_latest();
        self.uses += 1;
        self.shrink(CLASS_CACHE_BYTES);
        let images = image_worths(shape, cx.ledger);
        let key = ClassKey::of(cx, shape, &images);
        match self.slots.get(&key).copied() {
            Some(slot) => self.known(slot, cx, shape, images, goes_on),
            None if self.may_stay(&key, shape, cx.ledger.nodes().rows()) => {
                let resolved = ResolvedPod::with_images(cx.profile, cx.ledger, shape, images);
                let slot = self.insert(key, resolved, cx.ledger.nodes().rows());
                self.fitted(slot, cx, goes_on)
            }
            None => {
                let rows = self.scratch.take().map(|class| class.rows).unwrap_or_default();
                let resolved = ResolvedPod::with_images(cx.profile, cx.ledger, shape, images);
                let class = self.scratch.insert(Class { key, resolved, rows, shape_bytes: 0, counted: 0 });
                class.rows.clear();
                class.rows.follow(cx.ledger.nodes(), goes_on);
                class
            }
        }
    }

    /// As [`Self::get`], for a shape already judged in this attempt: where its class is still the scratch one, that is no
    /// second use, and earns it no class of its own.
    pub(super) fn again(&mut self, cx: PluginContext<'_>, shape: &Arc<PodShape>) -> &mut Class {
        let images = image_worths(shape, cx.ledger);
        let key = ClassKey::of(cx, shape, &images);
        let has_own = self.slots.contains_key(&key);
        let Some(mut class) = self.scratch.take_if(|class| !has_own && class.key == key) else {
            return self.find(cx, shape, true);
        };
        if class.resolved.refresh(cx.profile, cx.ledger, shape, images) {
            class.rows.clear();
        }
        class.rows.follow(cx.ledger.nodes(), true);
        self.scratch.insert(class)
    }

    /// The class for a look at a pod of `shape`: as [`Self::again`] if the look before it was given up, else as [`Self::get`].
    pub(super) fn for_look(&mut self, cx: PluginContext<'_>, shape: &Arc<PodShape>, unfinished: bool) -> &mut Class {
        if unfinished { self.again(cx, shape) } else { self.get(cx, shape) }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.scratch.is_none()
    }

    fn known(
        &mut self,
        slot: usize,
        cx: PluginContext<'_>,
        shape: &Arc<PodShape>,
        images: ImageWorths,
        goes_on: bool,
    ) -> &mut Class {
        self.last_used[slot] = self.uses;
        let class = &mut self.classes[slot];
        if !Arc::ptr_eq(&class.resolved.shape, shape) {
            class.shape_bytes = shape.heap_bytes();
        }
        if class.resolved.refresh(cx.profile, cx.ledger, shape, images) {
            class.rows.clear();
        }
        self.fitted(slot, cx, goes_on)
    }

    fn fitted(&mut self, slot: usize, cx: PluginContext<'_>, goes_on: bool) -> &mut Class {
        self.latest = slot;
        self.classes[slot].rows.follow(cx.ledger.nodes(), goes_on);
        self.weigh(slot);
        &mut self.classes[slot]
    }

    fn weigh(&mut self, slot: usize) {
        let class = &mut self.classes[slot];
        self.bytes -= class.counted;
        class.counted = class.bytes();
        self.bytes += class.counted;
    }

    /// What the last look has found is part of its class, though none of its kind may come back.
    fn weigh_latest(&mut self) {
        if self.last_used.get(self.latest) == Some(&self.uses) {
            self.weigh(self.latest);
        }
    }

    /// Whether the key, which has no class, is to get one of so many rows.
    fn may_stay(&mut self, key: &ClassKey, shape: &PodShape, rows: usize) -> bool {
        let came_back = self.recent.came_back(key.hash_of_all(), &shape.row, room(rows));
        came_back || self.bytes + bytes_of_one(rows) <= CLASS_CACHE_BYTES / 2
    }

    fn insert(&mut self, key: ClassKey, resolved: ResolvedPod, rows: usize) -> usize {
        let shape_bytes = resolved.shape.heap_bytes();
        let mut class = Class { key, resolved, rows: CachedRows::default(), shape_bytes, counted: 0 };
        let wanted = class.bytes() + rows * CachedRows::BYTES_PER_ROW;
        if let Some(rows) = self.shrink(CLASS_CACHE_BYTES.saturating_sub(wanted)) {
            class.rows = rows;
            class.rows.clear();
        }
        class.counted = class.bytes();
        self.bytes += class.counted;
        let slot = self.classes.len();
        self.slots.insert(class.key.clone(), slot);
        self.classes.push(class);
        self.last_used.push(self.uses);
        slot
    }

    /// Evicts until no more than so many bytes are kept; returns the columns of the last class that went.
    fn shrink(&mut self, budget: usize) -> Option<CachedRows> {
        let mut rows = None;
        while self.bytes > budget
            && let Some(oldest) = (0..self.last_used.len()).min_by_key(|slot| self.last_used[*slot])
        {
            rows = Some(self.remove(oldest).rows);
        }
        rows
    }

    /// Gives back the classes that were not used since the last call, and what is remembered of others if none was. O(classes).
    pub(super) fn age(&mut self) {
        let stale = std::mem::replace(&mut self.aged, self.uses);
        if stale == self.uses {
            self.recent = RecentKeys::default();
        }
        let mut slot = 0;
        while let Some(used) = self.last_used.get(slot) {
            if *used <= stale {
                self.remove(slot);
            } else {
                slot += 1;
            }
        }
    }

    /// The last class takes over the slot.
    fn remove(&mut self, slot: usize) -> Class {
        self.last_used.swap_remove(slot);
        let class = self.classes.swap_remove(slot);
        self.bytes -= class.counted;
        self.slots.remove(&class.key);
        if let Some(moved) = self.classes.get(slot) {
            self.slots.insert(moved.key.clone(), slot);
        }
        class
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::profile::CompiledProfile;
    use crate::testing::{node, shape, with_row};

    #[test]
    fn classes_that_nobody_uses_go_with_time() {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("a", 1000, 1 << 30, 10));
        let profile = CompiledProfile::default_preset("test");
        let (cx, mut classes) = (PluginContext { profile: &profile, ledger: &ledger }, ClassCache::default());
        let shapes: Vec<Arc<PodShape>> = (0..4).map(|_| Arc::new(shape())).collect();
        for shape in shapes.iter().chain(&shapes) {
            classes.get(cx, shape);
        }
        assert_eq!(classes.classes.len(), 4);
        for (used, left) in [(1, 4), (1, 1), (3, 2), (3, 1)] {
            classes.get(cx, &shapes[used]);
            classes.age();
            // A shape whose class went gets one again when it comes back soon.
            classes.get(cx, &shapes[used]);
            assert_eq!(classes.classes.len(), left, "{used}");
            let kept: usize = classes.classes.iter().map(|class| class.counted).sum();
            assert_eq!(classes.bytes, kept);
        }
        assert_eq!(classes.slots.len(), 1);
    }

    #[test]
    fn who_comes_once_pushes_nobody_out() {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("a", 1000, 1 << 30, 10));
        let profile = CompiledProfile::default_preset("test");
        let (cx, mut classes) = (PluginContext { profile: &profile, ledger: &ledger }, ClassCache::default());
        let of_size = |i| Arc::new(with_row(shape(), |row| row.requests.milli_cpu = i));
        for i in 0.. {
            classes.get(cx, &of_size(i));
            if classes.classes.len() <= i as usize {
                break;
            }
        }
        let kept = classes.classes.len();
        assert!(classes.bytes > CLASS_CACHE_BYTES / 3, "{} bytes for {kept} classes", classes.bytes);
        let once = of_size(-1);
        classes.get(cx, &once);
        assert_eq!(classes.classes.len(), kept, "it has no class");
        classes.get(cx, &once);
        assert_eq!(classes.classes.len(), kept + 1, "it came back soon");
    }

    #[test]
    fn classes_of_large_pods_take_a_bounded_number_of_bytes() {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("a", 1000, 1 << 30, 10));
        let profile = CompiledProfile::default_preset("test");
        let (cx, mut classes) = (PluginContext { profile: &profile, ledger: &ledger }, ClassCache::default());
        let mut rows = Vec::new();
        for i in 0..64 {
            let label = (format!("{i}").as_str().into(), "x".repeat(1 << 20).as_str().into());
            let small = with_row(shape(), |row| row.requests.milli_cpu = i);
            let large = Arc::new(PodShape { labels: crate::model::Labels::from_pairs([label]), ..small });
            assert!(Arc::ptr_eq(&classes.get(cx, &large).resolved.shape, &large), "it is the one that was asked for");
            classes.get(cx, &large);
            assert!(classes.slots.keys().any(|key| key.row == address(&large.row)), "it has one of its own");
            assert!(classes.bytes <= CLASS_CACHE_BYTES, "{} bytes", classes.bytes);
            assert_eq!(classes.bytes, classes.classes.iter().map(|class| class.counted).sum::<usize>());
            rows.push(Arc::downgrade(&large.row));
            drop(large);
            let alive = rows.iter().filter(|row| row.strong_count() > 0).count();
            assert!(alive <= classes.classes.len() + 1, "{alive} shapes are kept alive");
        }
        assert!(classes.classes.len() > 16, "the rest stays");
        assert_eq!(classes.slots.len(), classes.classes.len());
    }
}
