use hashbrown::HashTable;

/// Finds values of a list by what they hash to, and holds no value: four bytes for each. Who asks says what is at a place, and its hash.
#[derive(Debug, Default)]
pub(super) struct Places(HashTable<u32>);

impl Places {
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        self.0.find(hash, |place| is_it(*place as usize)).map(|place| *place as usize)
    }

    /// `hash_at`: of a value that is found here already, by its place.
    pub(super) fn insert(&mut self, hash: u64, place: usize, hash_at: impl Fn(usize) -> u64) {
        self.0.insert_unique(hash, place as u32, |place| hash_at(*place as usize));
    }

    /// The value at `place` goes, and the `last` one comes there: to be called before [`Vec::swap_remove`].
    pub(super) fn swap_remove(&mut self, place: usize, last: usize, hash_at: impl Fn(usize) -> u64) {
        if let Ok(gone) = self.0.find_entry(hash_at(place), |other| *other as usize == place) {
            gone.remove();
        }
        if let Some(moved) = self.0.find_mut(hash_at(last), |other| *other as usize == last) {
            *moved = place as u32;
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
