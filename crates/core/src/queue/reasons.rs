//! What refuses most nodes for how many queued pods.

use super::Entry;
use super::summary::{MainReason, main_reason};
use crate::cycle::Diagnosis;
use crate::plugins::PluginSet;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The reasons of queued pods. Each has a number while some pod has it, and pods know theirs: a pass over a hundred thousand equal pods makes
/// the text of one.
#[derive(Debug, Default)]
pub(super) struct Reasons {
    numbers: BTreeMap<MainReason, u32>,
    /// By number: the reason while some pod has it, and how many have.
    counted: Vec<(Option<MainReason>, usize)>,
    free: Vec<u32>,
    /// How the last pod was refused, and the number of its reason: equal pods share a diagnosis.
    last: Option<(Arc<Diagnosis>, PluginSet, u32)>,
}

impl Reasons {
    /// Counts the pod; its reason is noted in `entry`.
    pub(super) fn add(&mut self, entry: &mut Entry) {
        entry.reason = entry.diagnosis.as_ref().and_then(|diagnosis| match &self.last {
            Some((last, rejectors, number)) if Arc::ptr_eq(last, diagnosis) && *rejectors == entry.rejectors => {
                Some(*number)
            }
            _ => {
                let number = self.number(main_reason(entry)?);
                self.last = Some((diagnosis.clone(), entry.rejectors, number));
                Some(number)
            }
        });
        if let Some(number) = entry.reason {
            self.counted[number as usize].1 += 1;
        }
    }

    /// `entry` is as it was added.
    pub(super) fn remove(&mut self, entry: &mut Entry) {
        let Some(number) = entry.reason.take() else { return };
        let (reason, pods) = &mut self.counted[number as usize];
        *pods -= 1;
        if *pods == 0 {
            if let Some(reason) = reason.take() {
                self.numbers.remove(&reason);
            }
            self.free.push(number);
            self.last.take_if(|(.., last)| *last == number);
        }
    }

    /// Gives back the room of all reasons where no pod has one.
    pub(super) fn shrink(&mut self) {
        if self.numbers.is_empty() {
            *self = Self::default();
        }
    }

    /// With their pods, in the order of plugins' names and of texts.
    pub(super) fn all(&self) -> impl Iterator<Item = (&MainReason, usize)> {
        self.numbers.iter().map(|(reason, number)| (reason, self.counted[*number as usize].1))
    }

    fn number(&mut self, reason: MainReason) -> u32 {
        if let Some(number) = self.numbers.get(&reason) {
            return *number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.counted.push((None, 0));
            self.counted.len() as u32 - 1
        });
        self.counted[number as usize].0 = Some(reason.clone());
        self.numbers.insert(reason, number);
        number
    }
}
