//! What `berth status` looks at, as the API server has it. Nothing is judged here.

use super::super::live;
use super::super::live::lease::{self, Leader};
use super::super::output::counted;
use crate::operator::{self, Orphans, needed_rights};
use berth_api::{DEFAULT_SCHEDULER_NAME, SchedulerProfileStatus, VERSION, missing_fields, own_crd};
use berth_cluster::client::Fault;
use berth_cluster::decode::Decoder;
use berth_cluster::lease::LEASE_NAME;
use berth_cluster::manifest::from_manifest;
use berth_cluster::served_crd::{ServedCrdError, served_crd};
use berth_core::ledger::Object;
use berth_core::model::{Pod, Str};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use kube::core::Request;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Objects of one page.
const PAGE: u32 = 500;

/// Pages of pending pods that are read: 150,000 pods, as many as Kubernetes is made for. They come in the order of their namespaces, so
/// that those of one could hide all others behind a lower limit.
const PAGES: usize = 300;

/// Pages after which pods that one look does not take in are dropped.
const KEPT: usize = 80;

/// Pods of a Deployment that are named with what is wrong with them.
const NAMED: usize = 5;

/// Reviews under way at once.
const ASKED_AT_ONCE: usize = 8;

/// What was looked for, or why it could not be seen.
pub(super) type Seen<T> = Result<T, Fault>;

/// Where to look.
#[derive(Debug)]
pub(super) struct Places {
    /// The namespace of the operator's Deployment; `None`: as the Lease says.
    pub(super) home: Option<String>,
    pub(super) lease_namespace: String,
}

/// Everything that the verdict depends on.
#[derive(Debug)]
pub(super) struct Facts {
    /// The fields that the installed definition lacks.
    pub(super) definition: Result<Vec<String>, ServedCrdError>,
    /// The Lease, as namespace/name.
    pub(super) lease: String,
    pub(super) leader: Seen<Leader>,
    /// The namespace in which the operator was looked for.
    pub(super) home: String,
    pub(super) deployments: Seen<Vec<Running>>,
    pub(super) rights: Rights,
    pub(super) profiles: Seen<Vec<Profile>>,
    /// Pods that nobody looks at; `None` if the served names are not known.
    pub(super) orphans: Option<Seen<Vec<Orphans>>>,
}

/// A Deployment of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Running {
    pub(super) name: String,
    pub(super) replicas: i32,
    pub(super) ready: i32,
    /// The ServiceAccount of its pods.
    pub(super) account: String,
    /// Pods that are not ready, with the reason where one is given; at most [`NAMED`].
    pub(super) troubles: Vec<String>,
}

/// What the operator's account may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rights {
    /// What of the needed rights it lacks, as `verb resource`.
    Reviewed { account: String, lacks: Vec<String> },
    /// Why it was not asked.
    NotChecked(String),
}

/// A profile and what its status says.
#[derive(Debug, Clone)]
pub(super) struct Profile {
    pub(super) name: String,
    pub(super) generation: i64,
    pub(super) status: SchedulerProfileStatus,
    /// The scheduler names that it asks for or serves.
    names: Vec<Str>,
}

#[cfg(test)]
impl Profile {
    /// A profile that serves its own name, and says this.
    pub(super) fn for_test(name: &str, generation: i64, status: SchedulerProfileStatus) -> Self {
        Self { name: name.to_owned(), generation, status, names: vec![name.into()] }
    }
}

/// Reads everything, side by side where nothing depends on something else.
pub(super) async fn gather(client: &Client, places: Places, now: Timestamp) -> Facts {
    let lease = lease::read(client, &places.lease_namespace).await;
    let lease = lease.map_err(|error| Fault::of("get", "leases.coordination.k8s.io", &error));
    let named = || lease.as_ref().ok()?.as_ref().and_then(lease::home_of).map(str::to_owned);
    let home = places.home.or_else(named).unwrap_or_else(|| lease::HOME.to_owned());
    let (definition, deployments, profiles, pending) =
        tokio::join!(served_crd(client, lacking), deployments(client, &home), profiles(client), silent(client, now),);
    let account = deployments.as_ref().ok().and_then(|all| all.first()).map(|one| one.account.clone());
    let rights = rights(client, &home, &places.lease_namespace, account).await;
    let orphans = profiles.as_ref().ok().map(|profiles| pending.map(|pods| orphans(&pods, profiles, now)));
    Facts {
        definition,
        lease: format!("{}/{LEASE_NAME}", places.lease_namespace),
        leader: lease.map(|lease| Leader::of(lease.as_ref(), now)),
        home,
        deployments,
        rights,
        profiles,
        orphans,
    }
}

/// What the definition `served` lacks: our version, or fields of it.
fn lacking(served: &Value) -> Vec<String> {
    let versions = served["spec"]["versions"].as_array().map_or(&[][..], Vec::as_slice);
    if versions.iter().any(|version| version["name"] == VERSION && version["served"] == true) {
        return missing_fields(served, own_crd());
    }
    vec![format!("version {VERSION}")]
}

/// The Deployments in `home` that run `berth operator`, whatever the release is called.
async fn deployments(client: &Client, home: &str) -> Seen<Vec<Running>> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), home);
    let listed = api.list(&ListParams::default().limit(PAGE)).await;
    let listed = listed.map_err(|error| Fault::of("list", "deployments.apps", &error))?;
    let mut found = Vec::new();
    for deployment in listed.items {
        let Some(mut running) = running(&deployment) else { continue };
        if running.ready < running.replicas {
            running.troubles = troubles(client, home, &deployment).await;
        }
        found.push(running);
    }
    Ok(found)
}

/// What is to be known of the Deployment if it runs the operator: its first argument says so.
fn running(deployment: &Deployment) -> Option<Running> {
    let spec = &deployment.spec;
    let pod = spec.template.spec.as_ref()?;
    let is_operator = |container: &v1::Container| {
        let args = container.args.as_deref().unwrap_or_default();
        args.first().is_some_and(|first| first == "operator")
            && args.iter().any(|arg| arg.starts_with("--lease-namespace"))
    };
    pod.containers.iter().any(is_operator).then(|| Running {
        name: deployment.metadata.name.clone().unwrap_or_default(),
        replicas: spec.replicas.unwrap_or(1),
        ready: deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0),
        account: pod.service_account_name.clone().unwrap_or_else(|| "default".to_owned()),
        troubles: Vec::new(),
    })
}

/// The pods of the Deployment that are not ready. Nothing where they cannot be read: the number of replicas says enough.
async fn troubles(client: &Client, home: &str, deployment: &Deployment) -> Vec<String> {
    let labels = deployment.spec.selector.match_labels.clone().unwrap_or_default();
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let api: Api<v1::Pod> = Api::namespaced(client.clone(), home);
    let listed = api.list(&ListParams::default().labels(&labels.join(",")).limit(PAGE)).await;
    let pods = listed.map(|listed| listed.items).unwrap_or_default();
    pods.iter().filter_map(trouble).take(NAMED).collect()
}

fn trouble(pod: &v1::Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let conditions = status.conditions.as_deref().unwrap_or_default();
    if conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True") {
        return None;
    }
    let waiting = status.container_statuses.iter().flatten().find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        waiting.reason.clone()
    });
    let refused = conditions.iter().find(|condition| condition.status == "False").and_then(|one| one.reason.clone());
    let why = waiting.or(refused).or_else(|| status.phase.clone()).unwrap_or_else(|| "not ready".to_owned());
    Some(format!("{}: {why}", pod.metadata.name.as_deref().unwrap_or_default()))
}

async fn profiles(client: &Client) -> Seen<Vec<Profile>> {
    match live::list_profiles(client).await {
        Ok(objects) => Ok(objects.into_iter().map(profile).collect()),
        // What the definition says, which is looked at for itself.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(Fault::of("list", "schedulerprofiles.scheduling.berth.dev", &error)),
    }
}

/// A status that cannot be read counts as none.
fn profile(mut object: Value) -> Profile {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let status: SchedulerProfileStatus = serde_json::from_value(object["status"].take()).unwrap_or_default();
    let asked = object["spec"]["schedulerNames"].as_array().map_or(&[][..], Vec::as_slice);
    let mut names: Vec<Str> = asked.iter().filter_map(Value::as_str).map(Str::from).collect();
    if names.is_empty() {
        names.push(name.as_str().into());
    }
    names.extend(status.scheduler_names.iter().map(|one| Str::from(one.name.as_str())));
    Profile { generation: object["metadata"]["generation"].as_i64().unwrap_or_default(), name, status, names }
}

/// Pods that wait and that no scheduler has touched, read in pages: as many as one look takes in.
async fn silent(client: &Client, now: Timestamp) -> Seen<Vec<Arc<Pod>>> {
    let (mut decoder, mut pods, mut token) = (Decoder::default(), Vec::new(), None);
    let fault = |error: &kube::Error| Fault::of("list", "pods", error);
    for page_number in 1..=PAGES {
        let params = ListParams {
            field_selector: Some("spec.nodeName=,status.phase=Pending".to_owned()),
            limit: Some(PAGE),
            continue_token: token,
            ..ListParams::default()
        };
        let request = Request::new("/api/v1/pods").list(&params);
        let request = request.map_err(|error| fault(&kube::Error::BuildRequest(error)))?;
        let mut page: Value = client.request(request).await.map_err(|error| fault(&error))?;
        for item in page["items"].as_array_mut().into_iter().flatten() {
            // Items of a list do not say what they are.
            item["apiVersion"] = json!("v1");
            item["kind"] = json!("Pod");
            let read = from_manifest(&mut decoder, item).into_iter().flatten();
            pods.extend(read.filter_map(|object| match object {
                Object::Pod(pod) if operator::may_be_orphaned(&pod, now.as_microsecond()) => Some(Arc::new(*pod)),
                _ => None,
            }));
        }
        if page_number % KEPT == 0 {
            pods = operator::taken_in(pods);
        }
        token = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            break;
        }
    }
    Ok(operator::taken_in(pods))
}

fn orphans(pods: &[Arc<Pod>], profiles: &[Profile], now: Timestamp) -> Vec<Orphans> {
    let served: BTreeSet<Str> = profiles.iter().flat_map(|profile| profile.names.iter().cloned()).collect();
    let others = BTreeSet::from([Str::from(DEFAULT_SCHEDULER_NAME)]);
    operator::orphans(pods, &served, &others, now.as_microsecond())
}

/// Asks the API server what the operator's account may do. Only who may make reviews of others gets an answer.
async fn rights(client: &Client, home: &str, lease_namespace: &str, account: Option<String>) -> Rights {
    let Some(account) = account else {
        let why = format!("the operator's account is not known: no Deployment of it is seen in namespace {home}");
        return Rights::NotChecked(why);
    };
    let account = format!("system:serviceaccount:{home}:{account}");
    let mut asked = needed_rights(home);
    asked.extend(["get", "update"].map(|verb| right_to_lease(verb, lease_namespace)));
    let (api, count) = (&Api::<SubjectAccessReview>::all(client.clone()), asked.len());
    let of = &account;
    let reviews = futures::stream::iter(asked).map(|(right, attributes)| async move {
        let review = api.create(&PostParams::default(), &review(of, home, attributes)).await;
        (right, review.map(|review| review.status.is_some_and(|status| status.allowed)))
    });
    let mut reviews = std::pin::pin!(reviews.buffered(ASKED_AT_ONCE));
    let mut lacks = Vec::new();
    while let Some((right, answer)) = reviews.next().await {
        match answer {
            Ok(true) => {}
            Ok(false) => lacks.push(right),
            Err(error) => {
                let fault = Fault::of("create", "subjectaccessreviews.authorization.k8s.io", &error);
                return Rights::NotChecked(format!("{} of {account}: {fault}", counted(count, "right")));
            }
        }
    }
    Rights::Reviewed { account: account.clone(), lacks }
}

fn right_to_lease(verb: &str, namespace: &str) -> (String, ResourceAttributes) {
    let attributes = ResourceAttributes {
        group: Some("coordination.k8s.io".to_owned()),
        name: Some(LEASE_NAME.to_owned()),
        namespace: Some(namespace.to_owned()),
        resource: Some("leases".to_owned()),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    (format!("{verb} leases.coordination.k8s.io {LEASE_NAME} in namespace {namespace}"), attributes)
}

/// A ServiceAccount has these groups beside its name; a right may be granted to one of them.
fn review(account: &str, home: &str, attributes: ResourceAttributes) -> SubjectAccessReview {
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{home}"),
        "system:authenticated".to_owned(),
    ];
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(account.to_owned()),
            groups: Some(groups.into()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_testing::{Reply, Scripted};

    #[test]
    fn a_definition_without_our_version_lacks_it() {
        let mut crd = own_crd().clone();
        assert_eq!(lacking(&crd), Vec::<String>::new());
        crd["spec"]["versions"][0]["served"] = json!(false);
        assert_eq!(lacking(&crd), ["version v1alpha1"]);
        crd["spec"]["versions"][0]["served"] = json!(true);
        let properties =
            &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        properties.as_object_mut().unwrap().remove("extenders");
        assert_eq!(lacking(&crd), ["spec.extenders"]);
    }

    #[test]
    fn the_operators_deployment_is_known_by_what_it_runs() {
        let deployment = |args: Value| -> Deployment {
            serde_json::from_value(json!({"metadata": {"name": "quay"}, "spec": {"replicas": 2, "selector": {},
                "template": {"spec": {"serviceAccountName": "someone", "containers": [{"name": "c", "args": args}]}}},
                "status": {"readyReplicas": 1}}))
            .unwrap()
        };
        let ours = running(&deployment(json!(["operator", "--lease-namespace=kube-system"]))).unwrap();
        assert_eq!((&*ours.name, ours.replicas, ours.ready, &*ours.account), ("quay", 2, 1, "someone"));
        assert_eq!(running(&deployment(json!(["operator"]))), None, "of another project");
        assert_eq!(running(&deployment(json!(null))), None);
    }

    #[test]
    fn a_pod_that_is_not_ready_is_named_with_the_reason() {
        let said = |status: Value| {
            let pod = json!({"metadata": {"name": "berth-0"}, "status": status});
            trouble(&serde_json::from_value(pod).unwrap())
        };
        let ready = |status: &str| json!({"type": "Ready", "status": status, "reason": "ContainersNotReady"});
        assert_eq!(said(json!({"conditions": [ready("True")]})), None);
        let waiting = json!([{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]);
        let crashing = json!({"conditions": [ready("False")], "containerStatuses": waiting});
        assert_eq!(said(crashing).as_deref(), Some("berth-0: CrashLoopBackOff"));
        assert_eq!(said(json!({"conditions": [ready("False")]})).as_deref(), Some("berth-0: ContainersNotReady"));
        assert_eq!(said(json!({"phase": "Pending"})).as_deref(), Some("berth-0: Pending"));
    }

    #[test]
    fn a_profile_keeps_the_names_that_it_asks_for_and_those_that_it_serves() {
        let object = json!({"metadata": {"name": "a", "generation": 3}, "spec": {"schedulerNames": ["x"]},
            "status": {"schedulerNames": [{"name": "y", "state": "Serving"}]}});
        let read = profile(object);
        assert_eq!((read.generation, read.names), (3, vec![Str::from("x"), Str::from("y")]));
        assert_eq!(profile(json!({"metadata": {"name": "a"}, "spec": {}})).names, [Str::from("a")]);
    }

    /// A cluster in which the account lacks the rights to two kinds, for a caller who may see everything or little.
    async fn cluster(may_review: bool) -> Facts {
        let server = Scripted::start(move |asked| async move {
            let list = |items: Value| {
                Reply::json(200, json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
            };
            match &*asked.path {
                path if path.ends_with("/subjectaccessreviews") => {
                    let attributes = &asked.body["spec"]["resourceAttributes"];
                    let allowed = attributes["resource"] != "nodes";
                    let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                        "spec": asked.body["spec"], "status": {"allowed": allowed}});
                    if may_review { Reply::json(201, body) } else { Reply::status(403, "no") }
                }
                path if path.ends_with("/deployments") => list(json!([{"metadata": {"name": "berth"}, "spec": {
                    "replicas": 0, "selector": {}, "template": {"spec": {"serviceAccountName": "berth",
                    "containers": [{"name": "c", "args": ["operator", "--lease-namespace=x"]}]}}}}])),
                "/api/v1/pods" => list(json!([{"metadata": {"name": "p", "namespace": "ci", "uid": "p",
                    "creationTimestamp": "2026-01-01T00:00:00Z"},
                    "spec": {"schedulerName": "nobody", "containers": [{"name": "c"}]}}])),
                path if path.ends_with("/schedulerprofiles") => list(json!([{"metadata": {"name": "a"}, "spec": {}}])),
                path if path.contains("/leases/") => Reply::json(
                    200,
                    json!({"metadata": {"name": "l",
                    "annotations": {"scheduling.berth.dev/installation": "elsewhere/berth"}}, "spec": {}}),
                ),
                _ => Reply::status(404, "not there"),
            }
        })
        .await;
        let places = Places { home: None, lease_namespace: "kube-system".to_owned() };
        let now = "2026-01-01T00:02:00Z".parse().unwrap();
        gather(&server.client(), places, now).await
    }

    /// API servers list pods in the order of their namespaces.
    #[tokio::test]
    async fn pods_of_one_namespace_hide_no_orphans_of_the_next() {
        let pages = 81;
        let server = Scripted::start(move |asked| async move {
            let number = asked.query.split_once("continue=").map_or(0, |(_, token)| token.parse::<usize>().unwrap());
            let (namespace, more) = if number < pages { ("aaa", (number + 1).to_string()) } else { ("zzz", String::new()) };
            let named = |i: usize| {
                let name = format!("{namespace}-{number}-{i}");
                json!({"metadata": {"name": name, "namespace": namespace, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
                    "spec": {"schedulerName": format!("of-{namespace}"), "containers": [{"name": "c"}]}})
            };
            let items: Vec<Value> = (0..PAGE as usize).map(named).collect();
            Reply::json(200, json!({"kind": "PodList", "metadata": {"continue": more}, "items": items}))
        })
        .await;
        let pods = silent(&server.client(), "2026-01-01T00:02:00Z".parse().unwrap()).await.unwrap();
        let of = |namespace: &str| pods.iter().filter(|pod| &*pod.key.namespace == namespace).count();
        assert_eq!((of("aaa"), of("zzz"), server.requests().len()), (19_500, 500, pages + 1));
    }

    #[tokio::test]
    async fn everything_is_looked_at_and_what_may_not_be_is_said() {
        let facts = cluster(true).await;
        assert!(matches!(facts.definition, Err(ServedCrdError::NotInstalled)), "{facts:?}");
        assert_eq!((facts.leader.as_ref().unwrap(), &*facts.home), (&Leader::Nobody, "elsewhere"));
        let Rights::Reviewed { account, lacks } = &facts.rights else { panic!("{facts:?}") };
        assert_eq!(account, "system:serviceaccount:elsewhere:berth");
        assert_eq!(*lacks, ["list nodes", "watch nodes"]);
        let orphans = facts.orphans.unwrap().unwrap();
        assert_eq!((orphans.len(), &*orphans[0].scheduler_name), (1, "nobody"));
        let Rights::NotChecked(why) = cluster(false).await.rights else { panic!("asked nobody") };
        assert!(why.contains("grant verb `create`") && why.contains("elsewhere:berth"), "{why}");
    }
}
