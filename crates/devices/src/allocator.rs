use crate::candidates::{Candidates, Judge};
use crate::model::{AllocationResult, DeviceClasses, ResourceClaim};
use crate::node_selector::Node;
use crate::outcome::{Outcome, Stop};
use crate::plan::{Known, Plan};
use crate::pools::Pools;
use crate::progress::Progress;
use crate::result::{self, ShareIds};
use crate::search::{Search, Stage};
use crate::select::Select;
use crate::slices::Slices;
use crate::state::AllocatedState;
use crate::takes::Takes;

/// Finds devices for the claims of one pod, on one node after the other.
pub struct Allocator<'a> {
    pub slices: &'a Slices,
    pub allocated: &'a AllocatedState,
    pub classes: &'a dyn DeviceClasses,
}

impl Allocator<'_> {
    /// The devices that the claims, all of them unallocated, get on the node. Each claim must be there once.
    ///
    /// `steps` is how long the search may last. It becomes what is left, below zero where the last evaluation took more than that. A search
    /// whose steps are used up before its end ends in [`Outcome::OutOfSteps`]. A step is a decision or a look at one device, about 20 ns;
    /// asking one selector counts as 16, and what it evaluates. Without a limit the search takes exponentially long where many devices
    /// almost fit (#131730).
    pub fn allocate(
        &self,
        node: Node<'_>,
        claims: &[&ResourceClaim],
        select: &mut dyn Select,
        share_ids: &mut dyn ShareIds,
        steps: &mut i64,
    ) -> Outcome {
        self.resume(&mut Progress::default(), node, claims, select, share_ids, steps)
    }

    /// The same in parts: after [`Outcome::OutOfSteps`] the same question with the same `progress` goes on where it ended. After
    /// [`Outcome::Allocated`] it gives the same devices again, without a search.
    ///
    /// It is the same question as long as slices, classes, what is allocated, the node's labels, and the requests and constraints of the
    /// claims are the same. Costs O(devices that the node sees) beyond the steps.
    pub fn resume(
        &self,
        progress: &mut Progress,
        node: Node<'_>,
        claims: &[&ResourceClaim],
        select: &mut dyn Select,
        share_ids: &mut dyn ShareIds,
        steps: &mut i64,
    ) -> Outcome {
        let pools = match Pools::for_node(self.slices, &node) {
            Ok(pools) => pools,
            Err(error) => return Outcome::Error(error),
        };
        let candidates = Candidates::new(node, &pools, self.allocated);
        let Progress { memos, known, asking, all, collected, stage } = progress;
        let mut judge = Judge::new(&candidates, select, steps, (known, asking));
        match solve(&candidates, &mut judge, Known { memos, all, collected }, stage, claims, self.classes, share_ids) {
            Ok(Some(allocations)) => Outcome::Allocated(allocations),
            Ok(None) if pools.any_is_invalid() => Outcome::FailedOnNode("invalid resource pools were encountered"),
            Ok(None) => Outcome::DoesNotFit,
            Err(stop) => stop.into(),
        }
    }
}

fn solve<'a, 's>(
    candidates: &'s Candidates<'a>,
    judge: &mut Judge<'a, 's>,
    known: Known<'_>,
    stage: &mut Option<Stage>,
    claims: &[&'a ResourceClaim],
    classes: &'a dyn DeviceClasses,
    share_ids: &mut dyn ShareIds,
) -> Result<Option<Vec<AllocationResult>>, Stop> {
    let mut plan = Plan::new(claims, classes, judge, known)?;
    let takes = Takes::new(candidates, &mut plan);
    let stage = stage.get_or_insert_with(|| Stage::first(claims.len()));
    let mut search = Search::at(stage, judge, &plan, takes);
    if !search.run()? {
        return Ok(None);
    }
    let solution = (search.takes.stack(), &search.chosen()[..]);
    result::of_solution(claims, &plan, candidates, solution, share_ids).map(Some)
}
