//! DynamicResources: the claims of a pod that are allocated must be usable on the node, and those that are not must find devices there.
//! After `pkg/scheduler/framework/plugins/dynamicresources`.
//!
//! ```text
//!  resolve    which claims a pod's entries mean
//!  extended   the claim for a pod's extended resources
//!  readiness  whether devices that a driver must prepare are ready
//!  selectors  compiled CEL expressions
//!  kept       what looks found on rows
//!  survey     what keeps each request from each device, for people
//!  drivers    whose devices a pod may wait for
//! ```
//!
//! Which devices a node gives is decided by `berth_devices`; what is allocated, by the ledger.

mod drivers;
mod extended;
#[cfg(test)]
mod hostile_tests;
pub(crate) mod kept;
#[cfg(test)]
mod kept_tests;
mod readiness;
mod resolve;
mod selectors;
mod survey;
mod unknown;

pub(crate) use drivers::classes_waited_for;
pub(crate) use extended::request_of;
pub(crate) use readiness::{AwaitedDevice, Readiness, awaited_devices, readiness};
pub(crate) use resolve::waits_for;
pub use survey::{ClaimSurvey, SurveyedAsk};
pub(crate) use unknown::{UnknownFields, unknown_fields};

use super::context::{Cause, Plugin, PluginContext, PreFilterRefusal, Stop, Verdict, Work, filter_failed};
use crate::io::IdleClaim;
use crate::ledger::{ClaimPlan, DeviceTable, ExtendedPlan, Ledger, NodeId};
use crate::limits::{DEVICE_SOLUTION_BYTES, DEVICE_STEPS, DEVICE_STEPS_REPEATED};
use crate::model::{ExtendedClaim, Labels, Pod, ResourceClaim, Str};
use crate::profile::CompiledProfile;
use berth_devices::model::{AllocationResult, Request, ResourceClaim as ClaimSpec};
use berth_devices::node_selector::{Node, NodeLabels, NodeSelector};
use berth_devices::{Allocator, Outcome, Progress, Select, ShareIds};
use extended::{Extended, Wants};
use kept::{Asked, Found, Kept};
use resolve::resolve;
use smallvec::SmallVec;
use std::cell::{Cell, OnceCell, RefCell};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// What the score counts for the first alternative of a prioritized list; each further one counts one less.
const ALTERNATIVES: i64 = 8;

/// Whether the profile judges the pod by its claims, those included that are made for its extended resources.
pub(crate) fn concerns(profile: &CompiledProfile, ledger: &Ledger, pod: &Pod) -> bool {
    profile.filters.has(Plugin::DynamicResources) && (pod.resource_claims.is_some() || extended::is_backed(ledger, pod))
}

/// The claims of the pod that have no devices yet, where the profile looks at claims; none where they cannot be used.
pub(crate) fn open_claims(cx: PluginContext<'_>, pod: &Pod) -> Vec<Arc<ClaimSpec>> {
    if !cx.profile.filters.has(Plugin::DynamicResources) {
        return Vec::new();
    }
    let claims = resolve(cx.ledger.devices(), pod).unwrap_or_default();
    claims.iter().filter(|claim| claim.allocation.is_none()).map(|claim| claim.spec.clone()).collect()
}

/// What PreFilter found out.
#[derive(Debug)]
pub(crate) struct State<'t> {
    /// In the pod's order, each once: upstream allocates a claim twice that a pod names twice.
    claims: Vec<&'t Arc<ResourceClaim>>,
    /// The requests of those that are to be allocated.
    open: Vec<&'t ClaimSpec>,
    extended: Option<Extended<'t>>,
    kept: &'t RefCell<Kept>,
    /// Bit by bit, the claims that were not available on some node.
    unavailable: Cell<u128>,
    failure: OnceCell<Str>,
}

impl<'t> State<'t> {
    /// `None` where the pod needs no claims.
    pub(crate) fn prepare(cx: PluginContext<'t>, pod: &Pod, kept: &'t RefCell<Kept>) -> Result<Option<Self>, Stop> {
        let devices = cx.ledger.devices();
        let is_concerned = cx.profile.filters.has(Plugin::DynamicResources);
        let claims = if is_concerned { resolve(devices, pod).map_err(refused)? } else { Vec::new() };
        let extended = if is_concerned { Extended::of(cx.ledger, pod) } else { None };
        if claims.is_empty() && extended.is_none() {
            kept.borrow_mut().end();
            return Ok(None);
        }
        let mut open = Vec::new();
        for claim in &claims {
            if claim.allocation.is_none() {
                check_requests(devices, claim)?;
                open.push(&*claim.spec);
            }
        }
        kept.borrow_mut().begin(cx.ledger, pod, &claims, extended.as_ref().map(Extended::containers));
        Ok(Some(Self { claims, open, extended, kept, unavailable: Cell::new(0), failure: OnceCell::new() }))
    }

    /// Whether the claims let the pod onto the node. What ends the attempt is noted.
    pub(crate) fn filter(&self, cx: PluginContext<'_>, node: NodeId) -> Verdict {
        let asked = match self.wants(cx, node) {
            Wants::Of(wants) => Asked::now(cx.ledger, node, wants),
            Wants::Refused(cause) => return Verdict::unresolvable(cause),
        };
        let known = self.kept.borrow().found(asked, |unavailable, failure| self.note(unavailable, failure));
        known.unwrap_or_else(|| {
            let found = self.look(cx, asked, &mut { DEVICE_STEPS }).unwrap_or_else(|| timed_out(cx, node));
            self.note(found.unavailable, found.failure.as_ref());
            found.verdict
        })
    }

    fn note(&self, unavailable: u128, failure: Option<&Str>) {
        self.unavailable.set(self.unavailable.get() | unavailable);
        if let Some(text) = failure {
            self.failure.get_or_init(|| filter_failed(Plugin::DynamicResources, text));
        }
    }

    /// What devices are to provide of the pod's extended resources.
    fn wants(&self, cx: PluginContext<'_>, node: NodeId) -> Wants {
        self.extended.as_ref().map_or(Wants::Of(0), |extended| extended.on(cx.ledger, node))
    }

    /// Looks at the node unless it is known. Where `work` is used up, the next look goes on.
    pub(crate) fn judge(&self, cx: PluginContext<'_>, node: NodeId, work: &mut Work) -> Result<(), Stop> {
        let Wants::Of(wants) = self.wants(cx, node) else { return Ok(()) };
        let asked = Asked::now(cx.ledger, node, wants);
        if self.kept.borrow().knows(asked) {
            return Ok(());
        }
        work.take(1)?;
        let (found, _) = work.search_devices(|steps| self.look(cx, asked, steps));
        found.map(drop).ok_or(Stop::Unfinished)
    }

    /// Looks at the node and keeps what is found; `None` where that is unknown after so many steps.
    fn look(&self, cx: PluginContext<'_>, asked: Asked, steps: &mut i64) -> Option<Found> {
        let unavailable = self.unavailable_on(cx, asked.node);
        let elsewhere = || Found { unavailable, ..Found::refused(Cause::ClaimElsewhere) };
        let (found, solution) = if self.open.is_empty() && asked.extended == 0 {
            (if unavailable == 0 { Found::fits(0) } else { elsewhere() }, None)
        } else {
            let (outcome, solution) = self.search(cx, asked, steps)?;
            let found = match outcome {
                Outcome::Allocated(_) if unavailable != 0 => elsewhere(),
                Outcome::Allocated(results) => Found::fits(self.raw_score(&results)),
                Outcome::DoesNotFit => Found::refused(Cause::Devices),
                Outcome::FailedOnNode(_) => Found::refused(Cause::InvalidPools),
                Outcome::Error(text) | Outcome::Unsupported(text) => Found::failed(text),
                Outcome::OutOfSteps => timed_out(cx, asked.node),
            };
            (found, solution)
        };
        self.kept.borrow_mut().keep(asked, &found, solution);
        Some(found)
    }

    /// Searches for devices, or goes on with it; `None` where it is to go on after so many steps. What was found is returned as well if it
    /// took long.
    fn search(&self, cx: PluginContext<'_>, asked: Asked, steps: &mut i64) -> Option<(Outcome, Option<Box<Progress>>)> {
        let mut search = self.kept.borrow_mut().take_unfinished(asked);
        // However it is divided, it ends at the same step: what a look took beyond what it was given counts for the next.
        let given = (*steps).min(DEVICE_STEPS - search.steps);
        let mut left = given;
        let outcome = self.allocate(cx, asked, &mut search.progress, &mut NoShares, &mut left);
        search.steps += given - left;
        *steps -= given - left;
        if outcome == Outcome::OutOfSteps && search.steps < DEVICE_STEPS {
            self.kept.borrow_mut().keep_unfinished(asked, search);
            return None;
        }
        let solution = if search.steps > DEVICE_STEPS_REPEATED { search.progress.of_solution() } else { None };
        let solution = solution.filter(|solution| solution.bytes() <= DEVICE_SOLUTION_BYTES);
        Some((outcome, solution.map(Box::new)))
    }

    /// Bit by bit, the allocated claims that the node cannot use.
    fn unavailable_on(&self, cx: PluginContext<'_>, node: NodeId) -> u128 {
        let unusable = self.claims.iter().enumerate().filter(|(_, claim)| !is_usable(cx, claim, node));
        unusable.fold(0, |bits, (index, _)| bits | bit(index))
    }

    /// For the claims that are to be allocated, and last the one that is made for extended resources.
    fn allocate(
        &self,
        cx: PluginContext<'_>,
        asked: Asked,
        progress: &mut Progress,
        shares: &mut dyn ShareIds,
        steps: &mut i64,
    ) -> Outcome {
        let made = self.made(asked);
        let claims: SmallVec<[&ClaimSpec; 2]> =
            self.open.iter().copied().chain(made.as_ref().map(|one| &one.spec)).collect();
        allocate(cx, asked.node, &claims, progress, &mut self.kept.borrow_mut().selectors, shares, steps)
    }

    /// The claim that is made for these of the extended resources.
    fn made(&self, asked: Asked) -> Option<Arc<ExtendedClaim>> {
        self.extended.as_ref().filter(|_| asked.extended != 0).map(|extended| extended.claim(asked.extended))
    }

    /// How good the alternatives are that were taken of prioritized lists.
    fn raw_score(&self, results: &[AllocationResult]) -> i64 {
        let mut results = results.iter();
        let of_claim = |claim: &&Arc<ResourceClaim>| {
            let allocated = claim.allocation.as_ref().map(|allocation| &allocation.result);
            allocated.or_else(|| results.next()).map_or(0, |result| alternatives_taken(&claim.spec, result))
        };
        self.claims.iter().map(of_claim).sum()
    }

    /// What is decided for the claims on the node, which was just found to fit; `None` where it does not any more.
    pub(crate) fn plan(&self, cx: PluginContext<'_>, pod: &Pod, node: NodeId) -> Option<ClaimPlan> {
        let Wants::Of(wants) = self.wants(cx, node) else { return None };
        let asked = Asked::now(cx.ledger, node, wants);
        let made = self.made(asked);
        let mut results = Vec::new();
        if !self.open.is_empty() || made.is_some() {
            let mut shares = Shares { pod, version: cx.ledger.version(), next: 0 };
            let mut solution = self.kept.borrow_mut().take_solution(asked);
            let (mut new, mut steps) = (Progress::default(), DEVICE_STEPS);
            let progress = solution.as_deref_mut().unwrap_or(&mut new);
            let outcome = self.allocate(cx, asked, progress, &mut shares, &mut steps);
            if let Some(solution) = solution {
                self.kept.borrow_mut().keep_solution(asked, solution);
            }
            let Outcome::Allocated(found) = outcome else { return None };
            results = found;
        }
        let mut results = results.into_iter();
        let of_claim = |claim: &&Arc<ResourceClaim>| {
            let result = if claim.allocation.is_none() { Some(Arc::new(results.next()?)) } else { None };
            Some((claim.key.clone(), claim.uid.clone(), result))
        };
        let claims = self.claims.iter().map(of_claim).collect::<Option<_>>()?;
        let extended = match made {
            None => None,
            Some(claim) => Some(ExtendedPlan { claim, allocation: Arc::new(results.next()?) }),
        };
        Some(ClaimPlan { claims, extended })
    }

    /// A claim that is in the way, and that nobody but the pod uses: what was made for its extended resources, whatever else keeps the pod
    /// from nodes, or an allocated one that was not available on some node. Of those upstream takes any, this is the first.
    pub(crate) fn idle_claim(&self, pod: &Pod) -> Option<IdleClaim> {
        if let Some(claim) = self.extended.as_ref().and_then(Extended::leftover) {
            return Some(idle(claim));
        }
        let bits = self.unavailable.get();
        let unavailable = self.claims.iter().enumerate().filter(|(index, _)| bits & bit(*index) != 0);
        let mut of_pod = unavailable
            .filter(|(_, claim)| claim.allocation.is_some() && claim.reserved_for.iter().all(|uid| *uid == pod.uid));
        let (_, claim) = of_pod.next()?;
        Some(idle(claim))
    }

    /// Upstream's text of what ended the attempt.
    pub(crate) fn failure(&self) -> Option<Str> {
        self.failure.get().cloned()
    }
}

/// The devices that the claims, none of which has any, get on the node: see [`Allocator::resume`].
pub(crate) fn allocate(
    cx: PluginContext<'_>,
    node: NodeId,
    claims: &[&ClaimSpec],
    progress: &mut Progress,
    select: &mut dyn Select,
    shares: &mut dyn ShareIds,
    steps: &mut i64,
) -> Outcome {
    let (nodes, devices) = (cx.ledger.nodes(), cx.ledger.devices());
    let labels = LabelsOf(nodes.labels(node));
    let node = Node { name: nodes.name(node), labels: &labels };
    let allocator = Allocator { slices: devices.slices(), allocated: devices.allocated(), classes: devices.classes() };
    allocator.resume(progress, node, claims, select, shares, steps)
}

fn timed_out(cx: PluginContext<'_>, node: NodeId) -> Found {
    Found::failed(format!("node {}: timed out trying to allocate devices", cx.ledger.nodes().name(node)))
}

/// One for each claim of a pod.
fn bit(claim: usize) -> u128 {
    const { assert!(crate::limits::RESOURCE_CLAIMS_PER_POD <= u128::BITS as usize) }
    1 << claim
}

fn idle(claim: &ResourceClaim) -> IdleClaim {
    IdleClaim {
        key: claim.key.clone(),
        uid: claim.uid.clone(),
        resource_version: claim.resource_version.clone(),
        is_extended: claim.is_extended,
    }
}

fn refused(text: String) -> Stop {
    Stop::Refused(PreFilterRefusal::unresolvable(Plugin::DynamicResources, text))
}

fn failed(text: &str) -> Stop {
    Stop::Failed(format!("running PreFilter plugin {:?}: {text}", Plugin::DynamicResources.name()).into())
}

/// What PreFilter asks of a claim that is to be allocated.
fn check_requests(devices: &DeviceTable, claim: &ResourceClaim) -> Result<(), Stop> {
    if devices.is_in_flight(&claim.key) {
        return Err(refused(format!("resource claim {} is in the process of being allocated", claim.key)));
    }
    let check = |request: &str, class: &Str| {
        if class.is_empty() {
            return Err(failed(&format!("request {request}: unsupported request type")));
        }
        if !devices.classes().contains_key(class) {
            return Err(refused(format!("request {request}: device class {class} does not exist")));
        }
        Ok(())
    };
    for request in &claim.spec.requests {
        match &request.request {
            Request::Exactly { details, .. } => check(&request.name, &details.device_class_name)?,
            Request::FirstAvailable(alternatives) => {
                for one in alternatives {
                    check(&format!("{}/{}", request.name, one.name), &one.details.device_class_name)?;
                }
            }
        }
    }
    Ok(())
}

/// Whether the node can use the devices that the claim has, if it has some.
fn is_usable(cx: PluginContext<'_>, claim: &ResourceClaim, node: NodeId) -> bool {
    let nodes = cx.ledger.nodes();
    let labels = LabelsOf(nodes.labels(node));
    let node = Node { name: nodes.name(node), labels: &labels };
    let is_here = node_selector(claim).is_none_or(|selector| selector.matches(&node).unwrap_or(false));
    is_here && !readiness::has_failed(claim) && !cx.ledger.devices().is_late(&claim.key)
}

fn node_selector(claim: &ResourceClaim) -> Option<&NodeSelector> {
    claim.allocation.as_ref()?.result.node_selector.as_ref()
}

/// For each prioritized list 8 for its first alternative, 7 for the second, and so on.
fn alternatives_taken(spec: &ClaimSpec, result: &AllocationResult) -> i64 {
    let mut score = 0;
    for request in &spec.requests {
        let Request::FirstAvailable(alternatives) = &request.request else { continue };
        for (index, one) in alternatives.iter().enumerate() {
            let name = format!("{}/{}", request.name, one.name);
            if result.results.iter().any(|result| *result.request == *name) {
                score += ALTERNATIVES - index as i64;
            }
        }
    }
    score
}

pub(crate) struct LabelsOf<'a>(pub(crate) &'a Labels);

impl NodeLabels for LabelsOf<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(AsRef::as_ref)
    }
}

/// While nodes are only compared, nobody reads the names of shares.
pub(crate) struct NoShares;

impl ShareIds for NoShares {
    fn next_share_id(&mut self) -> Str {
        Str::default()
    }
}

/// Names shares after the pod, and the ledger's version at which it was decided: the same decision has the same names, and another has
/// others.
struct Shares<'a> {
    pod: &'a Pod,
    version: u64,
    next: u32,
}

impl ShareIds for Shares<'_> {
    fn next_share_id(&mut self) -> Str {
        self.next += 1;
        let hash = |half: u8| {
            BuildHasherDefault::<DefaultHasher>::default().hash_one((&*self.pod.uid, self.version, self.next, half))
        };
        let (high, low) = (hash(0), hash(1));
        // The bits of a version 4 UUID, which API servers check the form of.
        let high = high & 0xffff_ffff_ffff_0fff | 0x4000;
        let low = low & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
        let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
        format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff).into()
    }
}
