//! The names that a question gave, found again in its reply.

use berth_core::model::Str;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// How far ahead of the last name found the next one is looked for: replies mostly keep the order of the question.
const AHEAD: usize = 4;

/// The names of a question.
#[derive(Debug)]
pub(super) struct Known {
    names: Arc<[Str]>,
    next: usize,
    index: Option<FxHashMap<Str, u32>>,
}

impl Known {
    /// Of these names, each once.
    pub(super) const fn new(names: Arc<[Str]>) -> Self {
        Self { names, next: 0, index: None }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// The name at a place.
    pub(super) fn name(&self, at: usize) -> Str {
        self.names[at].clone()
    }

    /// The place of a name, if it was asked about.
    pub(super) fn find(&mut self, name: &str) -> Option<usize> {
        let ahead = self.names.iter().skip(self.next).take(AHEAD).position(|known| **known == *name);
        let at = match ahead {
            Some(step) => self.next + step,
            None => self.look_up(name)?,
        };
        self.next = at + 1;
        Some(at)
    }

    fn look_up(&mut self, name: &str) -> Option<usize> {
        let index = self.index.get_or_insert_with(|| (0..).zip(&*self.names).map(|(at, n)| (n.clone(), at)).collect());
        index.get(name).map(|at| *at as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_order() {
        let names: Arc<[Str]> = (0..100).map(|i| Str::from(format!("n{i}"))).collect();
        let mut known = Known::new(names);
        for at in (0..100).chain((0..100).rev()).chain((0..100).step_by(9)) {
            assert_eq!(known.find(&format!("n{at}")), Some(at));
        }
        assert_eq!(known.find("n100"), None);
        assert_eq!(known.find(""), None);
    }
}
