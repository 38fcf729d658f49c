//! The stops of the tour. Each checks what it shows: a tour that goes on although nothing happened would be a lie.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use serde_json::json;

use super::screen::{Screen, table};
use crate::control_plane::ControlPlane;
use crate::extender::Extender;
use crate::nodes::NodeSpec;

/// How long anything on the tour may take; a second is usual.
const LIMIT: Duration = Duration::from_mins(2);
const LIMIT_FLAG: &str = "--timeout=120s";
const CONDITIONS: &str =
    r#"-o=jsonpath={range .status.conditions[*]}{.type}{"\t"}{.status}{"\t"}{.reason}{"\t"}{.message}{"\n"}{end}"#;
const POD_MESSAGE: &str = r#"-o=jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}"#;
const POD_AND_NODE: &str = "-o=custom-columns=POD:.metadata.name,NODE:.spec.nodeName";

pub(super) fn run(screen: &Screen, plane: &ControlPlane, extender: &Extender) -> Result<()> {
    profiles(screen, plane).context("stop 1, the profiles")?;
    placements(screen, plane).context("stop 2, two profiles")?;
    weights(screen, plane).context("stop 3, a weight changed")?;
    refused(screen, plane).context("stop 4, a profile that is refused")?;
    last_good(screen, plane).context("stop 5, a profile that does not compile")?;
    too_big(screen, plane).context("stop 6, a pod that fits nowhere")?;
    preempted(screen, plane).context("stop 7, a preemption")?;
    licensed(screen, plane, extender).context("stop 8, an extender")?;
    deleted(screen, plane).context("stop 9, a profile deleted")?;
    accelerators(screen, plane).context("stop 10, accelerators")
}

fn profiles(screen: &Screen, plane: &ControlPlane) -> Result<()> {
    screen.heading("1. Profiles", "A SchedulerProfile is an object; Berth runs a worker for each.")?;
    screen.kubectl(plane, &["apply", "-f", "examples/profiles"])?;
    screen.kubectl(plane, &["wait", "--for=condition=Ready", "sprof", "--all", LIMIT_FLAG])?;
    screen.kubectl(plane, &["get", "sprof"])?;
    Ok(())
}

fn placements(screen: &Screen, plane: &ControlPlane) -> Result<()> {
    screen.heading(
        "2. Two profiles, one cluster",
        "40 pods each: batch-binpack fills nodes up, web-default spreads out.",
    )?;
    screen.kubectl(plane, &["apply", "-f", "examples/pods"])?;
    all_run(screen, plane, "deployment/batch", 40)?;
    all_run(screen, plane, "deployment/web", 40)?;
    let batch = pods_by_node(plane, "batch")?;
    let web = pods_by_node(plane, "web")?;
    let row = |name: &str, figure: fn(&BTreeMap<String, usize>) -> usize| {
        vec![name.to_owned(), figure(&batch).to_string(), figure(&web).to_string()]
    };
    screen.print(&table(&[
        vec![String::new(), "batch-binpack".to_owned(), "web-default".to_owned()],
        row("pods", |nodes| nodes.values().sum()),
        row("nodes used", BTreeMap::len),
        row("most on one node", |nodes| nodes.values().copied().max().unwrap_or(0)),
        row("fewest on a used node", |nodes| nodes.values().copied().min().unwrap_or(0)),
    ]))?;
    ensure!(batch.len() < web.len(), "bin-packing used no fewer nodes than the default profile");
    Ok(())
}

fn weights(screen: &Screen, plane: &ControlPlane) -> Result<()> {
    screen.heading(
        "3. A weight changed on a live profile",
        "12 pods that would rather run in zone-a; then room counts 1000-fold, and 12 more come.",
    )?;
    screen.kubectl(plane, &["apply", "-f", "examples/demo/zonal-pods.yaml"])?;
    all_run(screen, plane, "deployment/zonal", 12)?;
    let before = pods_by_zone(plane, "zonal")?;
    screen.kubectl(plane, &["apply", "-f", "examples/demo/weight-change.yaml"])?;
    in_force(plane, "web-default")?;
    let scores = "-o=jsonpath={.status.effective.scores}";
    screen.kubectl(plane, &["get", "sprof/web-default", scores])?;
    screen.kubectl(plane, &["scale", "deployment/zonal", "--replicas=24"])?;
    all_run(screen, plane, "deployment/zonal", 24)?;
    let after = pods_by_zone(plane, "zonal")?;

    let zones: Vec<&String> = after.keys().collect();
    let count = |zones: &BTreeMap<String, usize>, zone: &String| *zones.get(zone).unwrap_or(&0);
    let mut rows = vec![vec![String::new()], vec!["first 12".into()], vec!["next 12".into()]];
    for zone in zones {
        rows[0].push(zone.clone());
        rows[1].push(count(&before, zone).to_string());
        rows[2].push(count(&after, zone).saturating_sub(count(&before, zone)).to_string());
    }
    screen.print(&table(&rows))?;
    ensure!(before.len() == 1, "the first pods did not all go to the zone that they like");
    ensure!(after.len() > 1, "the changed weight made no difference");
    Ok(())
}

fn refused(screen: &Screen, plane: &ControlPlane) -> Result<()> {
    screen.heading(
        "4. A profile that the API server refuses",
        "Mistakes are caught where they are made, with the field named.",
    )?;
    let outcome = screen.kubectl_any(plane, &["apply", "-f", "examples/demo/bad-schema.yaml"])?;
    ensure!(!outcome.success, "the API server took a weight of 0");
    let field = "spec.scores[0].weight";
    ensure!(outcome.stderr.contains(field), "the refusal does not name {field}");
    Ok(())
}

fn last_good(screen: &Screen, plane: &ControlPlane) -> Result<()> {
    screen.heading(
        "5. A profile that does not compile",
        "What the schema cannot see, the conditions say; the last good spec keeps serving.",
    )?;
    screen.kubectl(plane, &["apply", "-f", "examples/demo/bad-compile.yaml"])?;
    let not_accepted = "--for=condition=Accepted=False";
    screen.kubectl(plane, &["wait", not_accepted, "sprof/batch-binpack", LIMIT_FLAG])?;
    screen.kubectl_table(plane, &["get", "sprof/batch-binpack", CONDITIONS])?;
    screen.kubectl(plane, &["scale", "deployment/batch", "--replicas=44"])?;
    all_run(screen, plane, "deployment/batch", 44)?;
    screen.print("   Placed all the same. Back to the good one:\n\n")?;
    screen.kubectl(plane, &["apply", "-f", "examples/profiles/binpack.yaml"])?;
    in_force(plane, "batch-binpack")?;
    screen.kubectl(plane, &["get", "sprof", "-o", "wide"])?;
    Ok(())
}

fn too_big(screen: &Screen, plane: &ControlPlane) -> Result<()> {
    screen.heading("6. A pod that fits nowhere", "Its condition and its events say why.")?;
    screen.kubectl(plane, &["apply", "-f", "examples/demo/too-big-pod.yaml"])?;
    let unscheduled = "--for=condition=PodScheduled=False";
    screen.kubectl(plane, &["wait", unscheduled, "pod/too-big", LIMIT_FLAG])?;
    let shown = screen.kubectl(plane, &["get", "pod/too-big", POD_MESSAGE])?;
    ensure!(
        shown.stdout.starts_with("0/50 nodes are available: 50 Insufficient cpu."),
        "the message is not the one that kube-scheduler would give"
    );
    more_events_than(plane, "too-big", 0)?;
    screen.kubectl(plane, &["get", "events", "--field-selector=involvedObject.name=too-big"])?;
    Ok(())
}

fn preempted(screen: &Screen, plane: &ControlPlane) -> Result<()> {
    screen.heading(
        "7. A pod that matters more",
        "Only node-49 may run it, and that is full of pods that can wait: as few of them as need be go.",
    )?;
    screen.kubectl(plane, &["apply", "-f", "examples/demo/full-node.yaml"])?;
    screen.kubectl(plane, &["wait", "--for=condition=Ready", "pod", "-l=app=filler", LIMIT_FLAG])?;
    screen.kubectl(plane, &["apply", "-f", "examples/demo/urgent-pod.yaml"])?;
    screen.kubectl(plane, &["wait", "--for=condition=Ready", "pod/urgent", LIMIT_FLAG])?;
    screen.kubectl(plane, &["get", "pods", "-l=app=filler"])?;
    plane.wait_for("an event on the evicted pod", LIMIT, || {
        let path = "/api/v1/namespaces/default/events?fieldSelector=reason%3DPreempted";
        Ok(plane.api.get(path)?["items"].as_array().is_some_and(|events| !events.is_empty()).then_some(()))
    })?;
    screen.kubectl(plane, &["get", "events", "--field-selector=reason=Preempted"])?;
    let left = plane.api.get("/api/v1/namespaces/default/pods?labelSelector=app%3Dfiller")?;
    let left = left["items"].as_array().map_or(0, Vec::len);
    ensure!(left > 0 && left < 3, "{left} of 3 pods that can wait are left");
    Ok(())
}

fn licensed(screen: &Screen, plane: &ControlPlane, extender: &Extender) -> Result<()> {
    screen.heading(
        "8. An extender",
        "An HTTP server says where pods may go, as kube-scheduler's extenders do: here, only node-07 has a license.",
    )?;
    let refused: BTreeMap<String, &str> =
        (0..50).filter(|node| *node != 7).map(|node| (format!("node-{node:02}"), "no license")).collect();
    extender.rule(&json!({"refused": refused}))?;
    let profile = json!({
        "apiVersion": "scheduling.berth.dev/v1alpha1",
        "kind": "SchedulerProfile",
        "metadata": {"name": "licensed"},
        "spec": {"extenders": [extender.spec("license-server")]},
    });
    let path = plane.dir().join("licensed.json");
    std::fs::write(&path, serde_json::to_string_pretty(&profile)?)?;
    screen.kubectl(plane, &["apply", "-f", &path.display().to_string()])?;
    screen.kubectl(plane, &["wait", "--for=condition=Ready", "sprof/licensed", LIMIT_FLAG])?;
    screen.kubectl(plane, &["apply", "-f", "examples/demo/licensed-pod.yaml"])?;
    screen.kubectl(plane, &["wait", "--for=condition=Ready", "pod/licensed", LIMIT_FLAG])?;
    let shown = screen.kubectl(plane, &["get", "pod/licensed", POD_AND_NODE])?;
    ensure!(shown.stdout.contains("node-07"), "the extender was not heeded");
    let healthy = "--for=condition=ExtendersHealthy";
    screen.kubectl(plane, &["wait", healthy, "sprof/licensed", LIMIT_FLAG])?;
    Ok(())
}

fn deleted(screen: &Screen, plane: &ControlPlane) -> Result<()> {
    screen.heading(
        "9. A profile deleted",
        "Running pods stay; those that still name it stay pending, and events say so.",
    )?;
    let on_pod = events(plane, "too-big")?;
    let on_profile = events(plane, "web-default")?;
    screen.kubectl(plane, &["delete", "sprof/web-default"])?;
    // Only then has the operator seen it; pods that come earlier may still be placed.
    more_events_than(plane, "too-big", on_pod)?;
    more_events_than(plane, "web-default", on_profile)?;
    screen.kubectl(plane, &["get", "events", "--field-selector=involvedObject.name=too-big"])?;
    let profile = "--field-selector=involvedObject.name=web-default";
    screen.kubectl(plane, &["get", "events", profile])?;
    screen.kubectl(plane, &["scale", "deployment/web", "--replicas=42"])?;
    plane.wait_for("two new pods of web, pending beside too-big", LIMIT, || {
        let pods = plane.api.get("/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName%3D")?;
        Ok((pods["items"].as_array().map_or(0, Vec::len) == 3).then_some(()))
    })?;
    screen.kubectl(plane, &["get", "pods", "--field-selector=spec.nodeName="])?;
    screen.kubectl(plane, &["get", "sprof"])?;
    Ok(())
}

/// The nodes are made here, so that they change nothing about the stops before.
fn accelerators(screen: &Screen, plane: &ControlPlane) -> Result<()> {
    screen.heading(
        "10. Accelerators",
        "Two nodes have four each. Four pods ask for one, then a pod asks for four, each by a claim from a template.",
    )?;
    plane.create_nodes(2, |index| {
        NodeSpec::new(&format!("accelerated-{index}"), "zone-a", "8", "32Gi").label("pool", "accelerators")
    })?;
    screen.kubectl(plane, &["apply", "-f", "examples/demo/accelerators.yaml"])?;
    let [spreads, packs] = ["sprof/accelerators-default", "sprof/accelerators-packed"];
    screen.kubectl(plane, &["wait", "--for=condition=Ready", spreads, packs, LIMIT_FLAG])?;
    screen.kubectl(plane, &["get", "resourceslices"])?;

    screen.print("   The preset Default spreads the four, so that no node has four left:\n\n")?;
    let by_default = "examples/demo/accelerator-pods-default.yaml";
    let spread = four_and_one(screen, plane, by_default, "--for=condition=PodScheduled=False")?;
    let shown = screen.kubectl(plane, &["get", "pod/four", POD_MESSAGE])?;
    ensure!(spread.len() == 2, "the preset Default put all pods on one node");
    ensure!(
        shown.stdout.starts_with("0/2 nodes are available: 2 cannot allocate all claims."),
        "the message is not the one that kube-scheduler would give"
    );
    screen.kubectl(plane, &["delete", "-f", by_default])?;
    plane.wait_for("the claims to go with their pods", LIMIT, || {
        let claims = plane.api.get("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims")?;
        Ok(claims["items"].as_array().is_some_and(Vec::is_empty).then_some(()))
    })?;

    screen.print("   Their claims went with them. A profile that packs puts the four on one node:\n\n")?;
    let by_packing = "examples/demo/accelerator-pods-packed.yaml";
    let packed = four_and_one(screen, plane, by_packing, "--for=condition=Ready")?;
    screen.kubectl(plane, &["get", "resourceclaims"])?;
    ensure!(packed.len() == 1, "the profile that packs spread the pods");
    Ok(())
}

/// Four pods that ask for one accelerator run; then the one that asks for four comes, and `until` is waited for. Gives
/// the nodes of the four, with how many each holds.
fn four_and_one(screen: &Screen, plane: &ControlPlane, pods: &str, until: &str) -> Result<BTreeMap<String, usize>> {
    screen.kubectl(plane, &["apply", "-f", pods, "-l=app=one"])?;
    screen.kubectl(plane, &["wait", "--for=condition=Ready", "pod", "-l=app=one", LIMIT_FLAG])?;
    screen.kubectl(plane, &["apply", "-f", pods, "-l=app=four"])?;
    screen.kubectl(plane, &["wait", until, "pod/four", LIMIT_FLAG])?;
    screen.kubectl(plane, &["get", "pods", "-l=app in (one,four)", POD_AND_NODE])?;
    pods_by_node(plane, "one")
}

/// Waits until that many pods of a Deployment run, with the command that says so.
fn all_run(screen: &Screen, plane: &ControlPlane, deployment: &str, pods: usize) -> Result<()> {
    let ready = format!("--for=jsonpath={{.status.readyReplicas}}={pods}");
    screen.kubectl(plane, &["wait", &ready, deployment, LIMIT_FLAG]).map(drop)
}

/// How many pods labelled `app=APP` each node holds.
fn pods_by_node(plane: &ControlPlane, app: &str) -> Result<BTreeMap<String, usize>> {
    let pods = plane.api.get(&format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{app}"))?;
    let mut nodes = BTreeMap::new();
    for pod in pods["items"].as_array().into_iter().flatten() {
        let Some(node) = pod["spec"]["nodeName"].as_str() else {
            bail!("pod {} has no node", pod["metadata"]["name"]);
        };
        *nodes.entry(node.to_owned()).or_insert(0) += 1;
    }
    Ok(nodes)
}

/// How many pods labelled `app=APP` each zone holds.
fn pods_by_zone(plane: &ControlPlane, app: &str) -> Result<BTreeMap<String, usize>> {
    let nodes = plane.api.get("/api/v1/nodes")?;
    let zone_of: BTreeMap<&str, &str> = nodes["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|node| {
            let zone = node["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str()?;
            Some((node["metadata"]["name"].as_str()?, zone))
        })
        .collect();
    let mut zones = BTreeMap::new();
    for (node, pods) in pods_by_node(plane, app)? {
        let zone = zone_of.get(node.as_str()).with_context(|| format!("node {node} has no zone"))?;
        *zones.entry((*zone).to_owned()).or_insert(0) += pods;
    }
    Ok(zones)
}

/// The number of events on an object of the namespace `default`, or on one without namespace.
fn events(plane: &ControlPlane, object: &str) -> Result<usize> {
    let selector = format!("involvedObject.name%3D{object}");
    let path = format!("/api/v1/namespaces/default/events?fieldSelector={selector}");
    Ok(plane.api.get(&path)?["items"].as_array().map_or(0, Vec::len))
}

/// Waits until an object has more events than `count`.
fn more_events_than(plane: &ControlPlane, object: &str, count: usize) -> Result<()> {
    plane.wait_for(&format!("an event on {object}"), LIMIT, || Ok((events(plane, object)? > count).then_some(())))
}

/// Waits until the profile's worker runs the spec as it stands.
fn in_force(plane: &ControlPlane, profile: &str) -> Result<()> {
    let path = format!("/apis/scheduling.berth.dev/v1alpha1/schedulerprofiles/{profile}");
    plane.wait_for(&format!("profile {profile} to be in force"), LIMIT, || {
        let seen = plane.api.get(&path)?;
        let observed = seen["status"]["observedGeneration"] == seen["metadata"]["generation"];
        let ready = seen["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        Ok((observed && ready).then_some(()))
    })
}
