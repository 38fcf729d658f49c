//! What every write to the API server shares: what an answer means, how long a request is repeated, how a pod is read
//! back, which writes to a pod were our own, which may still land, whose turn it is, the tasks that send, and how results are counted. Each verb
//! adds only what it makes of a conflict or a refusal.

mod afoot;
mod counters;
mod link;
mod meaning;
mod namespace;
mod own;
mod pod;
mod pool;
mod turns;

pub(crate) use counters::results;
pub use counters::{Counted, Counters};
pub use link::Patience;
pub use link::Progress;
pub(crate) use link::{Failure, GivenUp, Link};
pub use meaning::Meaning;
pub use meaning::WriteError;
pub(crate) use meaning::meaning;
pub(crate) use own::Known;
pub use own::OwnWrites;
pub(crate) use pod::{PodNow, PodRead, pod_path, read_pod, status_uri};
pub(crate) use pool::{Jobs, Pool, wait_until};
pub(crate) use turns::{Limits, Slot, Tenant, Turns};

pub(crate) use crate::lock;
