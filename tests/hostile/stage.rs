//! The cluster on which hostile things happen, and what is measured there.

use std::fmt;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use berth_lab::{ControlPlane, Extender, NodeSpec, Operator, Patch, for_each};
use serde_json::{Value, json};

use super::holds::{Holds, shown};
use super::neighbour::{NEIGHBOUR, Neighbour, Waits};
use crate::cluster::{HOME, LEASE, namespace, own_plane, serving};
use crate::objects::{PROFILES, pod, pod_path, profile, wait_reason};
use crate::{LATER, SOON};

/// The attacker's namespace and profile.
pub(super) const HOSTILE: &str = "hostile";

/// A namespace of the attacker's profile whose pods are ordinary: nothing that happens in the attacker's own may hold them up.
const SIBLING: &str = "hostile-sibling";

/// More namespaces of the attacker's.
pub(super) const ELSEWHERE: [&str; 4] = ["hostile-1", "hostile-2", "hostile-3", "hostile-4"];

/// On all that a case makes outside its namespace.
const MARK: &str = "made-by=hostile";

const NODES: usize = 200;

/// Of the operator: extenders of a case are on this machine.
const OPTIONS: &[&str] = &["--extender-allow-http=127.0.0.1"];

/// The neighbour's waits, the ledger's lock and the process' memory over some time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    pub(super) waits: Waits,
    /// Those of the pods in another namespace of the attacker's profile, where there are some.
    pub(super) sibling: Option<Waits>,
    /// The longest hold of the ledger's lock since the figures before these, as the end of its bucket in microseconds.
    hold: Option<u64>,
    /// The most that was seen.
    pub(super) rss_kib: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waits, sibling, hold, rss_kib } = self;
        write!(f, "{waits}")?;
        if let Some(sibling) = sibling {
            write!(f, " (its other namespace {sibling})")?;
        }
        write!(f, ", {}, {} MiB", shown(*hold), rss_kib / 1024)
    }
}

pub(super) struct Stage {
    pub(super) operator: Operator,
    neighbour: Neighbour,
    sibling: Option<Neighbour>,
    /// What a case keeps open until it is over.
    pub(super) sockets: Mutex<Vec<TcpStream>>,
    /// Extenders of a case, until it is over.
    pub(super) extenders: Mutex<Vec<Extender>>,
    /// Holds of the ledger's lock up to the last figures.
    holds: Mutex<Holds>,
    /// Who led at the start, and how often that had changed.
    led: (Value, Value),
    pub(super) plane: ControlPlane,
}

impl Stage {
    pub(super) fn start() -> Self {
        let plane = own_plane(vec!["--max-mutating-requests-inflight=1000".to_owned()]);
        for name in [NEIGHBOUR, HOSTILE, SIBLING].into_iter().chain(ELSEWHERE) {
            namespace(&plane, name);
        }
        plane
            .create_nodes(NODES, |i| NodeSpec::new(&format!("n{i}"), &format!("zone-{}", i % 3), "32", "128Gi"))
            .unwrap();
        let operator = serving(&plane, "berth-0", OPTIONS);
        for (name, value) in [("hostile-low", 10), ("hostile-high", 1_000)] {
            let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
            plane.api.post("/apis/scheduling.k8s.io/v1/priorityclasses", &class).unwrap();
        }
        for name in [NEIGHBOUR, HOSTILE] {
            plane.api.post(PROFILES, &profile(name, &json!({}))).unwrap();
            wait_reason(&plane, name, "Ready", "Serving");
        }
        let led = leadership(&plane);
        Self {
            operator,
            neighbour: Neighbour::start(&plane, NEIGHBOUR, NEIGHBOUR),
            sibling: None,
            sockets: Mutex::default(),
            extenders: Mutex::default(),
            holds: Mutex::default(),
            led,
            plane,
        }
    }

    /// Has ordinary pods come in another namespace of the attacker's profile, or no more.
    pub(super) fn with_sibling(&mut self, is_there: bool) {
        self.sibling = is_there.then(|| Neighbour::start(&self.plane, SIBLING, HOSTILE));
    }

    pub(super) fn measure(&self, span: Duration) -> Figures {
        self.measure_since(Instant::now(), span)
    }

    /// Figures from `from`, which is past, until `span` from now.
    pub(super) fn measure_since(&self, from: Instant, span: Duration) -> Figures {
        let end = Instant::now() + span;
        let mut rss_kib = 0;
        while Instant::now() < end {
            rss_kib = rss_kib.max(self.operator.process.rss_kib().unwrap_or(0));
            thread::sleep(Duration::from_millis(100));
        }
        let sibling = self.sibling.as_ref().map(|sibling| sibling.quantiles_since(from));
        Figures { waits: self.neighbour.quantiles_since(from), sibling, hold: self.longest_hold(), rss_kib }
    }

    /// The longest hold of the ledger's lock since this was last asked; unknown where the page is not read, which a case may see to.
    fn longest_hold(&self) -> Option<u64> {
        let (_, page) = self.operator.page("/metrics").ok()?;
        let now = Holds::read(&page);
        let before = std::mem::replace(&mut *self.holds.lock().unwrap(), now.clone());
        now.longest_since(&before)
    }

    /// What happened to the process and its Lease since the start.
    pub(super) fn process_faults(&mut self) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(status) = self.operator.process.ended().unwrap() {
            let log = self.operator.process.log_tail(5);
            faults.push(format!("the process ended ({status}): {log}"));
            self.operator = serving(&self.plane, "berth-0", OPTIONS);
            self.led = leadership(&self.plane);
        }
        let led = leadership(&self.plane);
        if led != self.led {
            faults.push(format!("the Lease changed hands: {led:?}"));
            self.led = led;
        }
        faults
    }

    /// Posts a pod of the attacker; what the API server itself refuses is no attack, so it fails the test.
    pub(super) fn send(&self, pod: &Value) {
        self.plane.api.post(&pod_path(HOSTILE, ""), pod).unwrap();
    }

    pub(super) fn send_many(&self, count: usize, pod: impl Fn(usize) -> Value + Sync) {
        self.plane.create_objects(&pod_path(HOSTILE, ""), count, 16, pod).unwrap();
    }

    /// Makes an object outside the attacker's namespace, marked so that it goes with the case.
    pub(super) fn make(&self, collection: &str, mut object: Value) {
        object["metadata"]["labels"]["made-by"] = json!(HOSTILE);
        self.plane.api.post(collection, &object).unwrap();
    }

    /// Nodes of the attacker's own; pods of others keep off them.
    pub(super) fn make_nodes(&self, nodes: &[NodeSpec]) {
        for_each(nodes.len(), 16, |i| {
            let node = nodes[i].clone().label("made-by", HOSTILE).taint(HOSTILE, "", "NoSchedule");
            self.plane.create_nodes(1, |_| node.clone())
        })
        .unwrap();
    }

    /// Waits until a pod of the attacker's namespace is bound, a short while only.
    pub(super) fn is_bound_soon(&self, name: &str) -> bool {
        self.is_bound_within(name, Duration::from_secs(10)).is_ok()
    }

    pub(super) fn is_bound_within(&self, name: &str, limit: Duration) -> Result<(), String> {
        let bound = || Ok(self.pod(name)["spec"]["nodeName"].is_string().then_some(()));
        self.plane.wait_for("a pod to be bound", limit, bound).map_err(|_| format!("{name} is not bound"))
    }

    /// Waits until a pod is terminating or gone.
    pub(super) fn is_leaving_within(&self, name: &str, limit: Duration) -> Result<(), String> {
        let leaves = || {
            let pod = self.pod(name);
            Ok((pod.is_null() || pod["metadata"]["deletionTimestamp"].is_string()).then_some(()))
        };
        self.plane.wait_for("a pod to be evicted", limit, leaves).map_err(|_| format!("{name} is not evicted"))
    }

    /// Ends a terminating pod, as its kubelet would.
    pub(super) fn end(&self, name: &str) {
        let _gone = self.plane.api.delete(&pod_path(HOSTILE, name), Some(&json!({"gracePeriodSeconds": 0})));
    }

    /// Waits until a gauge of the operator, the sum of its series that have this `label`, is what is `wanted`.
    pub(super) fn gauge_soon(&self, name: &str, label: &str, wanted: impl Fn(f64) -> bool) -> Result<(), String> {
        let mut last = 0.0;
        let reached = self.plane.wait_for(name, SOON, || {
            let (_, page) = self.operator.page("/metrics")?;
            let is_one = |line: &&str| line.split(['{', ' ']).next() == Some(name) && line.contains(label);
            let values = page.lines().filter(is_one).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            last = values.sum();
            Ok(wanted(last).then_some(()))
        });
        reached.map_err(|_| format!("{name} is {last}"))
    }

    /// Whether a pod of the neighbour that fits nowhere is told so, as an autoscaler has to see it.
    pub(super) fn neighbour_is_told(&self) -> Result<(), String> {
        let (api, name) = (&self.plane.api, "fits-nowhere");
        api.post(&pod_path(NEIGHBOUR, ""), &pod(NEIGHBOUR, name, NEIGHBOUR, "1000")).unwrap();
        let told = self.plane.wait_for("the neighbour's condition", Duration::from_secs(10), || {
            let condition = crate::objects::condition(&api.get(&pod_path(NEIGHBOUR, name))?, "PodScheduled");
            Ok(condition.filter(|(status, _, _)| status == "False").map(drop))
        });
        api.delete(&pod_path(NEIGHBOUR, name), Some(&json!({"gracePeriodSeconds": 0}))).unwrap();
        told.map_err(|_| "a pod of the neighbour that fits nowhere is not told so".to_owned())
    }

    /// Waits until `PodScheduled=False` of the pod says something with `text` in it.
    pub(super) fn says_soon(&self, name: &str, text: &str) -> Result<(), String> {
        let mut last = String::new();
        let said = self.plane.wait_for("a pod's condition", Duration::from_secs(20), || {
            let pod = self.pod(name);
            last = crate::objects::condition(&pod, "PodScheduled").map(|(_, _, message)| message).unwrap_or_default();
            Ok(last.contains(text).then_some(()))
        });
        said.map_err(|_| format!("{name} says {last:?}, not {text:?}"))
    }

    pub(super) fn pod(&self, name: &str) -> Value {
        self.plane.api.get(&pod_path(HOSTILE, name)).unwrap_or(Value::Null)
    }

    /// How many of the attacker's pods are bound.
    pub(super) fn bound(&self) -> usize {
        let list = self.plane.api.get(&pod_path(HOSTILE, "")).unwrap();
        list["items"].as_array().unwrap().iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count()
    }

    /// A webhook that takes the connection and never answers, for `resource` in the attacker's namespaces.
    pub(super) fn hang_webhook(&self, operations: &[&str], resource: &str, seconds: u32) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let _ = { &stream }.read(&mut [0; 1 << 10]);
                    thread::sleep(Duration::from_secs(40));
                });
            }
        });
        let group = if resource.starts_with("persistent") || resource.starts_with("pods") { "" } else { "*" };
        let webhook = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": format!("hang-{}", resource.replace('/', "-"))},
            "webhooks": [{
                "name": "hang.hostile.example",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "timeoutSeconds": seconds,
                "failurePolicy": "Fail",
                "clientConfig": {"url": format!("https://{address}/")},
                "namespaceSelector": {"matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces().collect::<Vec<_>>()},
                ]},
                "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": [resource], "scope": "*"}],
            }],
        });
        self.make("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", webhook);
    }

    /// Takes back all that a case made and waits until it is gone.
    pub(super) fn clear(&self) {
        self.sockets.lock().unwrap().clear();
        let api = &self.plane.api;
        let now = json!({"gracePeriodSeconds": 0});
        for collection in [
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            PROFILES,
            "/api/v1/nodes",
            "/api/v1/persistentvolumes",
            "/apis/storage.k8s.io/v1/storageclasses",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            "/apis/resource.k8s.io/v1/deviceclasses",
            "/apis/resource.k8s.io/v1/resourceslices",
            format!("/api/v1/namespaces/{HOME}/secrets").as_str(),
        ] {
            api.delete(&format!("{collection}?labelSelector={}", MARK.replace('=', "%3D")), Some(&now)).unwrap();
        }
        for kind in ["persistentvolumeclaims", "secrets"] {
            api.delete(&format!("/api/v1/namespaces/{HOSTILE}/{kind}"), Some(&now)).unwrap();
        }
        for namespace in namespaces().chain([SIBLING]) {
            let gone = self.plane.wait_for("the attacker's pods to be gone", LATER, || {
                // The answer holds all that was deleted: the API server may break off in the middle of it.
                let _asked_again = api.delete(&pod_path(namespace, ""), Some(&now));
                let left = api.get(&format!("{}?limit=1", pod_path(namespace, "")))?;
                Ok(left["items"].as_array().is_none_or(Vec::is_empty).then_some(()))
            });
            gone.unwrap();
        }
        let claims = format!("/apis/resource.k8s.io/v1/namespaces/{HOSTILE}/resourceclaims");
        api.delete(&claims, Some(&now)).unwrap();
        self.end_protection(&claims);
        // Not before their pods: a bind that was sent is followed as long as its pod is there.
        self.extenders.lock().unwrap().clear();
        self.end_protection(&format!("/api/v1/namespaces/{HOSTILE}/persistentvolumeclaims"));
        self.end_protection("/api/v1/persistentvolumes");
    }

    /// Lets deleted volumes and claims go, which a controller would do that is not there.
    fn end_protection(&self, collection: &str) {
        let api = &self.plane.api;
        let list = api.get(collection).unwrap();
        for object in list["items"].as_array().into_iter().flatten() {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let _gone =
                api.patch(&format!("{collection}/{name}"), Patch::Merge, &json!({"metadata": {"finalizers": null}}));
        }
    }
}

/// All in which the attacker does something.
fn namespaces() -> impl Iterator<Item = &'static str> {
    std::iter::once(HOSTILE).chain(ELSEWHERE)
}

fn leadership(plane: &ControlPlane) -> (Value, Value) {
    let lease = plane.api.get(LEASE).unwrap();
    (lease["spec"]["holderIdentity"].clone(), lease["spec"]["leaseTransitions"].clone())
}

/// An ordinary pod of the attacker's namespace and profile.
pub(super) fn plain(name: &str) -> Value {
    pod(HOSTILE, name, HOSTILE, "10m")
}

/// As [`plain`], created on a node by name.
pub(super) fn on_node(name: &str, node: &str) -> Value {
    let mut pod = plain(name);
    pod["spec"]["nodeName"] = json!(node);
    pod
}
