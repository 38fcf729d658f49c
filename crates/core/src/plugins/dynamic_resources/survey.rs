//! What keeps the claims of a pod from the devices of a node: for people.

use super::extended::{Extended, Wants};
use super::selectors::Selectors;
use super::{LabelsOf, PluginContext, is_usable, open_claims, resolve::resolve};
use crate::ledger::{Ledger, NodeId};
use crate::model::{ClaimKey, Pod, ResourceClaim, Str};
use crate::profile::CompiledProfile;
use berth_devices::model::{DeviceRequest, Request, RequestDetails, ResourceClaim as ClaimSpec};
use berth_devices::node_selector::Node;
use berth_devices::{Allocator, Survey, SurveyedRequest};
use std::sync::Arc;

/// The claims of one pod, to be looked at on one node after the other. Selectors are compiled once.
#[derive(Debug)]
pub struct ClaimSurvey<'t> {
    cx: PluginContext<'t>,
    allocated: Vec<&'t Arc<ResourceClaim>>,
    open: Vec<Arc<ClaimSpec>>,
    extended: Option<Extended<'t>>,
    selectors: Selectors,
}

/// One request, or one alternative of a prioritized list.
#[derive(Debug, Clone)]
pub struct SurveyedAsk {
    /// One that is made for extended resources has no name yet.
    pub claim: ClaimKey,
    /// As results name it: `REQUEST`, or `REQUEST/SUBREQUEST`.
    pub request: String,
    /// The request that has it as an alternative.
    pub alternative_of: Option<Str>,
    pub details: RequestDetails,
    admin_access: bool,
}

impl<'t> ClaimSurvey<'t> {
    pub fn new(profile: &'t CompiledProfile, ledger: &'t Ledger, pod: &Pod) -> Self {
        let cx = PluginContext { profile, ledger };
        let mut allocated = resolve(ledger.devices(), pod).unwrap_or_default();
        allocated.retain(|claim| claim.allocation.is_some());
        let (open, extended) = (open_claims(cx, pod), Extended::of(ledger, pod));
        Self { cx, allocated, open, extended, selectors: Selectors::default() }
    }

    /// Whether the pod names the claim, which is allocated.
    pub fn has(&self, claim: &ResourceClaim) -> bool {
        self.allocated.iter().any(|own| own.key == claim.key)
    }

    /// The claims of the pod that are allocated and cannot be used on the node.
    pub fn unavailable_on(&self, node: &str) -> Vec<&'t Arc<ResourceClaim>> {
        let Some(node) = self.cx.ledger.nodes().find(node) else { return Vec::new() };
        self.allocated.iter().copied().filter(|claim| !is_usable(self.cx, claim, node)).collect()
    }

    /// Each request of the claims that are not allocated, in their order, and what keeps it from each device that the node sees; none where
    /// they cannot be judged. O(requests · devices that the node sees).
    pub fn on(&mut self, node: &str) -> Vec<(SurveyedAsk, Survey)> {
        let Some(node) = self.cx.ledger.nodes().find(node) else { return Vec::new() };
        let made = match self.extended.as_ref().map(|extended| (extended, extended.on(self.cx.ledger, node))) {
            None | Some((_, Wants::Of(0))) => None,
            Some((extended, Wants::Of(wants))) => Some(extended.claim(wants)),
            // Devices are not what is missing there.
            Some((_, Wants::Refused(_))) => return Vec::new(),
        };
        let claims = self.open.iter().map(|claim| &**claim).chain(made.as_ref().map(|made| &made.spec));
        let asks: Vec<SurveyedAsk> = claims.flat_map(SurveyedAsk::all_of).collect();
        let surveyed = asks.into_iter().filter_map(|ask| {
            let survey = survey(self.cx, node, &ask, &mut self.selectors)?;
            Some((ask, survey))
        });
        surveyed.collect()
    }
}

impl SurveyedAsk {
    fn all_of(claim: &ClaimSpec) -> Vec<Self> {
        let mut asks = Vec::new();
        for DeviceRequest { name, request } in &claim.requests {
            let claim = ClaimKey { namespace: claim.namespace.clone(), name: claim.name.clone() };
            match request {
                Request::Exactly { details, admin_access } => asks.push(Self {
                    claim,
                    request: name.to_string(),
                    alternative_of: None,
                    details: details.clone(),
                    admin_access: *admin_access,
                }),
                Request::FirstAvailable(alternatives) => asks.extend(alternatives.iter().map(|one| Self {
                    claim: claim.clone(),
                    request: format!("{name}/{}", one.name),
                    alternative_of: Some(name.clone()),
                    details: one.details.clone(),
                    admin_access: false,
                })),
            }
        }
        asks
    }
}

/// `None` where there is no such class, or a node selector cannot be read: then another text says so.
fn survey(cx: PluginContext<'_>, node: NodeId, ask: &SurveyedAsk, selectors: &mut Selectors) -> Option<Survey> {
    let (nodes, devices) = (cx.ledger.nodes(), cx.ledger.devices());
    let labels = LabelsOf(nodes.labels(node));
    let node = Node { name: nodes.name(node), labels: &labels };
    let SurveyedAsk { details, admin_access, .. } = ask;
    let class = devices.classes().get(&details.device_class_name)?;
    let allocator = Allocator { slices: devices.slices(), allocated: devices.allocated(), classes: devices.classes() };
    allocator.survey(node, SurveyedRequest { details, admin_access: *admin_access, class }, selectors).ok()
}
