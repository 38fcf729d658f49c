use crate::candidates::{Asking, Collected, Known};
use crate::search::Stage;
use std::sync::Arc;

/// How far the search for devices has come on one node, so that it can be divided: see [`Allocator::resume`](crate::Allocator::resume).
/// A byte for each device and request whose selectors were asked.
#[derive(Debug, Default)]
pub struct Progress {
    /// By slot.
    pub(crate) memos: Vec<usize>,
    /// By memo of a slot, then by device; empty until the memo is needed.
    pub(crate) known: Vec<Vec<Known>>,
    /// The device at whose selectors the steps were used up.
    pub(crate) asking: Option<Asking>,
    /// Which devices requests for all mean, of those slots that ask for all, as far as they were looked at.
    pub(crate) all: Vec<Arc<[u32]>>,
    pub(crate) collected: Collected,
    /// None before the search began.
    pub(crate) stage: Option<Stage>,
}

impl Progress {
    /// What it takes, about.
    pub fn bytes(&self) -> usize {
        let all: usize = self.all.iter().map(|devices| size_of::<Arc<[u32]>>() + 16 + size_of_val(&**devices)).sum();
        all + self.memos.capacity() * size_of::<usize>() + self.stage.as_ref().map_or(0, Stage::bytes)
    }

    /// What is needed to find the same devices again, if they were found: the devices, and no more.
    #[must_use]
    pub fn of_solution(self) -> Option<Self> {
        let stage = self.stage.filter(Stage::is_solved)?;
        Some(Self { memos: self.memos, all: self.all, stage: Some(stage), ..Self::default() })
    }
}
