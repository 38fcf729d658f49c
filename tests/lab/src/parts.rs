//! What a test may start beside the control plane: kwok, kube-scheduler, kube-controller-manager.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use ureq::tls::TlsConfig;

use crate::control_plane::ControlPlane;
use crate::ports::free_address;
use crate::process::Managed;

/// A running kube-scheduler that serves its metrics. Dropping it ends it.
#[derive(Debug)]
pub struct MeasuredScheduler {
    /// The process.
    pub process: Managed,
    metrics: String,
}

impl MeasuredScheduler {
    /// The text of its metrics. It makes its certificate itself, at its start: nobody vouches for it.
    pub fn metrics(&self) -> Result<String> {
        let tls = TlsConfig::builder().disable_verification(true).build();
        let agent = ureq::Agent::config_builder().proxy(None).tls_config(tls).build().new_agent();
        Ok(agent.get(&self.metrics).call()?.body_mut().read_to_string()?)
    }
}

impl ControlPlane {
    /// Starts kwok, which keeps all nodes ready and lets the pods on them run and end.
    pub fn start_kwok(&self) -> Result<Managed> {
        let mut command = self.command("kwok");
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command.arg("--config").arg(self.upstream.kwok_stages());
        command.args(["--manage-all-nodes", "--node-lease-duration-seconds", "40"]);
        // kwok merges a configuration that it finds in this directory.
        command.env("KWOK_WORKDIR", self.dir().join("kwok"));
        self.spawn("kwok", command)
    }

    /// Starts upstream's scheduler as the bearer of `kubeconfig`. `config` holds further fields of its
    /// `KubeSchedulerConfiguration` (`profiles`, `clientConnection` with `qps` and `burst`, …); leader election is off, and it
    /// serves no pages.
    pub fn start_kube_scheduler(&self, kubeconfig: &Path, config: Value) -> Result<Managed> {
        self.start_kube_scheduler_with(kubeconfig, config, &["--secure-port", "0"])
    }

    /// As [`Self::start_kube_scheduler`], with its metrics for everybody on a loopback port.
    pub fn start_kube_scheduler_with_metrics(&self, kubeconfig: &Path, config: Value) -> Result<MeasuredScheduler> {
        let free = free_address()?;
        let port = free.port().to_string();
        let open = "--authorization-always-allow-paths=/metrics";
        let args = ["--bind-address", "127.0.0.1", "--secure-port", &port, open];
        let process = self.start_kube_scheduler_with(kubeconfig, config, &args)?;
        Ok(MeasuredScheduler { process, metrics: format!("https://{free}/metrics") })
    }

    fn start_kube_scheduler_with(&self, kubeconfig: &Path, config: Value, args: &[&str]) -> Result<Managed> {
        let mut config = config;
        config["apiVersion"] = json!("kubescheduler.config.k8s.io/v1");
        config["kind"] = json!("KubeSchedulerConfiguration");
        config["clientConnection"]["kubeconfig"] = json!(kubeconfig);
        config["leaderElection"] = json!({"leaderElect": false});
        let path = self.dir().join("kube-scheduler.yaml");
        fs::write(&path, serde_json::to_string_pretty(&config)?)
            .with_context(|| format!("writing {}", path.display()))?;
        let mut command = self.command("kube-scheduler");
        command.arg("--config").arg(&path).args(args);
        self.spawn("kube-scheduler", command)
    }

    /// Starts kube-controller-manager for volumes: claims are bound and provisioners called on, and a volume or claim that
    /// is deleted goes once nothing uses it.
    pub fn start_volume_controllers(&self) -> Result<Managed> {
        self.start_controller_manager(&["persistentvolume-binder", "pvc-protection", "pv-protection"])
    }

    /// Starts kube-controller-manager with these controllers only: name what the test needs. The node lifecycle
    /// controller (`nodelifecycle`) taints nodes that have no kubelet's lease.
    pub fn start_controller_manager(&self, controllers: &[&str]) -> Result<Managed> {
        let mut command = self.command("kube-controller-manager");
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command.args(["--leader-elect=false", "--use-service-account-credentials=false"]);
        // By default it sends 20 requests a second: five claims, which is less than a test makes.
        command.args(["--kube-api-qps=1000", "--kube-api-burst=1000"]);
        command.arg("--service-account-private-key-file").arg(self.dir().join("sa.key"));
        command.args(["--secure-port", "0", "--controllers", &controllers.join(",")]);
        self.spawn("kube-controller-manager", command)
    }
}
