use crate::candidates::{Candidates, Judge};
use crate::model::{AllocationResult, DeviceClasses, ResourceClaim};
use crate::node_selector::Node;
use crate::outcome::{Outcome, Stop};
use crate::plan::Plan;
use crate::pools::Pools;
use crate::result::{self, ShareIds};
use crate::search::Search;
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
    /// `steps` is how long the search may last and becomes what is left of it. A step is a decision or a look at one device, about 20 ns;
    /// asking one selector counts as 16. Without a limit the search takes exponentially long where many devices almost fit (#131730).
    pub fn allocate(
        &self,
        node: Node<'_>,
        claims: &[&ResourceClaim],
        select: &mut dyn Select,
        share_ids: &mut dyn ShareIds,
        steps: &mut u64,
    ) -> Outcome {
        match Pools::for_node(self.slices, &node) {
            Ok(pools) => self.allocate_from(&pools, node, claims, select, share_ids, steps),
            Err(error) => Outcome::Error(error),
        }
    }

    /// The same with pools that were gathered for the node before.
    pub fn allocate_from(
        &self,
        pools: &Pools,
        node: Node<'_>,
        claims: &[&ResourceClaim],
        select: &mut dyn Select,
        share_ids: &mut dyn ShareIds,
        steps: &mut u64,
    ) -> Outcome {
        let candidates = Candidates::new(node, pools, self.allocated);
        let mut judge = Judge::new(&candidates, select, steps);
        match solve(&candidates, &mut judge, claims, self.classes, share_ids) {
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
    claims: &[&'a ResourceClaim],
    classes: &'a dyn DeviceClasses,
    share_ids: &mut dyn ShareIds,
) -> Result<Option<Vec<AllocationResult>>, Stop> {
    let mut plan = Plan::new(claims, classes, judge)?;
    let takes = Takes::new(candidates, &mut plan, claims.len());
    let mut search = Search::new(judge, &plan, takes);
    if !search.run()? {
        return Ok(None);
    }
    let solution = (search.takes.stack(), &search.chosen()[..]);
    result::of_solution(claims, &plan, candidates, solution, share_ids).map(Some)
}
