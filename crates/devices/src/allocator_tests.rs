//! Worked situations, one of each kind. `tests/differential.rs` compares random ones with upstream.

use crate::model::{
    AllocationMode, Attributes, ClaimConfiguration, CounterConsumption, CounterSet, Device, DeviceClass,
    DeviceConstraint, DeviceRequest, DeviceResult, DeviceTaint, NodeSelection, Request, RequestDetails, ResourceClaim,
    ResourceSlice, Selector, Str, SubRequest, TaintEffect, sorted_by_name,
};
use crate::model::{AllocationResult, RequestPolicy, ValidRange};
use crate::node_selector::{Node, NodeSelector, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm};
use crate::state::AllocatedState;
use crate::testing::{device, quantity, result, slice};
use crate::{
    Allocator, Obstacle, Outcome, Progress, PublishedDevice, Select, SelectError, ShareIds, Slices, SurveyedRequest,
};
use berth_cel::{Attribute, QualifiedName};
use std::collections::BTreeMap;
use std::sync::Arc;

mod counters;

/// `true`, `model MODEL`, or an error of that name.
struct Expressions;

impl Select for Expressions {
    fn selects(&mut self, expression: &Str, device: PublishedDevice<'_>, _: &mut i64) -> Result<bool, SelectError> {
        match expression.split_once(' ') {
            _ if &**expression == "true" => Ok(true),
            Some(("model", model)) => {
                Ok(device.device().attributes.iter().any(|(_, value)| *value == Attribute::Text(model.into())))
            }
            Some(("unsupported", text)) => Err(SelectError::Unsupported(text.to_owned())),
            _ => Err(SelectError::Runtime(expression.to_string())),
        }
    }
}

struct Numbers(u32);

impl ShareIds for Numbers {
    fn next_share_id(&mut self) -> Str {
        self.0 += 1;
        self.0.to_string().into()
    }
}

#[derive(Default)]
struct Cluster {
    slices: Slices,
    allocated: AllocatedState,
    classes: BTreeMap<Str, Arc<DeviceClass>>,
}

impl Cluster {
    /// With the class `any`.
    fn new(slices: impl IntoIterator<Item = ResourceSlice>) -> Self {
        let any = DeviceClass { name: "any".into(), ..DeviceClass::default() };
        let classes = [("any".into(), Arc::new(any))].into();
        Self { slices: slices.into_iter().collect(), allocated: AllocatedState::default(), classes }
    }

    fn hold(mut self, results: Vec<DeviceResult>) -> Self {
        self.allocated.allocate(&AllocationResult { results, ..AllocationResult::default() });
        self
    }

    fn outcome(&self, claims: &[ResourceClaim]) -> Outcome {
        self.outcome_within(claims, &mut 1_000_000)
    }

    fn outcome_within(&self, claims: &[ResourceClaim], steps: &mut i64) -> Outcome {
        self.resumed(&mut Progress::default(), claims, steps)
    }

    fn resumed(&self, progress: &mut Progress, claims: &[ResourceClaim], steps: &mut i64) -> Outcome {
        let allocator = Allocator { slices: &self.slices, allocated: &self.allocated, classes: &self.classes };
        let labels: BTreeMap<Str, Str> = [("zone".into(), "a".into()), ("arch".into(), "x".into())].into();
        let node = Node { name: "n1", labels: &labels };
        let claims: Vec<_> = claims.iter().collect();
        allocator.resume(progress, node, &claims, &mut Expressions, &mut Numbers(0), steps)
    }

    fn allocations(&self, claims: &[ResourceClaim]) -> Vec<AllocationResult> {
        match self.outcome(claims) {
            Outcome::Allocated(allocations) => allocations,
            other => panic!("{other:?}"),
        }
    }

    /// `REQUEST=DEVICE` for each result of the only claim, or how it ended otherwise.
    fn devices(&self, claim: ResourceClaim) -> String {
        match self.outcome(&[claim]) {
            Outcome::Allocated(allocations) => {
                let results = allocations[0].results.iter();
                results.map(|result| format!("{}={}", result.request, result.device)).collect::<Vec<_>>().join(" ")
            }
            Outcome::DoesNotFit => "none".to_owned(),
            other => format!("{other:?}"),
        }
    }
}

fn details(count: i64) -> RequestDetails {
    RequestDetails { device_class_name: "any".into(), count, ..RequestDetails::default() }
}

fn all() -> RequestDetails {
    RequestDetails { allocation_mode: AllocationMode::All, ..details(0) }
}

fn selected(count: i64, expression: &str) -> RequestDetails {
    RequestDetails { selectors: vec![Selector { cel: Some(expression.into()) }], ..details(count) }
}

fn exactly(details: RequestDetails) -> Request {
    Request::Exactly { details, admin_access: false }
}

fn first_of(subs: &[(&str, i64)]) -> Request {
    let sub = |(name, count): &(&str, i64)| SubRequest { name: Str::from(*name), details: details(*count) };
    Request::FirstAvailable(subs.iter().map(sub).collect())
}

/// Its requests are r0, r1 and so on.
fn claim(requests: impl IntoIterator<Item = Request>) -> ResourceClaim {
    let named = |(index, request)| DeviceRequest { name: format!("r{index}").into(), request };
    ResourceClaim {
        namespace: "ns".into(),
        name: "c".into(),
        requests: requests.into_iter().enumerate().map(named).collect(),
        ..ResourceClaim::default()
    }
}

fn constrained(claim: ResourceClaim, attributes: Attributes) -> ResourceClaim {
    ResourceClaim { constraints: vec![DeviceConstraint { requests: Vec::new(), attributes }], ..claim }
}

fn model(name: &str, model: &str) -> Device {
    let attributes = sorted_by_name([(QualifiedName::parse("model"), Attribute::Text(model.into()))]);
    Device { attributes, ..device(name) }
}

fn with(slice: ResourceSlice, devices: impl IntoIterator<Item = Device>) -> ResourceSlice {
    ResourceSlice { devices: devices.into_iter().collect(), ..slice }
}

fn of_two(slice: ResourceSlice) -> ResourceSlice {
    ResourceSlice { resource_slice_count: 2, ..slice }
}

/// A slice with the counter sets, each of one counter `c`.
fn counters(name: &str, pool: &str, sets: &[(&str, &str)]) -> ResourceSlice {
    let set = |(name, total): &(&str, &str)| CounterSet {
        name: Str::from(*name),
        counters: vec![("c".into(), quantity(total))],
    };
    let shared_counters = sets.iter().map(set).collect();
    ResourceSlice { shared_counters, ..of_two(slice(name, pool, None, &[])) }
}

fn part(name: &str, set: &str, amount: &str) -> Device {
    let counters = vec![("c".into(), quantity(amount))];
    let consumes_counters = vec![CounterConsumption { counter_set: set.into(), counters }];
    Device { consumes_counters, ..device(name) }
}

#[test]
fn pools_and_slices_are_searched_by_name_and_devices_as_they_come() {
    let slices = |conditions: Vec<Str>| {
        let x2 = Device { binding_conditions: conditions, ..device("x2") };
        [
            slice("s0", "d/b", None, &["y"]),
            of_two(slice("s2", "d/a", None, &["x1"])),
            with(of_two(slice("s1", "d/a", None, &[])), [device("x3"), x2]),
        ]
    };
    let wanted = || claim([1, 1, 1].map(|count| exactly(details(count))));
    assert_eq!(Cluster::new(slices(Vec::new())).devices(wanted()), "r0=x3 r1=x2 r2=x1");
    assert_eq!(Cluster::new(slices(vec!["ready".into()])).devices(wanted()), "r0=y r1=x3 r2=x2");
}

#[test]
fn a_request_tries_combinations_of_devices() {
    let devices = [model("1", "A"), model("2", "B"), model("3", "B")];
    let cluster = Cluster::new([with(slice("s", "d/p", None, &[]), devices)]);
    let same = Attributes::Match(QualifiedName::parse("d/model"));
    assert_eq!(cluster.devices(constrained(claim([exactly(details(2))]), same)), "r0=2 r0=3");
}

#[test]
fn an_earlier_request_gives_up_its_device() {
    let cluster = Cluster::new([with(slice("s", "d/p", None, &[]), [model("1", "A"), model("2", "B")])]);
    let wanted = claim([exactly(details(1)), exactly(selected(1, "model A"))]);
    assert_eq!(cluster.devices(wanted), "r0=2 r1=1");
}

#[test]
fn a_later_request_forces_the_next_alternative() {
    let cluster = Cluster::new([with(slice("s", "d/p", None, &[]), [model("1", "A"), model("2", "B")])]);
    let sub = |name: &str, model: &str| SubRequest { name: name.into(), details: selected(1, model) };
    let first = Request::FirstAvailable(vec![sub("big", "model A"), sub("small", "model B")]);
    let wanted = claim([first, exactly(selected(1, "model A"))]);
    assert_eq!(cluster.devices(wanted), "r0/small=2 r1=1");
}

#[test]
fn too_many_results_choose_a_smaller_alternative() {
    let names: Vec<String> = (0..64).map(|number| format!("x{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let cluster = Cluster::new([slice("s", "d/p", None, &names)]);
    let chosen = cluster.devices(claim([first_of(&[("many", 20), ("few", 10)]), exactly(details(20))]));
    assert!(chosen.starts_with("r0/few=x00 ") && chosen.ends_with(" r1=x29"), "{chosen}");
    let text = "claim ns/c: number of requested devices 40 exceeds the claim limit of 32";
    let too_many = cluster.outcome(&[claim([exactly(details(20)), exactly(details(20))])]);
    assert_eq!(too_many, Outcome::Error(text.to_owned()));
}

/// A device of 10Gi memory that can be shared in steps of 1Gi.
fn shared(name: &str) -> Device {
    let valid_range = Some(ValidRange { min: Some(quantity("1Gi")), max: None, step: Some(quantity("1Gi")) });
    let policy = RequestPolicy { default: Some(quantity("3Gi")), valid_values: Vec::new(), valid_range };
    Device {
        allow_multiple_allocations: true,
        capacity: vec![(QualifiedName::parse("memory"), quantity("10Gi"))],
        request_policies: vec![Some(policy)],
        ..device(name)
    }
}

fn memory(amount: &str) -> Vec<(QualifiedName, berth_quantity::Quantity)> {
    vec![(QualifiedName::parse("memory"), quantity(amount))]
}

#[test]
fn shares_round_up_and_must_fit_beside_each_other() {
    let asks = |amount| exactly(RequestDetails { capacity: memory(amount), ..details(1) });
    let held = |amount| {
        let share =
            DeviceResult { share_id: Some("0".into()), consumed_capacity: memory(amount), ..result("d/p", "x") };
        Cluster::new([with(slice("s", "d/p", None, &[]), [shared("x")])]).hold(vec![share])
    };
    assert_eq!(held("8Gi").allocations(&[claim([asks("1500Mi")])])[0].results[0].consumed_capacity, memory("2Gi"));
    assert_eq!(held("9Gi").devices(claim([asks("1500Mi")])), "none");
    assert_eq!(held("9Gi").devices(claim([asks("500Mi")])), "r0=x");
    let two = held("4Gi").allocations(&[claim([asks("1500Mi"), exactly(details(1))])]);
    let ids: Vec<_> = two[0].results.iter().map(|result| result.share_id.as_deref()).collect();
    assert_eq!(ids, [Some("1"), Some("2")]);
    assert_eq!(two[0].results[1].consumed_capacity, memory("3Gi"));
    assert_eq!(held("4Gi").devices(claim([exactly(details(2))])), "none", "one request has no device twice");
}

fn zones(requirements: &[(&str, &str)]) -> NodeSelection {
    let requirement = |(key, value): &(&str, &str)| NodeSelectorRequirement {
        key: Str::from(*key),
        operator: NodeSelectorOperator::In,
        values: vec![Str::from(*value)],
    };
    let match_expressions = requirements.iter().map(requirement).collect();
    let term = NodeSelectorTerm { match_expressions, match_fields: Vec::new() };
    NodeSelection { node_selector: Some(NodeSelector::new(vec![term])), ..NodeSelection::default() }
}

#[test]
fn an_allocation_says_from_where_its_devices_can_be_used() {
    let on = |name: &str, pool: &str, nodes| ResourceSlice { nodes, ..slice(name, pool, None, &["x"]) };
    let in_zone = on("s1", "d/a", zones(&[("zone", "a")]));
    let in_both = on("s2", "d/b", zones(&[("zone", "a"), ("arch", "x")]));
    let selector = |slices: Vec<ResourceSlice>, count| {
        let allocations = Cluster::new(slices).allocations(&[claim([exactly(details(count))])]);
        allocations[0].node_selector.clone()
    };
    let merged = zones(&[("zone", "a"), ("arch", "x")]).node_selector;
    assert_eq!(selector(vec![in_zone.clone(), in_both.clone()], 2), merged);
    let local = slice("s3", "d/c", Some("n1"), &["x"]);
    assert_eq!(selector(vec![in_zone, in_both, local], 3), Some(NodeSelector::of_node("n1")));
    assert_eq!(selector(vec![slice("s", "d/p", None, &["x"])], 1), None);
}

#[test]
fn a_node_selector_of_two_terms_cannot_be_merged_141212() {
    let mut nodes = zones(&[("zone", "a")]);
    let term = nodes.node_selector.as_ref().unwrap().terms()[0].clone();
    nodes.node_selector = Some(NodeSelector::new(vec![term.clone(), term]));
    let cluster = Cluster::new([ResourceSlice { nodes, ..slice("s", "d/p", None, &["x"]) }]);
    let text = "create NodeSelector for claim c: unsupported ResourceSlice.NodeSelector with 2 terms";
    assert_eq!(cluster.outcome(&[claim([exactly(details(1))])]), Outcome::Error(text.to_owned()));
}

#[test]
fn a_claims_entry_is_repeated_for_each_request_that_it_names_139730() {
    let mut cluster = Cluster::new([slice("s", "d/p", None, &["x", "y"])]);
    let class = DeviceClass { name: "any".into(), config: vec!["class".into()], ..DeviceClass::default() };
    cluster.classes = [("any".into(), Arc::new(class))].into();
    let entry = |requests: &[&str], text: &str| ClaimConfiguration {
        requests: requests.iter().map(|name| Str::from(*name)).collect(),
        configuration: text.into(),
    };
    let mut wanted = claim([exactly(details(1)), first_of(&[("a", 1), ("b", 1)])]);
    wanted.config = vec![entry(&["r0", "r1"], "both"), entry(&[], "all"), entry(&["r1/a"], "a"), entry(&["r1/b"], "b")];
    let allocations = cluster.allocations(&[wanted]);
    let entries: Vec<String> = allocations[0]
        .config
        .iter()
        .map(|entry| format!("{} for {}", entry.configuration, entry.requests.join(" ")))
        .collect();
    let expected = ["class for r0 r1/a", "both for r0 r1", "both for r0 r1", "all for ", "a for r1/a"];
    assert_eq!(entries, expected);
}

#[test]
fn all_means_also_devices_that_are_in_use() {
    let cluster = Cluster::new([slice("s", "d/p", None, &["d1", "d2"])]);
    assert_eq!(cluster.devices(claim([exactly(all())])), "r0=d1 r0=d2");
    assert_eq!(cluster.hold(vec![result("d/p", "d2")]).devices(claim([exactly(all())])), "none");
}

#[test]
fn all_ends_the_attempt_over_any_broken_pool_141829() {
    let all = || claim([exactly(all())]);
    let good = slice("s", "d/a", None, &["x"]);
    let text =
        |what: &str| Outcome::Error(format!("claim ns/c, request r0: asks for all devices, but resource pool {what}"));
    let incomplete = Cluster::new([good.clone(), of_two(slice("t", "d/b", None, &["y"]))]);
    assert_eq!(incomplete.outcome(&[all()]), text("d/b is currently being updated"));
    assert_eq!(incomplete.devices(claim([exactly(details(1))])), "r0=x");
    assert_eq!(incomplete.devices(claim([exactly(details(2))])), "none");
    let invalid = Cluster::new([good, slice("t", "d/b", None, &["y", "y"])]);
    assert_eq!(invalid.outcome(&[all()]), text("d/b is currently invalid"));
    let failed = invalid.outcome(&[claim([exactly(details(2))])]);
    assert_eq!(failed, Outcome::FailedOnNode("invalid resource pools were encountered"));
}

#[test]
fn slices_that_disagree_on_their_number_follow_the_first_by_name_141118() {
    let first = slice("s1", "d/p", None, &["x"]);
    let second = of_two(slice("s2", "d/p", None, &["y"]));
    let wanted = || claim([exactly(details(1))]);
    assert_eq!(Cluster::new([second.clone(), first.clone()]).devices(wanted()), "none");
    let (first, second) = (of_two(first), ResourceSlice { resource_slice_count: 1, ..second });
    assert_eq!(Cluster::new([second, first]).devices(wanted()), "r0=x");
}

#[test]
fn admins_may_have_what_others_use_and_then_nobody_else_of_the_pod() {
    let cluster = Cluster::new([slice("s", "d/p", None, &["d1", "d2"])]).hold(vec![result("d/p", "d1")]);
    let admin = || Request::Exactly { details: details(1), admin_access: true };
    assert_eq!(cluster.devices(claim([admin()])), "r0=d1");
    assert_eq!(cluster.devices(claim([admin(), exactly(details(1))])), "r0=d1 r1=d2");
    assert_eq!(cluster.devices(claim([admin(), admin()])), "r0=d1 r1=d2");
    assert_eq!(cluster.devices(claim([admin(), admin(), exactly(details(1))])), "none");
    let both = cluster.allocations(&[claim([admin()]), claim([admin()])]);
    assert!(both.iter().all(|allocation| *allocation.results[0].device == *"d1" && allocation.results[0].admin_access));
}

#[test]
fn constraints_find_attributes_of_the_driver_without_its_name() {
    let cluster = Cluster::new([with(slice("s", "dra.example.com/p", None, &[]), [model("x", "A")])]);
    let wanted = |name| constrained(claim([exactly(details(1))]), Attributes::Match(QualifiedName::parse(name)));
    assert_eq!(cluster.devices(wanted("dra.example.com/model")), "r0=x");
    assert_eq!(cluster.devices(wanted("other.example.com/model")), "none");
}

#[test]
fn distinct_devices_of_one_request_all_differ_140438() {
    let devices = [model("1", "A"), model("2", "B"), model("3", "A"), model("4", "C")];
    let cluster = Cluster::new([with(slice("s", "d/p", None, &[]), devices)]);
    let distinct =
        |count| constrained(claim([exactly(details(count))]), Attributes::Distinct(QualifiedName::parse("d/model")));
    assert_eq!(cluster.devices(distinct(3)), "r0=1 r0=2 r0=4");
    assert_eq!(cluster.devices(distinct(4)), "none");
    let text = "claim ns/c, request r0: cannot add device d/p/3 because a claim constraint would not be satisfied";
    let wanted = constrained(claim([exactly(all())]), Attributes::Distinct(QualifiedName::parse("d/model")));
    assert_eq!(cluster.outcome(&[wanted]), Outcome::Error(text.to_owned()));
}

#[test]
fn a_selector_speaks_only_when_it_is_reached() {
    let cluster = Cluster::new([slice("s", "d/p", None, &["x", "y"])]);
    let wanted = |expression| claim([exactly(details(1)), exactly(selected(1, expression))]);
    let text = "claim ns/c: selector #0: CEL runtime error: broken";
    assert_eq!(cluster.outcome(&[wanted("broken")]), Outcome::Error(text.to_owned()));
    let text = "claim ns/c: selector #0: a function";
    assert_eq!(cluster.outcome(&[wanted("unsupported a function")]), Outcome::Unsupported(text.to_owned()));
    let full = cluster.hold(vec![result("d/p", "x"), result("d/p", "y")]);
    assert_eq!(full.outcome(&[wanted("broken")]), Outcome::DoesNotFit);
}

#[test]
fn a_search_without_end_is_cut_off_131730() {
    let names: Vec<String> = (0..40).map(|number| format!("x{number}")).collect();
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let cluster = Cluster::new([slice("s", "d/p", None, &names)]);
    let wanted = [claim([exactly(details(20)), exactly(selected(1, "model A"))])];
    let mut steps = 100_000;
    assert_eq!(cluster.outcome_within(&wanted, &mut steps), Outcome::OutOfSteps);
    let mut enough = 1_000;
    assert!(matches!(cluster.outcome_within(&[claim([exactly(details(20))])], &mut enough), Outcome::Allocated(_)));
    assert!(enough < 1_000);
}

/// A group of 10 devices and one of 14, of which 14 alike are wanted: first each way to choose some of the smaller one is tried.
#[test]
fn a_search_goes_on_where_its_steps_were_used_up() {
    let names: Vec<String> = (0..24).map(|number| format!("x{number}")).collect();
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let mut published = slice("s", "d/p", None, &names);
    for (number, device) in published.devices.iter_mut().enumerate() {
        let group = Attribute::Bool(number < 10);
        device.attributes = sorted_by_name([(QualifiedName::parse("group"), group)]);
    }
    let cluster = Cluster::new([published]);
    let alike = |count| {
        let attributes = Attributes::Match(QualifiedName::parse("d/group"));
        let constraints = vec![DeviceConstraint { requests: Vec::new(), attributes }];
        [ResourceClaim { constraints, ..claim([exactly(details(count))]) }]
    };
    let (mut progress, mut turns) = (Progress::default(), 0);
    let outcome = loop {
        let outcome = cluster.resumed(&mut progress, &alike(14), &mut 100);
        turns += 1;
        if outcome != Outcome::OutOfSteps {
            break outcome;
        }
    };
    assert_eq!(outcome, cluster.outcome(&alike(14)));
    assert!(turns > 50, "{turns}");
    let mut solution = progress.of_solution().expect("it was found");
    assert_eq!(cluster.resumed(&mut solution, &alike(14), &mut 0), outcome, "without a step");
}

/// What keeps the request from each device, beside the pools that cannot be used. The allocator finds one where the survey does.
fn surveyed(cluster: &Cluster, request: &RequestDetails, class: &DeviceClass) -> (Vec<Option<Obstacle>>, Vec<String>) {
    let allocator = Allocator { slices: &cluster.slices, allocated: &cluster.allocated, classes: &cluster.classes };
    let node = Node { name: "n1", labels: &BTreeMap::<Str, Str>::new() };
    let request = SurveyedRequest { details: request, admin_access: false, class };
    let survey = allocator.survey(node, request, &mut Expressions).unwrap();
    let obstacles: Vec<_> = survey.devices.iter().map(|device| device.obstacle.clone()).collect();
    let is_found = cluster.devices(claim([exactly(request.details.clone())])) != "none";
    assert!(!class.selectors.is_empty() || is_found == obstacles.contains(&None), "{obstacles:?}");
    (obstacles, survey.unusable)
}

#[test]
fn a_survey_says_what_keeps_a_request_from_each_device() {
    let taint = DeviceTaint { key: "broken".into(), value: "yes".into(), effect: TaintEffect::NoSchedule };
    let tainted = Device { taints: vec![taint.clone()], ..model("tainted", "A") };
    let away = NodeSelection { node_name: Some("n2".into()), ..NodeSelection::default() };
    let here = NodeSelection { node_name: Some("n1".into()), ..NodeSelection::default() };
    let devices = [model("other", "B"), model("taken", "A"), tainted, Device { nodes: away, ..model("away", "A") }];
    let on_n1 =
        |device: Device| if device.name == "away".into() { device } else { Device { nodes: here.clone(), ..device } };
    let per_device = ResourceSlice {
        nodes: NodeSelection::default(),
        per_device_node_selection: true,
        ..with(slice("s", "d/p", None, &[]), devices.map(on_n1))
    };
    let parts = [part("half", "mem", "20"), part("full", "mem", "40")]
        .map(|part| Device { attributes: model("", "A").attributes, ..part });
    let slices = [
        per_device,
        counters("t1", "d/q", &[("mem", "40")]),
        with(of_two(slice("t0", "d/q", None, &[])), parts),
        of_two(slice("u", "d/r", None, &["unseen"])),
    ];
    let cluster = Cluster::new(slices).hold(vec![result("d/p", "taken"), result("d/q", "half")]);
    let any = (*cluster.classes["any"]).clone();
    let request = RequestDetails {
        capacity: Vec::new(),
        selectors: ["true", "model A"].map(|text| Selector { cel: Some(text.into()) }).into(),
        ..details(1)
    };
    let (obstacles, unusable) = surveyed(&cluster, &request, &any);
    let want = [
        Obstacle::RequestSelector(1),
        Obstacle::Taken,
        Obstacle::Taint(taint),
        Obstacle::OtherNode,
        Obstacle::Taken,
        Obstacle::Counters,
    ];
    assert_eq!((obstacles, unusable), (want.map(Some).into(), vec!["d/r".to_owned()]));
    let of_a = DeviceClass { selectors: vec![Selector { cel: Some("model C".into()) }], ..any.clone() };
    assert_eq!(surveyed(&cluster, &request, &of_a).0, vec![Some(Obstacle::ClassSelector(0)); 6]);
    let memory = RequestDetails { capacity: vec![(QualifiedName::parse("memory"), quantity("1"))], ..details(1) };
    assert_eq!(surveyed(&cluster, &memory, &any).0[0], Some(Obstacle::Capacity));
    assert_eq!(surveyed(&cluster, &details(1), &any).0[0], None);
}
