use crate::model::QueueEvent;

/// Upstream's queues, as metrics name them: gated and held pods are in the unschedulable one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueName {
    Active,
    Backoff,
    Unschedulable,
}

const QUEUES: [&str; 3] = ["active", "backoff", "unschedulable"];

/// How many pods each event brought into each of upstream's queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming([[u64; QueueEvent::ALL.len()]; QUEUES.len()]);

impl Default for Incoming {
    fn default() -> Self {
        Self([[0; QueueEvent::ALL.len()]; QUEUES.len()])
    }
}

impl Incoming {
    /// One pod by each event into each queue: for tests of how much that is.
    pub const fn of_everything() -> Self {
        Self([[1; QueueEvent::ALL.len()]; QUEUES.len()])
    }

    pub(super) const fn count(&mut self, queue: QueueName, event: QueueEvent) {
        self.0[queue as usize][event as usize] += 1;
    }

    /// Queue, event and number, without those that did not happen.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let by_queue = QUEUES.into_iter().zip(&self.0);
        let all = by_queue.flat_map(|(queue, counts)| {
            QueueEvent::ALL.iter().zip(counts).map(move |(event, count)| (queue, event.label(), *count))
        });
        all.filter(|(.., count)| *count > 0)
    }
}
