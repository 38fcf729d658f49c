use super::NodeId;
use super::keyed::{HashKey, KeyedMap};
use crate::model::{Image, Str};
use smallvec::SmallVec;

/// An image name that some node reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageId(u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageSpread {
    /// The size that the first node with this name reported, in bytes; later ones do not change it, as upstream.
    pub size_bytes: i64,
    /// On how many nodes it is.
    pub nodes: u32,
}

/// Which nodes hold which images. After `pkg/scheduler/backend/cache/cache.go` (imageStates).
#[derive(Debug, Default)]
pub struct ImageTable {
    ids: KeyedMap<Str, ImageId>,
    names: Vec<Str>,
    spread: Vec<ImageSpread>,
    free: Vec<ImageId>,
    on_node: Vec<SmallVec<[ImageId; 4]>>,
}

impl ImageTable {
    pub(super) fn new(key: &HashKey) -> Self {
        Self { ids: key.map(), ..Self::default() }
    }

    pub fn find(&self, name: &str) -> Option<ImageId> {
        self.ids.get(name).copied()
    }

    pub fn spread(&self, image: ImageId) -> ImageSpread {
        self.spread[image.0 as usize]
    }

    /// O(log images on the node).
    pub fn is_on(&self, image: ImageId, node: NodeId) -> bool {
        self.on_node.get(node.index()).is_some_and(|held| held.binary_search(&image).is_ok())
    }

    pub(super) fn set(&mut self, node: NodeId, images: &[Image]) {
        self.clear(node);
        let mut held: SmallVec<[ImageId; 4]> = SmallVec::new();
        for image in images {
            held.extend(image.names.iter().map(|name| self.add(name, image.size_bytes)));
        }
        // Sorted at once: ids that were released come back in the opposite order, each before all the others.
        held.sort_unstable();
        held.dedup_by(|again, known| {
            let is_same = again == known;
            // A name that the node reports twice counts once.
            self.spread[known.0 as usize].nodes -= u32::from(is_same);
            is_same
        });
        if self.on_node.len() <= node.index() {
            self.on_node.resize_with(node.index() + 1, SmallVec::new);
        }
        held.shrink_to_fit();
        self.on_node[node.index()] = held;
    }

    pub(super) fn clear(&mut self, node: NodeId) {
        for id in self.on_node.get_mut(node.index()).map(std::mem::take).unwrap_or_default() {
            self.release(id);
        }
    }

    fn add(&mut self, name: &Str, size_bytes: i64) -> ImageId {
        if let Some(id) = self.find(name) {
            self.spread[id.0 as usize].nodes += 1;
            return id;
        }
        let fresh = ImageSpread { size_bytes, nodes: 1 };
        let id = if let Some(id) = self.free.pop() {
            self.names[id.0 as usize] = name.clone();
            self.spread[id.0 as usize] = fresh;
            id
        } else {
            self.names.push(name.clone());
            self.spread.push(fresh);
            ImageId((self.names.len() - 1) as u32)
        };
        self.ids.insert(name.clone(), id);
        id
    }

    fn release(&mut self, id: ImageId) {
        let spread = &mut self.spread[id.0 as usize];
        spread.nodes -= 1;
        if spread.nodes == 0 {
            self.ids.remove(&self.names[id.0 as usize]);
            self.free.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str, size_bytes: i64) -> Image {
        Image { names: vec![name.into()], size_bytes }
    }

    #[test]
    fn the_first_reported_size_counts_until_no_node_has_the_image() {
        let mut table = ImageTable::default();
        let (a, b) = (NodeId::new(0), NodeId::new(1));
        table.set(a, &[image("app:1", 100)]);
        table.set(b, &[image("app:1", 300), image("db:1", 50)]);
        let app = table.find("app:1").expect("known");
        assert_eq!(table.spread(app), ImageSpread { size_bytes: 100, nodes: 2 });
        table.set(a, &[]);
        assert!(!table.is_on(app, a) && table.is_on(app, b));
        table.clear(b);
        assert_eq!(table.find("app:1"), None);
    }

    #[test]
    fn the_only_node_with_an_image_may_change_its_size_and_counts_once() {
        let mut table = ImageTable::default();
        let node = NodeId::new(0);
        table.set(node, &[image("app:1", 100), image("app:1", 100)]);
        table.set(node, &[image("app:1", 999), image("app:1", 999)]);
        let app = table.find("app:1").expect("known");
        assert_eq!(table.spread(app), ImageSpread { size_bytes: 999, nodes: 1 });
    }
}
