//! The cluster of the tour: 50 nodes in three zones, the chart installed, the operator running.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use super::screen::Screen;
use crate::control_plane::{ControlPlane, Options};
use crate::extender::{Extender, ExtenderOptions};
use crate::nodes::NodeSpec;
use crate::operator::{Operator, OperatorOptions};
use crate::process::Managed;
use crate::wait::StopFlag;

const NODES: usize = 50;
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
/// What Deployments need to become pods, and templates of claims to become claims; nothing that would touch nodes.
const CONTROLLERS: [&str; 4] = ["deployment", "replicaset", "garbagecollector", "resourceclaim-controller"];

/// Everything that the tour runs on. Dropping it ends it, the operator first.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) operator: Operator,
    pub(super) extender: Extender,
    parts: Vec<Managed>,
    pub(super) plane: ControlPlane,
}

impl Cluster {
    /// Leaves everything running and says how to use it and how to end it.
    pub(super) fn keep(self, screen: &Screen) -> Result<()> {
        let Self { operator, extender, mut parts, plane } = self;
        let kubeconfig = plane.kubeconfig.display().to_string();
        let kubectl = plane.upstream.binary("kubectl").display().to_string();
        let http = operator.http.clone();
        let log = operator.process.log().display().to_string();
        parts.insert(0, extender.process);
        parts.insert(0, operator.process);
        let end = plane.keep(parts)?;
        screen.print(&format!(
            "\nleft running:\n  export KUBECONFIG={kubeconfig}\n  {kubectl} get sprof\n  \
             operator: {http}/metrics, log {log}\nto end it all:\n  {}\n",
            end.display()
        ))
    }
}

/// Starts the parts one by one, each with a line that says how long it took.
pub(super) fn bring_up(screen: &Screen, binary: &Path, stop: &StopFlag) -> Result<Cluster> {
    if !binary.exists() {
        anyhow::bail!("{} does not exist: run `make demo`, which builds it", binary.display());
    }
    let began = Instant::now();
    let plane = ControlPlane::start(&Options { stop: stop.clone(), ..Options::default() })?;
    screen.progress(&format!("etcd and kube-apiserver serve at {}", plane.server), began)?;

    let began = Instant::now();
    plane.create_nodes(NODES, node)?;
    let mut parts = vec![plane.start_kwok()?];
    screen.progress(&format!("{NODES} kwok nodes in {} zones", ZONES.len()), began)?;

    let began = Instant::now();
    let install = ["install", "berth", "charts/berth", "--namespace", "berth-system"];
    screen.helm(&plane, &[&install[..], &["--create-namespace"]].concat())?;
    // The operator of this tour is a process on this machine; the Deployment's pod would have no image and no kubelet.
    let scale = ["scale", "deployment/berth", "--namespace", "berth-system", "--replicas", "0"];
    plane.kubectl_ok(&scale)?;
    parts.push(plane.start_controller_manager(&CONTROLLERS)?);
    screen.progress("the chart is installed", began)?;

    let began = Instant::now();
    let extender = plane.start_extender("extender", &ExtenderOptions::default())?;
    let args = vec!["--extender-allow-http=127.0.0.1".to_owned()];
    let options = OperatorOptions { args, ..OperatorOptions::new(binary.to_owned()) };
    let mut operator = plane.start_operator(&options).context("starting the operator")?;
    plane.wait_until_serving(&mut operator)?;
    screen.progress("the operator runs as the chart's ServiceAccount berth-system/berth", began)?;
    Ok(Cluster { operator, extender, parts, plane })
}

fn node(index: usize) -> NodeSpec {
    let zone = ZONES[index % ZONES.len()];
    let mut spec = NodeSpec::new(&format!("node-{index:02}"), zone, "8", "32Gi");
    spec.annotations.push(("kwok.x-k8s.io/node".to_owned(), "fake".to_owned()));
    spec
}
