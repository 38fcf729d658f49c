//! Extended resources that DeviceClasses stand for: on a node that offers none of such a resource, devices provide it, by a claim that is
//! made for the pod. After `extendeddynamicresources.go`.
//!
//! The claim depends on the node: it has the resources that no device plugin provides there.

use crate::ledger::{Ledger, NodeId, ScalarId};
use crate::model::{
    Cause, ExtendedClaim, ExtendedRequests, Pod, RequestMapping, ResourceClaim, Str, is_extended_resource,
};
use berth_devices::model::{AllocationMode, DeviceRequest, Request, RequestDetails, ResourceClaim as ClaimSpec};
use std::cell::RefCell;
use std::sync::Arc;

/// How messages name the claim before there is one.
const NOT_MADE_YET: &str = "<extended-resources>";

/// A pod's extended resources, one of which a DeviceClass stands for.
#[derive(Debug)]
pub(super) struct Extended<'t> {
    namespace: Str,
    containers: Arc<[ExtendedRequests]>,
    /// Sorted by name.
    wanted: Vec<Wanted>,
    /// The claim of an attempt that was given up.
    leftover: Option<&'t Arc<ResourceClaim>>,
    /// The claims that nodes asked for so far.
    made: RefCell<Vec<(u64, Arc<ExtendedClaim>)>>,
}

#[derive(Debug)]
struct Wanted {
    name: Str,
    /// `None` where no node offers the resource.
    column: Option<ScalarId>,
    class: Option<Str>,
}

/// What of the pod's extended resources devices are to provide on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    /// Bit by bit, these of them; none where device plugins provide all.
    Of(u64),
    /// They cannot be had there.
    Refused(Cause),
}

/// Whether a DeviceClass stands for one of the pod's extended resources.
pub(super) fn is_backed(ledger: &Ledger, pod: &Pod) -> bool {
    let classes = ledger.device_classes();
    pod.extended.is_some() && !classes.is_empty() && wanted_by(pod).any(|name| classes.of_resource(name).is_some())
}

/// The classes that stand for the pod's extended resources.
pub(super) fn classes_of<'a>(ledger: &'a Ledger, pod: &'a Pod) -> impl Iterator<Item = &'a Str> {
    let names = pod.extended.as_ref().into_iter().flat_map(|_| wanted_by(pod));
    names.filter_map(|name| ledger.device_classes().of_resource(name))
}

fn wanted_by(pod: &Pod) -> impl Iterator<Item = &Str> {
    let scalars = pod.shape.row.requests.scalars.iter();
    scalars.filter(|(name, amount)| *amount > 0 && is_extended_resource(name)).map(|(name, _)| name)
}

impl<'t> Extended<'t> {
    /// `None` where the pod needs none from devices, whatever the node.
    pub(super) fn of(ledger: &'t Ledger, pod: &Pod) -> Option<Self> {
        if !is_backed(ledger, pod) {
            return None;
        }
        let containers = pod.extended.clone()?;
        let (nodes, classes) = (ledger.nodes(), ledger.device_classes());
        let wanted = wanted_by(pod)
            .map(|name| Wanted {
                name: name.clone(),
                column: nodes.scalar(name),
                class: classes.of_resource(name).cloned(),
            })
            .collect();
        let leftover = ledger.devices().extended_claim_of(&pod.key.namespace, &pod.uid);
        let namespace = pod.key.namespace.clone();
        Some(Self { namespace, containers, wanted, leftover, made: RefCell::default() })
    }

    pub(super) const fn containers(&self) -> &Arc<[ExtendedRequests]> {
        &self.containers
    }

    /// The claim of an attempt that was given up: no node takes the pod before it is deleted.
    pub(super) const fn leftover(&self) -> Option<&'t Arc<ResourceClaim>> {
        self.leftover
    }

    /// Upstream's `filterExtendedResources`.
    pub(super) fn on(&self, ledger: &Ledger, node: NodeId) -> Wants {
        if self.leftover.is_some() {
            return Wants::Refused(Cause::ExtendedClaim);
        }
        let nodes = ledger.nodes();
        let mut wants = 0;
        for (index, one) in self.wanted.iter().enumerate() {
            if one.column.is_some_and(|column| nodes.scalar_allocatable(column, node) > 0) {
                continue;
            }
            if one.class.is_none() {
                return Wants::Refused(Cause::NoSuchResource);
            }
            wants |= 1 << index;
        }
        if wants != 0 && self.claim(wants).mappings.is_empty() {
            // No container requests a whole number of pieces: upstream makes a claim of nothing, and fails the pod for ever.
            return Wants::Refused(Cause::NoSuchResource);
        }
        Wants::Of(wants)
    }

    /// The claim for these of the resources.
    pub(super) fn claim(&self, wants: u64) -> Arc<ExtendedClaim> {
        let mut made = self.made.borrow_mut();
        if let Some((_, claim)) = made.iter().find(|(own, _)| *own == wants) {
            return claim.clone();
        }
        let wanted = self.wanted.iter().enumerate().filter(|(index, _)| wants & 1 << index != 0);
        let classes = wanted.filter_map(|(_, one)| Some((&one.name, one.class.as_ref()?)));
        let claim = Arc::new(claim_for(&self.namespace, &self.containers, classes));
        made.push((wants, claim.clone()));
        claim
    }
}

/// The claim for these resources, each with its class.
fn claim_for<'a>(
    namespace: &Str,
    containers: &[ExtendedRequests],
    resources: impl Iterator<Item = (&'a Str, &'a Str)>,
) -> ExtendedClaim {
    let (mut requests, mut mappings) = (Vec::new(), Vec::new());
    for (resource, class) in resources {
        let one = OneResource { containers, resource };
        let (own, mapped) = one.requests();
        requests.extend(own.into_iter().map(|(name, count)| request_of(name, class, count)));
        mappings.extend(mapped);
    }
    requests.sort_by(|a, b| a.name.cmp(&b.name));
    let (namespace, name) = (namespace.clone(), NOT_MADE_YET.into());
    let spec = ClaimSpec { namespace, name, requests, ..ClaimSpec::default() };
    ExtendedClaim { spec, mappings }
}

/// So many devices of the class, whichever.
pub(crate) fn request_of(name: Str, class: &Str, count: i64) -> DeviceRequest {
    let details = RequestDetails {
        device_class_name: class.clone(),
        allocation_mode: AllocationMode::ExactCount,
        count,
        ..RequestDetails::default()
    };
    DeviceRequest { name, request: Request::Exactly { details, admin_access: false } }
}

/// A request's name, and how many devices it is for.
type Wish = (Str, i64);

struct OneResource<'a> {
    containers: &'a [ExtendedRequests],
    resource: &'a Str,
}

impl OneResource<'_> {
    /// Each container that runs as long as the pod has devices of its own. Init containers use those of containers that start later, as far
    /// as they go, and share one request for the rest, since one ends before the next starts.
    fn requests(&self) -> (Vec<Wish>, Vec<RequestMapping>) {
        let (mut lasting, mut mappings): (Vec<(u32, Wish)>, Vec<RequestMapping>) = (Vec::new(), Vec::new());
        for (container, wish) in self.wishes(false) {
            mappings.push(self.mapping(container, &wish.0));
            lasting.push((container.index, wish));
        }
        let mut most: Option<Wish> = None;
        let (mut passing, mut own) = (Vec::new(), Vec::new());
        for (container, (name, count)) in self.wishes(true) {
            let mut left = count;
            for (_, (of, there)) in lasting.iter().filter(|(index, _)| *index >= container.index) {
                if left > 0 {
                    passing.push(self.mapping(container, of));
                    left -= there;
                }
            }
            if left > 0 {
                passing.push(self.mapping(container, &name));
                own.push(name.clone());
                if most.as_ref().is_none_or(|(_, most)| *most < left) {
                    most = Some((name, left));
                }
            }
        }
        if let Some((most, _)) = &most {
            for mapping in passing.iter_mut().filter(|mapping| own.contains(&mapping.request)) {
                mapping.request = most.clone();
            }
        }
        mappings.extend(passing);
        (most.into_iter().chain(lasting.into_iter().map(|(_, wish)| wish)).collect(), mappings)
    }

    /// What each container asks for that is short-lived, or is not.
    fn wishes(&self, short_lived: bool) -> impl Iterator<Item = (&ExtendedRequests, Wish)> {
        self.containers.iter().filter(move |container| container.is_short_lived == short_lived).filter_map(
            |container| {
                let (_, position, count) = container.resources.iter().find(|(name, ..)| name == self.resource)?;
                let name = format!("container-{}-request-{position}", container.index).into();
                Some((container, (name, *count)))
            },
        )
    }

    fn mapping(&self, container: &ExtendedRequests, request: &Str) -> RequestMapping {
        let (container, resource) = (container.container.clone(), self.resource.clone());
        RequestMapping { container, resource, request: request.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Containers that each want so many pieces of `r`, the second of their resources; a leading `i` marks one that ends early.
    fn requests(containers: &[&str]) -> (Vec<(String, i64)>, Vec<String>) {
        let read = |(index, text): (usize, &&str)| ExtendedRequests {
            container: format!("c{index}").into(),
            index: index as u32,
            is_short_lived: text.starts_with('i'),
            resources: match text.trim_start_matches('i').parse() {
                Ok(0) | Err(_) => Vec::new(),
                Ok(count) => vec![("r".into(), 1, count)],
            },
        };
        let containers: Vec<ExtendedRequests> = containers.iter().enumerate().map(read).collect();
        let (resource, class) = ("r".into(), "class".into());
        let claim = claim_for(&"default".into(), &containers, [(&resource, &class)].into_iter());
        let count = |request: &DeviceRequest| match &request.request {
            Request::Exactly { details, .. } => (request.name.to_string(), details.count),
            Request::FirstAvailable(_) => panic!("{request:?}"),
        };
        let mappings = claim.mappings.iter().map(|one| format!("{} {}", one.container, one.request));
        (claim.spec.requests.iter().map(count).collect(), mappings.collect())
    }

    fn wanted(requests: &[(&str, i64)], mappings: &[&str]) -> (Vec<(String, i64)>, Vec<String>) {
        let requests = requests.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        (requests, mappings.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn each_container_has_a_request_of_its_own() {
        let two = wanted(
            &[("container-0-request-1", 1), ("container-2-request-1", 3)],
            &["c0 container-0-request-1", "c2 container-2-request-1"],
        );
        assert_eq!(requests(&["1", "0", "3"]), two);
    }

    #[test]
    fn init_containers_use_what_is_there_later_and_share_the_rest() {
        let enough = wanted(&[("container-1-request-1", 2)], &["c1 container-1-request-1", "c0 container-1-request-1"]);
        assert_eq!(requests(&["i2", "2"]), enough);
        let (found, mappings) = requests(&["i3", "i7", "2"]);
        assert_eq!(found, wanted(&[("container-1-request-1", 5), ("container-2-request-1", 2)], &[]).0);
        let want = [
            "c2 container-2-request-1",
            "c0 container-2-request-1",
            "c0 container-1-request-1",
            "c1 container-2-request-1",
            "c1 container-1-request-1",
        ];
        assert_eq!(mappings, want, "the request of the first is for fewer: it uses that of the second");
    }

    #[test]
    fn a_container_that_started_before_lends_nothing() {
        let (found, _) = requests(&["4", "i3"]);
        assert_eq!(found, wanted(&[("container-0-request-1", 4), ("container-1-request-1", 3)], &[]).0);
    }

    #[test]
    fn requests_are_sorted_as_texts() {
        let (found, _) = requests(&["0", "0", "1", "0", "0", "0", "0", "0", "0", "0", "1"]);
        assert_eq!(found, wanted(&[("container-10-request-1", 1), ("container-2-request-1", 1)], &[]).0);
    }
}
