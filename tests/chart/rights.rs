//! What the chart's account may do, may not do, and at which priority level the API server takes its requests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use berth_lab::{Api, ControlPlane};
use serde_json::{Value, json};

use super::installed::{cluster, get, install};
use super::{CRD, HOME, object, rendered, repository, text};

/// Name of the one Lease, fixed in the operator.
const LEASE: &str = "berth.scheduling.berth.dev";

/// Names of the roles that the chart binds to anybody: by default to the operator's account alone.
fn bound(objects: &[Value]) -> BTreeSet<&str> {
    objects.iter().filter_map(|object| object["roleRef"]["name"].as_str()).collect()
}

/// All (Role or ClusterRole name, rule) pairs that the chart grants.
fn rules(objects: &[Value]) -> Vec<(String, Value)> {
    let bound = bound(objects);
    let roles = objects.iter().filter(|object| object["kind"] == "Role" || object["kind"] == "ClusterRole");
    let granted = roles.filter(|role| bound.contains(role["metadata"]["name"].as_str().unwrap()));
    granted
        .flat_map(|role| {
            let name = role["metadata"]["name"].as_str().unwrap().to_owned();
            role["rules"].as_array().unwrap().iter().map(move |rule| (name.clone(), rule.clone()))
        })
        .collect()
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[test]
fn rules_are_explicit_and_each_is_explained() {
    let page = text("docs/rbac.md");
    let objects = rendered(&[]);
    let rules = rules(&objects);
    assert_eq!(rules.len(), 24, "a rule came or went: docs/rbac.md and this count follow");
    for (role, rule) in rules {
        let verbs = strings(&rule["verbs"]);
        let all = [strings(&rule["apiGroups"]), strings(&rule["resources"]), verbs.clone()].concat();
        assert!(!all.iter().any(|word| word.contains('*')), "{role}: a wildcard in {rule}");
        let section = page.split("\n## ").find(|section| section.contains(&format!("`{role}`)")));
        let section = section.unwrap_or_else(|| panic!("docs/rbac.md has no section on {role}"));
        for resource in strings(&rule["resources"]) {
            let row = section.lines().any(|line| {
                let names = strings(&rule["resourceNames"]).iter().all(|name| line.contains(name));
                line.contains(&format!("`{resource}`")) && line.contains(&verbs.join(", ")) && names
            });
            assert!(row, "docs/rbac.md does not explain {verbs:?} on {resource} in {role}");
        }
    }
    for role in objects.iter().filter(|object| object["kind"].as_str().unwrap().ends_with("Binding")) {
        assert!(role["roleRef"]["name"].as_str().unwrap().starts_with("berth"), "a built-in role is bound: {role}");
    }
}

/// A right: the role, the API group, the resource, a name that it is limited to, and the verb.
type Right = [String; 5];

/// The words in backquotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The rights that the tables of `docs/rbac.md` list, each below the heading of its role.
fn listed(page: &str) -> BTreeSet<Right> {
    let mut all = BTreeSet::new();
    for section in page.split("\n## ") {
        let heading = section.lines().next().unwrap_or_default();
        let Some(role) = heading.split_once("Role `").and_then(|(_, role)| role.split('`').next()) else { continue };
        for row in section.lines().filter(|line| line.starts_with("| ")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [_, group, resources, verbs, _, _] = cells[..] else { continue };
            if group == "group" {
                continue;
            }
            let group = if group == "core" { "" } else { group };
            let (resources, name) = resources.split_once(", only ").unwrap_or((resources, ""));
            let name = quoted(name).first().copied().unwrap_or_default();
            for resource in quoted(resources) {
                all.extend(verbs.split(", ").map(|verb| [role, group, resource, name, verb].map(str::to_owned)));
            }
        }
    }
    all
}

/// The page must not grant more than the chart does, either: whoever reviews the account reads the page.
#[test]
fn the_page_on_rights_lists_what_the_chart_grants_and_no_more() {
    let mut granted: BTreeSet<Right> = BTreeSet::new();
    for (role, rule) in rules(&rendered(&[])) {
        let names = if rule["resourceNames"].is_null() { vec![""] } else { strings(&rule["resourceNames"]) };
        for group in strings(&rule["apiGroups"]) {
            for resource in strings(&rule["resources"]) {
                for name in &names {
                    let verbs = strings(&rule["verbs"]).into_iter();
                    granted.extend(verbs.map(|verb| [role.as_str(), group, resource, *name, verb].map(str::to_owned)));
                }
            }
        }
    }
    let listed = listed(&text("docs/rbac.md"));
    let differ: Vec<&Right> = granted.symmetric_difference(&listed).collect();
    assert!(differ.is_empty() && listed.len() > 40, "docs/rbac.md and the chart differ in {differ:?}");
}

/// A right to write, or to read what is secret, has a row that says what whoever steals the token can do with it.
#[test]
fn what_each_right_is_worth_to_a_thief_is_said() {
    let page = text("docs/rbac.md");
    let section = page.split("\n## ").find(|section| section.starts_with("What a stolen token is worth")).unwrap();
    let told: Vec<&str> = section.lines().filter_map(|line| line.split('|').nth(1)).flat_map(quoted).collect();
    for [role, _, resource, name, verb] in listed(&page) {
        let is_harmless =
            ["list", "watch"].contains(&&*verb) || verb == "get" && !["secrets", "configmaps"].contains(&&*resource);
        // Leases that exist are limited to our own.
        if is_harmless || !name.is_empty() {
            continue;
        }
        assert!(
            told.contains(&&*resource),
            "docs/rbac.md does not say what {verb} on {resource} ({role}) is worth to a thief"
        );
    }
}

/// A kind that is watched without the right to do so keeps the operator from starting; without a place in the FlowSchema its
/// watch shares a level with everybody.
#[test]
fn every_watched_kind_is_granted_and_has_a_place_in_the_flow_schema() {
    let objects = rendered(&[]);
    let schema = objects.iter().find(|object| object["kind"] == "FlowSchema" && object["metadata"]["name"] == "berth");
    let placed = schema.unwrap()["spec"]["rules"][0]["resourceRules"].as_array().unwrap().clone();
    let granted: Vec<Value> =
        rules(&objects).into_iter().filter(|(role, _)| role == "berth").map(|(_, rule)| rule).collect();
    for kind in berth_cluster::watch::KINDS {
        let (resource, group) = kind.resource.split_once('.').unwrap_or((kind.resource, ""));
        for (rules, whose) in [(&granted, "the ClusterRole berth"), (&placed, "the FlowSchema berth")] {
            let named = rules.iter().any(|rule| {
                let has = |list: &str, word: &str| strings(&rule[list]).contains(&word);
                has("apiGroups", group) && has("resources", resource) && has("verbs", "list") && has("verbs", "watch")
            });
            assert!(named, "{whose} does not name list and watch on {}", kind.resource);
        }
    }
}

/// A policy without a binding refuses nothing; one that matches other accounts refuses too much. What they let through:
/// `tests/e2e/admission.rs`.
#[test]
fn each_admission_policy_concerns_the_account_alone_and_is_in_force() {
    let page = text("docs/rbac.md");
    let set = "admissionPolicy.enabled=true,admissionPolicy.protectedNamespaces={kube-system}";
    let objects = rendered(&["--set", set]);
    let of = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
    let (policies, bindings) = (of("ValidatingAdmissionPolicy"), of("ValidatingAdmissionPolicyBinding"));
    assert_eq!((policies.len(), bindings.len()), (9, 9));
    for policy in policies {
        let name = policy["metadata"]["name"].as_str().unwrap();
        assert!(page.contains(&format!("| `{name}` |")), "docs/rbac.md does not explain {name}");
        assert_eq!(policy["spec"]["failurePolicy"], "Fail", "{name}");
        let account = format!("request.userInfo.username == \"system:serviceaccount:{HOME}:berth\"");
        assert_eq!(policy["spec"]["matchConditions"][0]["expression"], account, "{name}");
        let binding = bindings.iter().find(|binding| binding["spec"]["policyName"] == name).unwrap();
        assert_eq!(binding["spec"], json!({"policyName": name, "validationActions": ["Deny"]}));
    }
    let default = rendered(&[]);
    assert!(default.iter().all(|object| !object["kind"].as_str().unwrap().contains("Admission")));
}

/// What it does to pods: `tests/e2e/routing.rs`.
#[test]
fn the_routing_policy_spares_what_it_must_and_gives_the_operator_no_right() {
    let set = "namespaceRouting.enabled=true,admissionPolicy.enabled=true,admissionPolicy.protectedNamespaces={other}";
    let objects = rendered(&["--set", set]);
    let policy = object(&objects, "MutatingAdmissionPolicy", "berth-namespace-routing");
    let spec = &policy["spec"];
    assert_eq!((&spec["failurePolicy"], &spec["reinvocationPolicy"]), (&json!("Ignore"), &json!("Never")));
    assert_eq!(spec["matchConstraints"]["resourceRules"][0]["operations"], json!(["CREATE"]));
    let spared = &spec["matchConstraints"]["namespaceSelector"]["matchExpressions"][0];
    assert_eq!(spared["values"], json!(["kube-system", HOME, "other"]));
    let binding = object(&objects, "MutatingAdmissionPolicyBinding", "berth-namespace-routing");
    let all = json!({"selector": {}, "parameterNotFoundAction": "Allow"});
    assert_eq!(binding["spec"], json!({"policyName": "berth-namespace-routing", "paramRef": all}));
    let touched = rules(&objects).into_iter().any(|(_, rule)| rule.to_string().contains("admissionregistration"));
    assert!(!touched, "the operator has no right to admission policies");
    let arguments =
        |objects: &[Value]| object(objects, "Deployment", "berth").to_string().contains("--namespace-routing");
    let default = rendered(&[]);
    assert!(arguments(&objects) && !arguments(&default));
    assert!(default.iter().all(|object| !object["kind"].as_str().unwrap().contains("Admission")));
}

/// Roles to be bound by an administrator. Writing profiles is added to no built-in role: docs/rbac.md.
#[test]
fn roles_for_people_are_bound_to_nobody_and_only_reading_is_everybodys() {
    let page = text("docs/rbac.md");
    let read = ["get", "list", "watch"];
    let write = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let label = |role: &Value| role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true";
    let objects = rendered(&[]);
    for (name, verbs, is_aggregated) in [("berth-viewer", &read[..], true), ("berth-editor", &write[..], false)] {
        let role = object(&objects, "ClusterRole", name);
        let rule = json!({"apiGroups": ["scheduling.berth.dev"], "resources": ["schedulerprofiles"], "verbs": verbs});
        assert_eq!(role["rules"], json!([rule]), "{name}");
        assert_eq!(label(role), is_aggregated, "{name}");
        assert!(!bound(&objects).contains(name), "{name} is bound");
        assert!(page.contains(&format!("`{name}`)")), "docs/rbac.md has no section on {name}");
    }
    let objects = rendered(&["--set", "rbac.aggregateToView=false"]);
    assert!(!label(object(&objects, "ClusterRole", "berth-viewer")));
}

/// Verb, API group, resource (with subresource), namespace (empty: all) and name (empty: any).
type Access<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str);

/// What a SubjectAccessReview says of the chart's account.
fn may(api: &Api, (verb, group, resource, namespace, name): Access<'_>) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let own = format!("system:serviceaccounts:{HOME}");
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": format!("system:serviceaccount:{HOME}:berth"),
            "groups": ["system:serviceaccounts", own, "system:authenticated"],
            "resourceAttributes": {
                "verb": verb,
                "group": group,
                "resource": resource,
                "subresource": subresource,
                "namespace": namespace,
                "name": name
            }
        }
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    api.post(path, &review).unwrap()["status"]["allowed"].as_bool().unwrap()
}

/// What the operator must never be allowed.
const FORBIDDEN: &[Access<'static>] = &[
    ("*", "*", "*", "", ""),
    ("create", "", "pods", HOME, ""),
    ("update", "", "pods", "default", ""),
    ("patch", "", "pods", "default", ""),
    ("deletecollection", "", "pods", "default", ""),
    ("deletecollection", "", "pods", "default", ""),
    ("update", "", "pods/status", "default", ""),
    ("create", "", "pods/eviction", "default", ""),
    ("create", "", "pods/exec", "default", ""),
    ("get", "", "pods/log", "default", ""),
    ("patch", "", "pods/ephemeralcontainers", "default", ""),
    ("create", "", "nodes", "", ""),
    ("update", "", "nodes", "", ""),
    ("patch", "", "nodes", "", ""),
    ("delete", "", "nodes", "", ""),
    ("patch", "", "nodes/status", "", ""),
    ("get", "", "nodes/proxy", "", ""),
    ("patch", "", "namespaces", "", "default"),
    ("list", "", "secrets", HOME, ""),
    ("watch", "", "secrets", HOME, ""),
    ("get", "", "secrets", "default", ""),
    ("list", "", "secrets", "kube-system", ""),
    ("list", "", "configmaps", HOME, ""),
    ("get", "", "configmaps", "kube-system", ""),
    ("watch", "discovery.k8s.io", "endpointslices", "default", ""),
    ("patch", "", "services", "default", ""),
    ("create", "", "persistentvolumes", "", ""),
    ("update", "", "persistentvolumes", "", ""),
    ("delete", "", "persistentvolumes", "", ""),
    ("patch", "", "persistentvolumes/status", "", ""),
    ("create", "", "persistentvolumeclaims", "default", ""),
    ("update", "", "persistentvolumeclaims", "default", ""),
    ("delete", "", "persistentvolumeclaims", "default", ""),
    ("patch", "", "persistentvolumeclaims/status", "default", ""),
    ("patch", "apps", "replicasets", "default", ""),
    ("patch", "apps", "statefulsets/scale", "default", ""),
    ("patch", "storage.k8s.io", "csinodes", "", ""),
    ("create", "storage.k8s.io", "volumeattachments", "", ""),
    ("patch", "storage.k8s.io", "storageclasses", "", ""),
    ("update", "resource.k8s.io", "resourceclaims", "default", ""),
    ("deletecollection", "resource.k8s.io", "resourceclaims", "default", ""),
    ("patch", "resource.k8s.io", "resourceslices", "", ""),
    ("patch", "resource.k8s.io", "deviceclasses", "", ""),
    ("create", "", "events", HOME, ""),
    ("delete", "events.k8s.io", "events", "default", ""),
    ("create", "", "serviceaccounts/token", HOME, "berth"),
    ("impersonate", "", "users", "", ""),
    ("create", "coordination.k8s.io", "leases", HOME, ""),
    ("create", "coordination.k8s.io", "leases", "kube-node-lease", ""),
    ("get", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler"),
    ("update", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler"),
    ("patch", "coordination.k8s.io", "leases", "kube-system", "kube-controller-manager"),
    ("update", "coordination.k8s.io", "leases", "default", LEASE),
    ("delete", "coordination.k8s.io", "leases", "kube-system", LEASE),
    ("list", "coordination.k8s.io", "leases", "kube-system", ""),
    ("get", "apps", "controllerrevisions", "default", ""),
    ("list", "apps", "controllerrevisions", "kube-system", ""),
    ("delete", "apps", "controllerrevisions", "kube-system", ""),
    ("deletecollection", "apps", "controllerrevisions", HOME, ""),
    ("patch", "apps", "deployments", HOME, "berth"),
    ("create", "scheduling.berth.dev", "schedulerprofiles", "", ""),
    ("update", "scheduling.berth.dev", "schedulerprofiles", "", "kept"),
    ("patch", "scheduling.berth.dev", "schedulerprofiles", "", "kept"),
    ("delete", "scheduling.berth.dev", "schedulerprofiles", "", "kept"),
    ("list", "apiextensions.k8s.io", "customresourcedefinitions", "", ""),
    ("get", "apiextensions.k8s.io", "customresourcedefinitions", "", "others.example.com"),
    ("patch", "apiextensions.k8s.io", "customresourcedefinitions", "", CRD),
    ("bind", "rbac.authorization.k8s.io", "clusterroles", "", "cluster-admin"),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles", "", "berth"),
    ("patch", "flowcontrol.apiserver.k8s.io", "flowschemas", "", "berth"),
    ("create", "certificates.k8s.io", "certificatesigningrequests", "", ""),
    ("create", "authorization.k8s.io", "localsubjectaccessreviews", HOME, ""),
];

/// `kubectl auth can-i --list` for the chart's account in each namespace, in a form that can be compared.
fn allowed(cluster: &ControlPlane) -> String {
    let account = format!("system:serviceaccount:{HOME}:berth");
    let mut out = String::new();
    for namespace in [HOME, "kube-system", "default"] {
        let list = cluster.kubectl_ok(&["auth", "can-i", "--list", "-n", namespace, "--as", &account]).unwrap();
        let lines: BTreeSet<String> =
            list.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        writeln!(out, "# kubectl auth can-i --list -n {namespace} --as {account}").unwrap();
        for line in lines {
            writeln!(out, "{line}").unwrap();
        }
    }
    out
}

/// The lines of such a text, each with the namespace that it is about.
fn sections(allowed: &str) -> BTreeSet<String> {
    let mut heading = "";
    let mut out = BTreeSet::new();
    for line in allowed.lines() {
        if line.starts_with('#') {
            heading = line;
        }
        out.insert(format!("{heading}: {line}"));
    }
    out
}

#[test]
fn the_account_may_do_what_is_listed_and_nothing_else() {
    let cluster = cluster();
    install(&cluster, &repository("charts/berth"), &[]);
    let golden = "charts/berth/ci/allowed.txt";
    let now = allowed(&cluster);
    if std::env::var_os("BERTH_BLESS").is_some() {
        fs::write(repository(golden), &now).unwrap();
    }
    let known = text(golden);
    let changed: Vec<String> = sections(&now).symmetric_difference(&sections(&known)).cloned().collect();
    assert!(
        changed.is_empty(),
        "rights changed against {golden}: look at each, then run this test with BERTH_BLESS=1\n{}",
        changed.join("\n")
    );
    let api = &cluster.api;
    for &case in FORBIDDEN {
        assert!(!may(api, case), "{case:?} is allowed");
    }
    for (role, rule) in rules(&rendered(&[])) {
        let namespace = match role.as_str() {
            "berth-lease" => "kube-system",
            "berth-state" => HOME,
            _ => "",
        };
        let name = strings(&rule["resourceNames"]).first().copied().unwrap_or("");
        let group = strings(&rule["apiGroups"])[0];
        for resource in strings(&rule["resources"]) {
            for verb in strings(&rule["verbs"]) {
                let case = (verb, group, resource, namespace, name);
                assert!(may(api, case), "{role} grants {case:?}, the API server refuses it");
            }
        }
    }
}

/// The uid of the FlowSchema that classified the request of this kubectl command, run with `kubeconfig`.
fn classified(cluster: &ControlPlane, kubeconfig: &Path, args: &[&str]) -> String {
    let fixed = ["--kubeconfig", kubeconfig.to_str().unwrap(), "-v=8"];
    let log = cluster.kubectl(&[&fixed, args].concat()).unwrap().stderr.to_lowercase();
    // The last request is the one meant; earlier ones are discovery.
    let header = "x-kubernetes-pf-flowschema-uid: ";
    let found = log.rmatch_indices(header).next().unwrap_or_else(|| panic!("{args:?}: no such header in {log}"));
    log[found.0 + header.len()..].chars().take(36).collect()
}

#[test]
fn requests_of_the_account_go_to_the_priority_levels_meant_for_them() {
    let cluster = cluster();
    install(&cluster, &repository("charts/berth"), &[]);
    let schemas = get(&cluster, &["flowschemas"]);
    let names: BTreeMap<&str, &str> = schemas["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|schema| (schema["metadata"]["uid"].as_str().unwrap(), schema["metadata"]["name"].as_str().unwrap()))
        .collect();
    let token = cluster.token_for(HOME, "berth").unwrap();
    let kubeconfig = cluster.kubeconfig_for_token("account", &token).unwrap();
    let body = cluster.dir().join("empty.json");
    fs::write(&body, "{}").unwrap();
    let body = body.to_str().unwrap();
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    // Classification precedes everything else: a body that is no good answers the question as well as a good one.
    for (args, expected) in [
        (vec!["get", "--raw", "/api/v1/pods"], "berth"),
        (vec!["get", "--raw", "/api/v1/nodes"], "berth"),
        (vec!["get", "--raw", "/api/v1/namespaces/default"], "berth"),
        (vec!["get", "--raw", "/api/v1/namespaces/default/pods/none"], "berth"),
        (vec!["create", "--raw", "/api/v1/namespaces/default/pods/none/binding", "-f", body], "berth"),
        (vec!["get", "--raw", "/api/v1/persistentvolumes"], "berth"),
        (vec!["get", "--raw", "/api/v1/namespaces/default/persistentvolumeclaims/none"], "berth"),
        (vec!["get", "--raw", "/apis/apps/v1/replicasets"], "berth"),
        (vec!["get", "--raw", "/apis/storage.k8s.io/v1/csistoragecapacities"], "berth"),
        (vec!["get", "--raw", "/apis/resource.k8s.io/v1/deviceclasses"], "berth"),
        (vec!["get", "--raw", "/apis/scheduling.berth.dev/v1alpha1/schedulerprofiles"], "berth"),
        (vec!["get", "--raw", "/apis/scheduling.berth.dev/v1alpha1/schedulerprofiles/none/status"], "berth"),
        (vec!["get", "--raw", &format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}")], "berth"),
        (vec!["get", "--raw", &format!("/apis/apps/v1/namespaces/{HOME}/controllerrevisions")], "berth"),
        (vec!["create", "--raw", lease, "-f", body], "berth-lease"),
        (vec!["get", "--raw", &format!("{lease}/{LEASE}")], "berth-lease"),
        (vec!["create", "--raw", "/apis/events.k8s.io/v1/namespaces/default/events", "-f", body], "service-accounts"),
    ] {
        let uid = classified(&cluster, &kubeconfig, &args);
        assert_eq!(names.get(uid.as_str()).copied(), Some(expected), "{args:?}");
    }
}
