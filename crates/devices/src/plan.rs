//! What is to be found: the requests of all claims in their order, checked before the search, after `Allocate` and
//! `validateDeviceRequest` of `allocator_incubating.go`.

use crate::candidates::{Collected, Judge};
use crate::constraints::Constraint;
use crate::model::{
    AllocationMode, DeviceClass, DeviceClasses, DeviceRequest, Request, RequestDetails, ResourceClaim, Str,
};
use crate::outcome::Stop;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The most devices that the API takes in the result of a claim.
pub(crate) const ALLOCATION_RESULTS_MAX_SIZE: i64 = 32;

/// A request or a subrequest.
#[derive(Debug)]
pub(crate) struct Slot<'a> {
    pub(crate) claim: &'a ResourceClaim,
    pub(crate) name: &'a Str,
    /// The request that a subrequest belongs to.
    pub(crate) parent: Option<&'a Str>,
    pub(crate) details: &'a RequestDetails,
    pub(crate) admin_access: bool,
    pub(crate) class: &'a DeviceClass,
    /// How many devices it needs.
    pub(crate) number: i64,
    /// With [`AllocationMode::All`], which ones.
    pub(crate) all: Option<Arc<[u32]>>,
    /// Its claim's constraints that concern it, as indices into those of the plan.
    pub(crate) constraints: SmallVec<[u32; 2]>,
    /// Slots that ask the same selectors have the same memo.
    pub(crate) memo: usize,
}

impl Slot<'_> {
    /// As results name it.
    pub(crate) fn full_name(&self) -> Str {
        match self.parent {
            Some(parent) => format!("{parent}/{}", self.name).into(),
            None => self.name.clone(),
        }
    }

    fn asks_the_same_as(&self, other: &Slot<'_>) -> bool {
        std::ptr::eq(self.class, other.class) && self.details.selectors == other.details.selectors
    }
}

/// One request: a slot, or several of which one is needed.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) claim: usize,
    pub(crate) slots: Range<usize>,
    /// Whether it has subrequests.
    pub(crate) chooses: bool,
    /// Whether it is the first of its claim.
    pub(crate) opens_claim: bool,
}

/// All requests of all claims.
#[derive(Debug, Default)]
pub(crate) struct Plan<'a> {
    pub(crate) asks: Vec<Ask>,
    pub(crate) slots: Vec<Slot<'a>>,
    pub(crate) constraints: Vec<Constraint<'a>>,
}

impl<'a> Plan<'a> {
    /// Claim by claim and request by request; the first thing that is wrong ends it. `known` is what was found out before, and
    /// gets the rest.
    pub(crate) fn new(
        claims: &[&'a ResourceClaim],
        classes: &'a dyn DeviceClasses,
        judge: &mut Judge<'a, '_>,
        known: Known<'_>,
    ) -> Result<Self, Stop> {
        let Known { memos, all, collected } = known;
        let mut making = Making { plan: Self::default(), classes, judge, memos, all, collected, seen: 0 };
        for (index, claim) in claims.iter().enumerate() {
            making.add_claim(index, claim)?;
        }
        Ok(making.plan)
    }
}

/// What takes time to find out, of [`Progress`](crate::Progress).
pub(crate) struct Known<'j> {
    pub(crate) memos: &'j mut Vec<usize>,
    /// The devices of those requests for all that were looked at.
    pub(crate) all: &'j mut Vec<Arc<[u32]>>,
    /// Some of those of the first that comes then.
    pub(crate) collected: &'j mut Collected,
}

/// A plan that is being made.
struct Making<'a, 's, 'j> {
    plan: Plan<'a>,
    classes: &'a dyn DeviceClasses,
    judge: &'j mut Judge<'a, 's>,
    memos: &'j mut Vec<usize>,
    all: &'j mut Vec<Arc<[u32]>>,
    collected: &'j mut Collected,
    /// How many of `all` are in the plan.
    seen: usize,
}

impl<'a> Making<'a, '_, '_> {
    fn add_claim(&mut self, index: usize, claim: &'a ResourceClaim) -> Result<(), Stop> {
        let (first, mut least) = (self.plan.slots.len(), 0_i64);
        for (position, request) in claim.requests.iter().enumerate() {
            let start = self.plan.slots.len();
            let chooses = matches!(request.request, Request::FirstAvailable(_));
            self.add_request(claim, request)?;
            let slots = start..self.plan.slots.len();
            let fewest = self.plan.slots[slots.clone()].iter().map(|slot| slot.number).min();
            least = least.saturating_add(fewest.unwrap_or_default());
            self.plan.asks.push(Ask { claim: index, slots, chooses, opens_claim: position == 0 });
        }
        if least > ALLOCATION_RESULTS_MAX_SIZE {
            return Err(Stop::Error(format!(
                "claim {claim}: number of requested devices {least} exceeds the claim limit of {ALLOCATION_RESULTS_MAX_SIZE}"
            )));
        }
        self.add_constraints(claim, first)
    }

    fn add_request(&mut self, claim: &'a ResourceClaim, request: &'a DeviceRequest) -> Result<(), Stop> {
        let name = &request.name;
        match &request.request {
            Request::Exactly { details, admin_access } => {
                self.add_slot(Check { claim, name, parent: None, details, admin_access: *admin_access })
            }
            Request::FirstAvailable(subrequests) if subrequests.is_empty() => {
                Err(Stop::Unsupported(format!("claim {claim}, request {name}: unknown request type")))
            }
            Request::FirstAvailable(subrequests) => subrequests.iter().try_for_each(|sub| {
                let details = &sub.details;
                self.add_slot(Check { claim, name: &sub.name, parent: Some(name), details, admin_access: false })
            }),
        }
    }

    fn add_slot(&mut self, check: Check<'a>) -> Result<(), Stop> {
        let class = check.class(self.classes).map_err(|problem| check.error(&problem))?;
        let Check { claim, name, parent, details, admin_access } = check;
        let mut slot = Slot {
            claim,
            name,
            parent,
            details,
            admin_access,
            class,
            number: details.count,
            all: None,
            constraints: SmallVec::new(),
            memo: 0,
        };
        slot.memo = self.memo_of(&slot);
        match &details.allocation_mode {
            AllocationMode::ExactCount => {}
            AllocationMode::All => {
                let all = self.all_of(&slot)?;
                slot.number = all.len() as i64;
                slot.all = Some(all);
            }
            AllocationMode::Other(mode) => return Err(check.error(&format!("unsupported count mode {mode}"))),
        }
        self.plan.slots.push(slot);
        Ok(())
    }

    fn memo_of(&mut self, slot: &Slot<'a>) -> usize {
        let number = self.plan.slots.len();
        if number == self.memos.len() {
            let same = self.plan.slots.iter().find(|other| other.asks_the_same_as(slot));
            self.memos.push(same.map_or(number, |same| same.memo));
        }
        self.memos[number]
    }

    fn all_of(&mut self, slot: &Slot<'a>) -> Result<Arc<[u32]>, Stop> {
        if self.seen == self.all.len() {
            self.all.push(self.judge.collect_all(slot, slot.name, self.collected)?);
        }
        self.seen += 1;
        Ok(self.all[self.seen - 1].clone())
    }

    fn add_constraints(&mut self, claim: &'a ResourceClaim, first_slot: usize) -> Result<(), Stop> {
        for (index, constraint) in claim.constraints.iter().enumerate() {
            let Some(constraint) = Constraint::new(constraint) else {
                let problem = "empty constraint (unsupported constraint type?)";
                return Err(Stop::Error(format!("claim {claim}, constraint #{index}: {problem}")));
            };
            let number = self.plan.constraints.len() as u32;
            for slot in &mut self.plan.slots[first_slot..] {
                if constraint.concerns(slot.name, slot.parent.map(AsRef::as_ref)) {
                    slot.constraints.push(number);
                }
            }
            self.plan.constraints.push(constraint);
        }
        Ok(())
    }
}

/// A request or subrequest that is looked at before the search.
#[derive(Clone, Copy)]
struct Check<'a> {
    claim: &'a ResourceClaim,
    name: &'a Str,
    parent: Option<&'a Str>,
    details: &'a RequestDetails,
    admin_access: bool,
}

impl<'a> Check<'a> {
    /// Its class, or what is wrong.
    fn class(&self, classes: &'a dyn DeviceClasses) -> Result<&'a DeviceClass, String> {
        if let Some(index) = self.details.selectors.iter().position(|selector| selector.cel.is_none()) {
            return Err(format!("selector #{index}: CEL expression empty (unsupported selector type?)"));
        }
        let name = &self.details.device_class_name;
        if name.is_empty() {
            return Err("missing device class name (unsupported request type?)".to_owned());
        }
        classes.class(name).ok_or_else(|| {
            let error = format!("deviceclass.resource.k8s.io {name:?} not found");
            format!("could not retrieve device class {name}: {error}")
        })
    }

    /// The first of these has a comma where the others have a colon, which upstream's texts have, too.
    fn error(&self, problem: &str) -> Stop {
        let sign = if problem.starts_with("selector #") { "," } else { ":" };
        Stop::Error(format!("claim {}, request {}{sign} {problem}", self.claim, self.name))
    }
}
