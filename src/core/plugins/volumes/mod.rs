//! What the volume plugins know of one pod in one attempt.

use super::relations::{Cx, Stop};
use super::{Overlay, Verdict};
use crate::core::ledger::NodeId;
use crate::core::model::{Pod, Str};
use std::marker::PhantomData;

/// PreFilter's findings on the pod's volumes.
#[derive(Debug)]
pub(crate) struct Attempt<'t> {
    ledger: PhantomData<&'t ()>,
}

impl<'t> Attempt<'t> {
    /// Resolves the pod's volumes; none where it has none that a plugin looks at.
    #[allow(clippy::unnecessary_wraps)]
    pub(crate) fn prepare(_cx: Cx<'t>, _pod: &Pod) -> Result<Option<Self>, Stop> {
        Ok(None)
    }

    pub(crate) fn filter(&self, _cx: Cx<'_>, _node: NodeId, _overlay: &Overlay) -> Verdict {
        Verdict::FITS
    }

    /// What a filter failed with, if one did.
    pub(crate) fn failure(&self) -> Option<Str> {
        None
    }
}
