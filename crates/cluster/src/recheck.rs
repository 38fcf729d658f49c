//! What a writer asks the ledger right before it sends, since a request may have waited; and what it tells the ledger before the
//! watch does.

use berth_core::io::BindRequest;
use berth_core::model::{ClaimKey, Str};

/// Whether a pod waits for the eviction of a victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    Awaited,
    /// It is on no node any more, or terminates.
    Deleted,
    /// It is there, and every pod that waited for it was deleted or bound by someone else.
    Unwanted,
}

/// Where the watch shows a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// It is not bound.
    Waits,
    /// It is bound to this node.
    On(Str),
    /// There is none; or it is on a node that is not known.
    Gone,
}

/// What a bind that was decided needs, and is not there any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// The node that was judged was deleted, or made anew under its name.
    Node,
    /// The watch has shown the pod's deletion, and its room may be somebody else's; or the pod is on a node that is not known.
    Pod,
}

/// Answers from what is known of the cluster at this moment. Called from tasks that do I/O before every request: it must be cheap.
/// The defaults answer as if nothing had changed.
pub trait Recheck: Send + Sync {
    /// Why the bind must not be sent without another look.
    fn gone(&self, _request: &BindRequest) -> Option<Gone> {
        None
    }

    /// Where the watch shows the pod of a bind that was answered.
    fn shown(&self, request: &BindRequest) -> Shown {
        Shown::On(request.node.clone())
    }

    fn victim(&self, _uid: &str) -> Victim {
        Victim::Awaited
    }

    /// Whether the pod `uid` still gives back its reservation of the claim with the uid `claim_uid`, and has not reserved it anew since.
    fn is_giving_back(&self, _uid: &str, _claim: &ClaimKey, _claim_uid: &str) -> bool {
        true
    }

    /// Takes in that the API server has answered the deletion of a victim: whoever is asked next knows that it terminates, although
    /// the watch shows that later.
    fn deletion_answered(&self, _uid: &str) {}
}

/// As if nothing had changed: for those who know no cluster.
pub struct Unchanged;

impl Recheck for Unchanged {}
