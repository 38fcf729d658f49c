use super::Worker;
use crate::device_testing::{allocated, claim_of, request, wanting};
use crate::io::{BindRequest, Effect, Refusal, RefusalReason};
use crate::ledger::Ledger;
use crate::limits;
use crate::model::{DeviceClass, ExtendedRequests, Feature, Labels, Namespace, Pod, ResourceClaim, Str, Time};
use crate::profile::{CompiledProfile, NamespaceAccess, UnknownFields};
use crate::testing::{node, pod, shape, shape_of};
use berth_devices::model::{DeviceClass as ClassSpec, ResourceClaim as ClaimSpec};
use std::cell::RefCell;
use std::sync::Arc;

const GPU: &str = "example.com/gpu";

fn class(name: &str, resource: Option<&str>) -> DeviceClass {
    DeviceClass {
        name: name.into(),
        extended_resource: resource.map(Into::into),
        created_unix_us: 0,
        spec: Arc::default(),
    }
}

fn asking(name: &str, resource: &str) -> Pod {
    let mut shape = shape();
    shape.row_mut().requests.set_scalar(resource.into(), 1);
    let container = ExtendedRequests {
        container: "c".into(),
        index: 0,
        is_short_lived: false,
        resources: vec![(resource.into(), 0, 1)],
    };
    Pod { extended: Some([container].into()), ..pod(name, shape) }
}

fn listing(name: &str, gpus: i64) -> crate::model::Node {
    let mut node = node(name, 1000, 1 << 30, 10);
    node.allocatable.set_scalar(GPU.into(), gpus);
    node
}

/// A worker on a ledger, and what it did last: (binds, refusals).
struct Bench {
    ledger: RefCell<Ledger>,
    worker: Worker,
}

impl Bench {
    fn new(profile: CompiledProfile) -> Self {
        Self { ledger: RefCell::new(Ledger::new()), worker: Worker::new(Arc::new(profile), 1) }
    }

    fn change(&mut self, change: impl FnOnce(&mut Ledger)) -> (Vec<String>, Vec<(RefusalReason, String)>) {
        change(&mut self.ledger.borrow_mut());
        let mut effects = Vec::new();
        self.worker.step(Time::ZERO, &mut Vec::new(), &self.ledger, &mut effects);
        let (mut binds, mut refusals) = (Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                Effect::Bind(BindRequest { node, .. }) => binds.push(node.to_string()),
                Effect::Refuse(Refusal { reason, text, .. }) => refusals.push((reason, text.to_string())),
                _ => {}
            }
        }
        (binds, refusals)
    }

    fn held(&self) -> usize {
        self.worker.queue.counts().held
    }
}

#[test]
fn a_resource_that_only_devices_provide_is_no_want_of_capacity() {
    let mut bench = Bench::new(CompiledProfile::default_preset("test"));
    let (binds, refusals) = bench.change(|ledger| {
        ledger.apply_node(&listing("plain", 0));
        ledger.apply_device_class(class("gpu", Some(GPU)));
        ledger.apply_pod(asking("p", GPU));
        ledger.apply_pod(asking("q", "example.com/other"));
    });
    assert!(binds.is_empty());
    let says = |part: &str| {
        refusals.iter().any(|(reason, text)| text.contains(part) && *reason == RefusalReason::Unschedulable)
    };
    assert!(says("1 cannot allocate all claims") && says("Insufficient example.com/other"), "{refusals:?}");
    let (binds, _) = bench.change(|ledger| ledger.apply_node(&listing("with", 1)));
    assert_eq!(binds, ["with"]);
}

#[test]
fn a_class_that_is_added_later_has_devices_asked_until_it_is_deleted() {
    let mut bench = Bench::new(CompiledProfile::default_preset("test"));
    let mut refusal_after = |change: &dyn Fn(&mut Ledger)| {
        let (_, refusals) = bench.change(change);
        refusals.into_iter().next().map(|(_, text)| text.split(" preemption").next().unwrap_or_default().to_owned())
    };
    let lacks = refusal_after(&|ledger| {
        ledger.apply_node(&listing("plain", 0));
        ledger.apply_pod(asking("p", GPU));
    });
    assert_eq!(lacks.as_deref(), Some("0/1 nodes are available: 1 Insufficient example.com/gpu."));
    let asks = refusal_after(&|ledger| ledger.apply_device_class(class("gpu", Some(GPU))));
    assert_eq!(asks.as_deref(), Some("0/1 nodes are available: 1 cannot allocate all claims."));
    assert_eq!(refusal_after(&|ledger| ledger.apply_device_class(class("gpu", None))), lacks);
}

#[test]
fn where_claims_cannot_be_read_a_pod_that_needs_some_is_held() {
    let mut bench = Bench::new(CompiledProfile::default_preset("test"));
    let (_, refusals) = bench.change(|ledger| {
        ledger.read_claims(Some("forbidden"));
        ledger.apply_node(&listing("plain", 0));
        ledger.apply_device_class(class("gpu", Some(GPU)));
        ledger.apply_pod(asking("p", GPU));
    });
    assert_eq!((refusals[0].0, bench.held()), (RefusalReason::SchedulerError, 1));
    assert!(refusals[0].1.starts_with("the pod needs resource claims, and ResourceClaims"), "{refusals:?}");
    bench.change(|ledger| ledger.read_claims(None));
    assert_eq!(bench.held(), 0);
}

/// Fields that are newer than this version may say which devices are wanted.
#[test]
fn unknown_fields_of_claims_and_classes_are_named_and_hold_where_that_is_wanted() {
    let news = |name: &str, of: &ClassSpec| ClassSpec { unknown_fields: vec![name.into()], ..of.clone() };
    let class_with = |fields: Option<&str>| {
        let spec = ClassSpec { name: "gpu".into(), ..ClassSpec::default() };
        DeviceClass { spec: Arc::new(fields.map_or(spec.clone(), |name| news(name, &spec))), ..class("gpu", None) }
    };
    let claim_with = |version: &str, fields: &[&str]| {
        let claim = claim_of("c", vec![request("r", "gpu", 1)]);
        let unknown_fields = fields.iter().map(|name| Str::from(*name)).collect();
        let spec = Arc::new(ClaimSpec { unknown_fields, ..ClaimSpec::clone(&claim.spec) });
        ResourceClaim { spec, resource_version: version.into(), ..claim }
    };
    let news = "spec.devices.requests.exactly.derivedAttributes";
    let named = ["deviceclasses: spec.news".into(), format!("resourceclaims: {news}").into()];
    for unknown_fields in [UnknownFields::Warn, UnknownFields::Hold] {
        let is_held = usize::from(unknown_fields == UnknownFields::Hold);
        let mut bench = Bench::new(CompiledProfile { unknown_fields, ..CompiledProfile::default_preset("test") });
        bench.change(|ledger| {
            ledger.apply_node(&node("a", 1000, 1 << 30, 10));
            ledger.apply_device_class(class_with(None));
            ledger.apply_pod(wanting("p", &["c"]));
        });
        assert_eq!(bench.held(), 0, "it waits for its claim");
        let (_, refusals) = bench.change(|ledger| ledger.apply_resource_claim(claim_with("1", &[news])));
        assert_eq!(bench.held(), is_held);
        if is_held == 1 {
            let text = format!(
                "what the pod claims has fields that this version of Berth does not know: {news} of resourceclaims;"
            );
            assert!(refusals[0].1.starts_with(&text), "{refusals:?}");
        }
        bench.change(|ledger| ledger.apply_device_class(class_with(Some("spec.news"))));
        assert_eq!(bench.worker.snapshot(&bench.ledger).unknown_fields, named);
        // A claim is made anew, and the class is as it was.
        bench.change(|ledger| ledger.delete_resource_claim("default/c"));
        bench.change(|ledger| ledger.apply_resource_claim(claim_with("2", &[])));
        assert_eq!(bench.held(), is_held, "the class");
        bench.change(|ledger| ledger.apply_device_class(class_with(None)));
        assert_eq!(bench.held(), 0);
        // An allocated one is as it is.
        bench.change(|ledger| ledger.apply_resource_claim(allocated(claim_with("3", &[news]), "a", "0", &[])));
        assert_eq!(bench.held(), 0);
    }
}

#[test]
fn a_pod_that_lists_too_much_is_held_whatever_capacity_there_is() {
    let mut bench = Bench::new(CompiledProfile::default_preset("test"));
    let (binds, refusals) = bench.change(|ledger| {
        ledger.apply_node(&listing("plain", 0));
        let mut shape = shape();
        let field = "spec.topologySpreadConstraints".into();
        shape.held_by = vec![
            Feature::PodGroup,
            Feature::TooLarge { field, count: 1_000, limit: limits::SPREAD_CONSTRAINTS_PER_POD },
        ];
        ledger.apply_pod(pod("p", shape));
    });
    assert!(binds.is_empty());
    assert_eq!(
        refusals,
        [(
            RefusalReason::SchedulerError,
            "the pod has 1000 entries in spec.topologySpreadConstraints (at most 32): Berth holds larger pods, so that one \
             pod cannot slow the others; shorten the list"
                .to_owned()
        )]
    );
    assert_eq!(bench.held(), 1);
}

#[test]
fn pods_of_a_namespace_that_loses_access_are_held_wherever_they_wait() {
    let labels = |team: &str| -> Labels { [("team", team)].into_iter().collect() };
    let of_team = |team: &str| Namespace { name: "default".into(), labels: labels(team) };
    let namespaces = NamespaceAccess::Restricted { names: Vec::new(), match_labels: labels("batch") };
    let mut bench = Bench::new(CompiledProfile { namespaces, ..CompiledProfile::default_preset("test") });
    let (binds, _) = bench.change(|ledger| {
        ledger.apply_namespace(of_team("batch"));
        ledger.apply_node(&node("a", 1000, 1 << 30, 10));
        ledger.apply_pod(pod("waits", shape_of(2000, 0)));
    });
    assert!(binds.is_empty() && bench.held() == 0);
    let (_, refusals) = bench.change(|ledger| ledger.apply_namespace(of_team("web")));
    assert_eq!((bench.held(), refusals[0].0), (1, RefusalReason::SchedulerError));
    assert!(refusals[0].1.contains("namespace default may not use SchedulerProfile test"), "{}", refusals[0].1);
    let (binds, _) = bench.change(|ledger| ledger.apply_node(&node("a", 4000, 1 << 30, 10)));
    assert!(binds.is_empty(), "there is room, but not for this namespace");
    let (binds, _) = bench.change(|ledger| ledger.apply_namespace(of_team("batch")));
    assert_eq!((binds, bench.held()), (vec!["a".to_owned()], 0));
}
