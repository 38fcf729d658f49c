use super::schedulers::Schedulers;
use super::{Change, ChangeLog};
use crate::model::Str;

/// Kinds of changes, by whom they may concern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kinds(u8);

impl Kinds {
    pub const NONE: Self = Self(0);
    /// Of pods that wait, and of their end: they concern the worker that serves them, and few others.
    pub const WAITING: Self = Self(1);
    /// A pod is on a node.
    pub const PLACED: Self = Self(2);
    /// What is left: what frees capacity or takes more, what others see of placed pods, nodes, nominations, budgets, volumes.
    pub const OTHER: Self = Self(4);
    pub const ALL: Self = Self(7);

    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
}

impl std::ops::BitOr for Kinds {
    type Output = Self;

    fn bitor(self, rhs: Self) -> Self {
        Self(self.0 | rhs.0)
    }
}

impl std::ops::BitOrAssign for Kinds {
    fn bitor_assign(&mut self, rhs: Self) {
        *self = *self | rhs;
    }
}

impl Change {
    const fn kind(&self) -> Kinds {
        match self {
            Self::PodPending { .. }
            | Self::PodDeleted { .. }
            | Self::BoundElsewhere { .. }
            | Self::Confirmed { .. } => Kinds::WAITING,
            Self::PodPlaced { .. } => Kinds::PLACED,
            _ => Kinds::OTHER,
        }
    }

    /// The scheduler that a pod names which waits or waited, where the change is about one.
    pub fn scheduler(&self) -> Option<&Str> {
        match self {
            Self::PodPending { pod, .. } | Self::PodDeleted { pod } | Self::BoundElsewhere { pod, .. } => {
                Some(&pod.scheduler_name)
            }
            _ => None,
        }
    }
}

/// Whom some changes may concern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    kinds: Kinds,
    /// The schedulers whose waiting pods changed.
    schedulers: Schedulers,
    /// The version from which on the newer half of the log goes; 0 as long as nothing has fallen off it.
    newer_half: u64,
}

impl News {
    /// Anything may have changed.
    pub const fn of_all() -> Self {
        Self { kinds: Kinds::ALL, schedulers: Schedulers::ANY, newer_half: u64::MAX }
    }

    pub fn is_none(&self) -> bool {
        self.kinds == Kinds::NONE
    }

    /// What changed after `version`. O(changes).
    pub fn since(log: &ChangeLog, version: u64) -> Self {
        let Some(Ok(changes)) = (version <= log.version()).then(|| log.since(version)) else {
            return Self::of_all();
        };
        let mut news = Self { kinds: Kinds::NONE, schedulers: Schedulers::NONE, newer_half: log.newer_half() };
        for (_, change) in changes {
            news.kinds |= change.kind();
            if let Some(scheduler) = change.scheduler() {
                news.schedulers.insert(scheduler);
            }
        }
        news
    }

    /// Whether a worker that has followed the log up to `followed` is about to fall off it: then it would have to look at every pod.
    pub const fn leaves_behind(&self, followed: u64) -> bool {
        followed < self.newer_half
    }

    /// Whether a worker that serves `schedulers`, and to which these `kinds` of changes matter, has to look.
    pub fn concerns(&self, kinds: Kinds, schedulers: &[Str]) -> bool {
        self.kinds.intersects(kinds) || self.schedulers.may_have(|name| schedulers.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::ledger::schedulers::NAMED;
    use crate::limits::CHANGE_LOG_ENTRIES;
    use crate::testing::{node, pod, shape};

    fn waiting(ledger: &mut Ledger, name: &str, scheduler: &str) {
        let mut pod = pod(name, shape());
        pod.scheduler_name = scheduler.into();
        ledger.apply_pod(pod);
    }

    fn names(names: &[&str]) -> Vec<Str> {
        names.iter().map(|name| Str::from(*name)).collect()
    }

    #[test]
    fn a_waiting_pod_concerns_those_who_serve_it_and_whoever_asked_for_all_waiting_pods() {
        let mut ledger = Ledger::new();
        waiting(&mut ledger, "p", "a");
        let news = News::since(ledger.log(), 0);
        assert!(news.concerns(Kinds::NONE, &names(&["x", "a"])));
        assert!(news.concerns(Kinds::WAITING, &names(&["x"])));
        assert!(!news.concerns(Kinds::PLACED | Kinds::OTHER, &names(&["x"])));
    }

    #[test]
    fn a_node_concerns_only_those_who_wait_for_something() {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("n", 1_000, 1 << 30, 10));
        let news = News::since(ledger.log(), 0);
        assert!(news.concerns(Kinds::OTHER, &names(&["a"])));
        assert!(!news.concerns(Kinds::WAITING | Kinds::PLACED, &names(&["a"])));
    }

    #[test]
    fn what_cannot_be_told_concerns_everybody() {
        let mut ledger = Ledger::new();
        for i in 0..=NAMED {
            waiting(&mut ledger, &format!("p{i}"), &format!("s{i}"));
        }
        let before = ledger.version();
        for news in [News::since(ledger.log(), 0), News::since(ledger.log(), before + 1), News::of_all()] {
            assert!(news.concerns(Kinds::NONE, &names(&["x"])), "{news:?}");
        }
        assert!(!News::since(ledger.log(), before).concerns(Kinds::ALL, &names(&["s0"])), "nothing changed");
    }

    #[test]
    fn who_is_in_the_older_half_of_a_full_log_is_left_behind() {
        let mut ledger = Ledger::new();
        let mut news_after = |changes: usize| {
            for i in 0..changes {
                ledger.apply_node(&node("n", 1_000 + i as i64 % 2, 1 << 30, 10));
            }
            (News::since(ledger.log(), ledger.version() - 1), ledger.version())
        };
        let (news, version) = news_after(1_000);
        assert!(version >= 1_000 && !news.leaves_behind(0), "nothing has fallen off the log");
        let (news, version) = news_after(CHANGE_LOG_ENTRIES);
        let half = CHANGE_LOG_ENTRIES as u64 / 2;
        assert_eq!([version - half, version - half - 1].map(|followed| news.leaves_behind(followed)), [false, true]);
    }
}
