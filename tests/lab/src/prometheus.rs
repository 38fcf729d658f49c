//! Prometheus itself, on loopback with a data directory of its own: it scrapes what a test names, and evaluates rules and queries.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::process::Managed;
use crate::upstream::Upstream;

/// Longest wait for it to serve.
const READY_LIMIT: Duration = Duration::from_mins(1);

/// Seconds between two scrapes, and between two evaluations of the rules: a test is to see many of both.
const SCRAPE_INTERVAL: u32 = 1;

/// A running Prometheus. Dropping it ends it.
#[derive(Debug)]
pub struct Prometheus {
    /// The process.
    pub process: Managed,
    url: String,
    agent: ureq::Agent,
}

impl ControlPlane {
    /// Starts Prometheus with these `scrape_configs`, and with files of rules of this content, and waits until it is ready.
    /// Builds it first if need be.
    pub fn start_prometheus(&self, scrape_configs: &Value, rules: &[Value]) -> Result<Prometheus> {
        let directory = self.dir().join("prometheus");
        fs::create_dir_all(&directory).context("making a directory for Prometheus")?;
        let write = |name: &str, content: &Value| {
            fs::write(directory.join(name), content.to_string()).with_context(|| format!("writing {name}"))
        };
        let files: Vec<String> = (0..rules.len()).map(|i| format!("rules-{i}.yaml")).collect();
        files.iter().zip(rules).try_for_each(|(name, content)| write(name, content))?;
        let interval = format!("{SCRAPE_INTERVAL}s");
        // JSON is YAML.
        let config = json!({
            "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
            "scrape_configs": scrape_configs,
            "rule_files": files,
        });
        write("prometheus.yaml", &config)?;
        let mut command = Command::new(Upstream::prometheus()?);
        command.args(["--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0"]);
        command.current_dir(&directory);
        let process = self.spawn("prometheus", command)?;
        let found = self.wait_for("Prometheus to listen", READY_LIMIT, || {
            let log = process.log_tail(50);
            let line = log.lines().find(|line| line.contains("msg=\"Listening on\""));
            Ok(line.and_then(|line| line.split("address=").nth(1)?.split(' ').next().map(str::to_owned)))
        });
        let address = found.map_err(|error| process.explain(&error))?;
        let agent = ureq::Agent::config_builder().proxy(None).http_status_as_error(false).build().into();
        let this = Prometheus { process, url: format!("http://{address}"), agent };
        let is_ready =
            || Ok(this.agent.get(format!("{}/-/ready", this.url)).call()?.status().is_success().then_some(()));
        let ready = self.wait_for("Prometheus to be ready", READY_LIMIT, is_ready);
        ready.map_err(|error| this.process.explain(&error))?;
        Ok(this)
    }
}

impl Prometheus {
    /// GET of its API: the `data` of the answer to `/api/v1/PATH`. What it says against the question is the error.
    pub fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value> {
        let request = self.agent.get(format!("{}/api/v1/{path}", self.url)).query_pairs(query.iter().copied());
        let mut answer = request.call().with_context(|| format!("asking Prometheus for {path}"))?;
        let mut reply: Value = serde_json::from_str(&answer.body_mut().read_to_string()?)?;
        if reply["status"] != "success" {
            bail!("Prometheus to {path} {query:?}: {}", reply["error"]);
        }
        Ok(reply["data"].take())
    }
}
