//! Namespaces that choose a profile for pods that name none: what the chart's policy does on a real API server, who may redirect whose
//! pods by it, and that nothing of it is left behind. Before Kubernetes 1.36 there is no such policy, and the condition says so.
//!
//! Pods are tried by dry run: the API server admits them as any other, and keeps none.

use std::sync::OnceLock;

use berth_lab::{Api, ControlPlane, NodeSpec, Operator, Options, Patch};
use serde_json::{Value, json};

use crate::cluster::{HOME, install_chart, serving};
use crate::objects::{PROFILES, change_profile, condition, pod, pod_path, profile, wait_bound, wait_reason};
use crate::world::World;
use crate::{LATER, SOON};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";

/// The annotation by which the policy says whose a pod is.
const MARK: &str = "scheduling.berth.dev/routed-by";

/// What is done to a pod before it is created.
type Change<'a> = &'a dyn Fn(&mut Value);

/// A control plane with the policy installed, and an operator.
struct Routing {
    plane: ControlPlane,
    _operator: Operator,
}

impl Routing {
    /// `None` where the API server has no such policies.
    fn start() -> Option<Self> {
        let plane = ControlPlane::start(&Options::default()).unwrap();
        if !is_served(&plane.api) {
            return None;
        }
        install_chart(&plane, &["--set", "namespaceRouting.enabled=true"]);
        let operator = serving(&plane, "berth-routing", &[]);
        Some(Self { plane, _operator: operator })
    }

    /// The one that the tests share which take nothing away.
    fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Routing>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    fn namespace(&self, name: &str, labels: &Value) {
        let metadata = json!({"name": name, "labels": labels});
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        self.plane.api.post("/api/v1/namespaces", &object).unwrap();
    }

    /// Makes a profile that routes the namespaces of this selector.
    fn profile(&self, name: &str, selector: &Value) {
        let spec = json!({"namespaces": {"route": {"selector": selector}}});
        self.plane.api.post(PROFILES, &profile(name, &spec)).unwrap();
    }

    /// A new pod as the API server would keep it.
    fn tried(&self, namespace: &str, change: impl FnOnce(&mut Value)) -> Value {
        let mut object = unnamed(namespace, "tried");
        change(&mut object);
        self.plane.api.post(&format!("{}?dryRun=All", pod_path(namespace, "")), &object).unwrap()
    }

    /// The scheduler name that a new pod gets which names none.
    fn gets(&self, namespace: &str) -> String {
        scheduler(&self.tried(namespace, |_| {}))
    }

    /// Waits until new pods of the namespace get this scheduler. A policy, and each change of a profile, is in force some time later.
    fn wait_gets(&self, namespace: &str, wanted: &str) {
        let mut last = String::new();
        let found = self.plane.wait_for("the policy to follow", LATER, || {
            last = self.gets(namespace);
            Ok((last == wanted).then_some(()))
        });
        found.unwrap_or_else(|error| panic!("{error}: pods of {namespace} get {last}, not {wanted}"));
    }
}

fn is_served(api: &Api) -> bool {
    api.get("/apis/admissionregistration.k8s.io/v1").unwrap().to_string().contains("\"mutatingadmissionpolicies\"")
}

/// A pod that names no scheduler.
fn unnamed(namespace: &str, name: &str) -> Value {
    let mut object = pod(namespace, name, "", "1m");
    object["spec"].as_object_mut().unwrap().remove("schedulerName");
    object
}

fn scheduler(pod: &Value) -> String {
    pod["spec"]["schedulerName"].as_str().unwrap_or_default().to_owned()
}

/// Refused for want of rights.
#[track_caller]
fn forbidden(api: &Api, method: &str, path: &str, body: Option<&Value>) {
    let answer = api.request(method, path, body).unwrap();
    assert_eq!(answer.status, 403, "{method} {path}: {}", answer.body);
}

#[test]
fn pods_that_name_no_scheduler_get_the_profile_of_their_namespace_and_no_others() {
    let Some(routing) = Routing::shared() else { return };
    let plane = &routing.plane;
    routing.namespace("plain-gold", &json!({"tier": "gold"}));
    routing.namespace("plain-other", &json!({}));
    for spared in ["kube-system", HOME] {
        let labels = json!({"metadata": {"labels": {"tier": "gold"}}});
        plane.api.patch(&format!("/api/v1/namespaces/{spared}"), Patch::Merge, &labels).unwrap();
    }
    plane.create_nodes(1, |_| NodeSpec::new("plain-node", "zone-a", "4", "8Gi")).unwrap();
    routing.profile("plain", &json!({"matchLabels": {"tier": "gold"}}));
    let (status, _) = wait_reason(plane, "plain", "NamespacesRouted", "Routed");
    assert_eq!(status, "True");
    routing.wait_gets("plain-gold", "plain");

    let tried = |namespace: &str, change: &dyn Fn(&mut Value)| scheduler(&routing.tried(namespace, change));
    let cases: [(&str, &str, Change<'_>, &str); 9] = [
        ("another namespace", "plain-other", &|_: &mut Value| {}, "default-scheduler"),
        ("kube-system", "kube-system", &|_: &mut Value| {}, "default-scheduler"),
        ("the operator's own", HOME, &|_: &mut Value| {}, "default-scheduler"),
        ("named", "plain-gold", &|pod: &mut Value| pod["spec"]["schedulerName"] = json!("mine"), "mine"),
        (
            "on a node",
            "plain-gold",
            &|pod: &mut Value| pod["spec"]["nodeName"] = json!("plain-node"),
            "default-scheduler",
        ),
        (
            "opted out",
            "plain-gold",
            &|pod: &mut Value| pod["metadata"]["labels"]["scheduling.berth.dev/route"] = json!("false"),
            "default-scheduler",
        ),
        // What the API server writes where nothing is named, and what cannot be told from it.
        (
            "named default",
            "plain-gold",
            &|pod: &mut Value| pod["spec"]["schedulerName"] = json!("default-scheduler"),
            "plain",
        ),
        ("annotated", "plain-gold", &|pod: &mut Value| pod["metadata"]["annotations"] = json!({"a": "b"}), "plain"),
        // A forged mark keeps no pod back.
        ("marked", "plain-gold", &|pod: &mut Value| pod["metadata"]["annotations"] = json!({MARK: "0"}), "plain"),
    ];
    for (what, namespace, change, wanted) in cases {
        assert_eq!(tried(namespace, change), wanted, "{what}");
    }
    let annotated = routing.tried("plain-gold", |pod| pod["metadata"]["annotations"] = json!({"a": "b"}));
    assert_eq!(annotated["metadata"]["annotations"]["a"], "b");
    assert!(annotated["metadata"]["annotations"][MARK].as_str().unwrap().ends_with("Z/plain"), "{annotated}");

    plane.api.post(&pod_path("plain-gold", ""), &unnamed("plain-gold", "placed")).unwrap();
    assert_eq!(wait_bound(plane, "plain-gold", "placed"), "plain-node");
}

#[test]
fn who_may_write_profiles_may_redirect_pods_and_nobody_else_may() {
    let Some(routing) = Routing::shared() else { return };
    let api = &routing.plane.api;
    routing.namespace("tenant", &json!({"team": "tenant"}));
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let pods = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "makes-pods"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "list"]}]});
    api.post(&format!("{rbac}/clusterroles"), &pods).unwrap();
    // Pods in one namespace; profiles are in none.
    for (account, role, kind, path) in [
        ("tenant", "makes-pods", "RoleBinding", "namespaces/tenant/rolebindings"),
        ("editor", "berth-editor", "ClusterRoleBinding", "clusterrolebindings"),
    ] {
        let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}});
        api.post("/api/v1/namespaces/tenant/serviceaccounts", &object).unwrap();
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": format!("routing-{account}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "tenant"}]});
        api.post(&format!("{rbac}/{path}"), &binding).unwrap();
    }
    let as_account =
        |namespace: &str, account: &str| api.with_token(&routing.plane.token_for(namespace, account).unwrap());
    let (tenant, editor, operator) =
        (as_account("tenant", "tenant"), as_account("tenant", "editor"), as_account(HOME, "berth"));

    // A tenant makes pods, and neither profiles nor the label by which a namespace is chosen.
    let spec = json!({"namespaces": {"route": {"selector": {"matchLabels": {"team": "tenant"}}}}});
    let theirs = profile("who", &spec);
    forbidden(&tenant, "POST", PROFILES, Some(&theirs));
    let relabelled = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant", "labels": {}}});
    forbidden(&tenant, "PUT", "/api/v1/namespaces/tenant", Some(&relabelled));

    // An editor of profiles chooses for any namespace, though no pod there is theirs to touch. A status is not theirs to write.
    forbidden(&editor, "GET", &pod_path("tenant", ""), None);
    let mut with_status = theirs.clone();
    with_status["status"] = json!({"route": {"schedulerName": "elsewhere", "namespaces": spec["namespaces"]}});
    let made = editor.post(PROFILES, &with_status).unwrap();
    assert!(made["status"]["route"].is_null(), "{made}");
    forbidden(&editor, "PUT", &format!("{PROFILES}/who/status"), Some(&made));
    routing.wait_gets("tenant", "who");
    let mine = tenant.post(&format!("{}?dryRun=All", pod_path("tenant", "")), &unnamed("tenant", "mine")).unwrap();
    assert_eq!(scheduler(&mine), "who");

    // A name that the profile does not get is given to no pod.
    let taken = json!({"spec": {"schedulerNames": ["who"], "namespaces": spec["namespaces"]}});
    editor.post(PROFILES, &profile("who-else", &taken["spec"])).unwrap();
    wait_reason(&routing.plane, "who-else", "NamespacesRouted", "NotServing");
    assert_eq!(routing.gets("tenant"), "who");

    // The operator's account writes no policy, and reads none.
    forbidden(&operator, "GET", POLICIES, None);
    forbidden(&operator, "DELETE", &format!("{POLICIES}/berth-namespace-routing"), None);
    for name in ["who", "who-else"] {
        editor.delete(&format!("{PROFILES}/{name}"), None).unwrap();
    }
    routing.wait_gets("tenant", "default-scheduler");
}

/// The API server evaluates profiles in the order of a hash table: another one for each request.
#[test]
fn of_several_profiles_the_oldest_gets_the_pods_and_the_others_say_so() {
    let Some(routing) = Routing::shared() else { return };
    let plane = &routing.plane;
    routing.namespace("contested", &json!({"contest": "yes"}));
    let selector = json!({"matchLabels": {"contest": "yes"}});
    routing.profile("oldest", &selector);
    let born =
        |name: &str| plane.api.get(&format!("{PROFILES}/{name}")).unwrap()["metadata"]["creationTimestamp"].clone();
    plane
        .wait_for("another second", SOON, || {
            let now = plane.api.post(&format!("{PROFILES}?dryRun=All"), &profile("now", &json!({})))?;
            Ok((now["metadata"]["creationTimestamp"] != born("oldest")).then_some(()))
        })
        .unwrap();
    // Their names would come first.
    for name in ["a-young", "b-young", "c-young", "d-young"] {
        routing.profile(name, &selector);
    }
    for name in ["a-young", "d-young"] {
        let (status, message) = wait_reason(plane, name, "NamespacesRouted", "OlderProfileRoutes");
        assert_eq!(status, "False");
        assert!(message.contains("contested") && message.contains("oldest"), "{message}");
    }
    let (status, _) = wait_reason(plane, "oldest", "NamespacesRouted", "Routed");
    assert_eq!(status, "True");
    routing.wait_gets("contested", "oldest");
    for _ in 0..50 {
        assert_eq!(routing.gets("contested"), "oldest");
    }
    plane.api.delete(&format!("{PROFILES}/oldest"), None).unwrap();
    // Of the four, made within a second or two, the first.
    routing.wait_gets("contested", "a-young");
    for name in ["a-young", "b-young", "c-young", "d-young"] {
        plane.api.delete(&format!("{PROFILES}/{name}"), None).unwrap();
    }
}

#[test]
fn selectors_mean_in_the_policy_what_they_mean_elsewhere() {
    let Some(routing) = Routing::shared() else { return };
    let plane = &routing.plane;
    routing.namespace("sel-a", &json!({"sel": "yes", "env": "prod", "team": "x"}));
    routing.namespace("sel-b", &json!({"sel": "yes", "env": "test"}));
    routing.namespace("sel-c", &json!({"sel": "yes"}));
    let one = |operator: &str, values: Value| {
        let mut wanted = json!({"key": "env", "operator": operator});
        if values != Value::Null {
            wanted["values"] = values;
        }
        json!({"route": {"selector": {"matchLabels": {"sel": "yes"}, "matchExpressions": [wanted]}}})
    };
    let all = json!({"matchLabels": {"sel": "yes"}});
    routing.profile("sel", &all);
    for (namespaces, wanted) in [
        (json!({"route": {"selector": all}}), "abc"),
        (one("In", json!(["prod", "stage"])), "a"),
        (one("NotIn", json!(["prod", "stage"])), "bc"),
        (one("Exists", Value::Null), "ab"),
        (one("DoesNotExist", Value::Null), "c"),
        (json!({"route": {"selector": {"matchLabels": {"sel": "yes", "team": "x"}}}}), "a"),
        // Without access a pod would be held.
        (
            json!({"access": "Restricted", "names": ["sel-c"], "matchLabels": {"team": "x"}, "route": {"selector": all}}),
            "ac",
        ),
    ] {
        // The whole of it: a merge patch would leave what the row before had.
        change_profile(plane, "sel", &json!({"namespaces": null}));
        change_profile(plane, "sel", &json!({"namespaces": namespaces}));
        let mut last = String::new();
        let found = plane.wait_for("the policy to follow", LATER, || {
            last = ["a", "b", "c"].into_iter().filter(|name| routing.gets(&format!("sel-{name}")) == "sel").collect();
            Ok((last == wanted).then_some(()))
        });
        found.unwrap_or_else(|error| panic!("{error}: {namespaces} routes {last:?}, not {wanted:?}"));
    }
    plane.api.delete(&format!("{PROFILES}/sel"), None).unwrap();
}

#[test]
fn what_is_removed_leaves_nothing_behind() {
    let Some(routing) = Routing::start() else { return };
    let plane = &routing.plane;
    routing.namespace("left", &json!({"tier": "gold"}));
    routing.profile("leaving", &json!({"matchLabels": {"tier": "gold"}}));
    routing.wait_gets("left", "leaving");
    plane.api.post(&pod_path("left", ""), &unnamed("left", "before")).unwrap();

    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/berth");
    let off = ["--set", "namespaceRouting.enabled=false"];
    plane.helm(&[&["upgrade", "berth", chart, "--namespace", HOME][..], &off].concat()).unwrap();
    let policies = || plane.api.get(POLICIES).unwrap()["items"].as_array().unwrap().len();
    let bindings = || plane.api.get(&POLICIES.replace("policies", "policybindings")).unwrap()["items"].clone();
    assert_eq!((policies(), bindings()), (0, json!([])));
    routing.wait_gets("left", "default-scheduler");
    // What a pod was made with stays: nobody can change it.
    assert_eq!(scheduler(&plane.api.get(&pod_path("left", "before")).unwrap()), "leaving");

    plane.helm(&["upgrade", "berth", chart, "--namespace", HOME, "--set", "namespaceRouting.enabled=true"]).unwrap();
    routing.wait_gets("left", "leaving");
    plane.helm(&["uninstall", "berth", "--namespace", HOME]).unwrap();
    assert_eq!((policies(), bindings()), (0, json!([])));
    routing.wait_gets("left", "default-scheduler");
}

/// The shared operator was not told of a policy.
#[test]
fn without_the_policy_the_condition_says_why_nothing_is_routed() {
    let world = World::new("unrouted");
    world.profile("unrouted", &json!({"namespaces": {"route": {"selector": {}}}}));
    let lacking = if is_served(&world.plane.api) { "PolicyNotInstalled" } else { "PolicyNotSupported" };
    let (status, message) = world.reason("NamespacesRouted", lacking);
    assert_eq!(status, "False", "{message}");
    let now = world.profile_now();
    assert!(now["status"]["route"].is_null(), "{now}");
    assert_eq!(condition(&now, "Ready").map(|(status, ..)| status).as_deref(), Some("True"), "pods may name it");
}
