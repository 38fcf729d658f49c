//! EqualPriority: the same for every node.
//! After `pkg/scheduler/core/generic_scheduler.go` of 1.12, which gave 1 to each.

pub(super) const SCORE: i64 = 1;
