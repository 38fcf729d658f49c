//! What competes, and how each is started as an account of its own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::cluster::{ACCOUNTS, Cluster};
use super::workload::Workload;
use crate::operator::OperatorOptions;
use crate::process::Managed;
use crate::upstream::built;

/// Requests per second, and in a burst, that kube-scheduler's client may send: more than the API server can take.
const CLIENT_QPS: u32 = 5000;

/// One scheduler of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Contestant {
    /// The operator with one profile of preset Default.
    Berth,
    /// Upstream's scheduler with its default profile and no client limit that matters.
    KubeScheduler,
    /// Watches, binds round robin, writes the events, decides nothing: the ceiling.
    Null,
}

/// A contestant's process.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) process: Managed,
    /// When the kernel started it, to a clock tick (10 ms).
    pub(super) started: Instant,
}

impl Contestant {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Berth, Self::KubeScheduler, Self::Null];

    /// What the tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Berth => "Berth",
            Self::KubeScheduler => "kube-scheduler",
            Self::Null => "null scheduler",
        }
    }

    /// What the command line and the names of pods call it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Berth => "berth",
            Self::KubeScheduler => "kube-scheduler",
            Self::Null => "null",
        }
    }

    /// The `schedulerName` that it serves; also the name of its profile or account.
    pub fn scheduler_name(self) -> &'static str {
        match self {
            Self::Berth => "bench-berth",
            Self::KubeScheduler => "bench-kube-scheduler",
            Self::Null => "bench-null",
        }
    }

    /// The `schedulerName` of pods that must not be bound. The null scheduler binds whatever is its own: nobody serves them beside it.
    pub(super) fn server_of_others(self) -> &'static str {
        match self {
            Self::Null => "nobody",
            _ => self.scheduler_name(),
        }
    }
}

impl Cluster {
    /// Starts a contestant for a workload and does not wait for it. It ends when the value is dropped.
    pub(super) fn start_contestant(&self, contestant: Contestant, workload: Workload) -> Result<Running> {
        let process = match contestant {
            Contestant::Berth => {
                // A name of its own keeps its log and kubeconfig apart from those of other uses of the lab.
                self.apply_profile(workload)?;
                let options = OperatorOptions {
                    pod_name: "bench-berth".to_owned(),
                    args: vec!["--extender-allow-http=127.0.0.1".to_owned()],
                    ..OperatorOptions::new(self.binary.clone())
                };
                self.plane.start_operator(&options)?.process
            }
            Contestant::KubeScheduler => {
                let mut config = json!({
                    "clientConnection": {"qps": CLIENT_QPS, "burst": CLIENT_QPS},
                    "profiles": [{"schedulerName": contestant.scheduler_name()}],
                });
                if let Some(extender) = self.extender.as_ref().filter(|_| workload.asks()) {
                    config["extenders"] = json!([{
                        "urlPrefix": extender.url,
                        "filterVerb": "filter",
                        "prioritizeVerb": "prioritize",
                        "preemptVerb": "preempt",
                        "weight": 1,
                        "nodeCacheCapable": true,
                    }]);
                }
                self.plane.start_kube_scheduler(&self.kubeconfig(contestant)?, config)?
            }
            Contestant::Null => {
                let mut command = Command::new(&self.null_scheduler);
                command.arg("--kubeconfig").arg(self.kubeconfig(contestant)?);
                command.args(["--scheduler-name", contestant.scheduler_name()]);
                self.plane.spawn("null-scheduler", command)?
            }
        };
        let started = started(&process)?;
        Ok(Running { process, started })
    }

    fn kubeconfig(&self, contestant: Contestant) -> Result<PathBuf> {
        let account = contestant.scheduler_name();
        let token = self.plane.token_for(ACCOUNTS, account)?;
        self.plane.kubeconfig_for_token(account, &token)
    }
}

/// The null scheduler's binary; builds it if need be, with progress on stderr.
pub(super) fn null_scheduler() -> Result<PathBuf> {
    built("--null-scheduler")
}

/// When a process was started. What this program did between the start and this call does not count.
fn started(process: &Managed) -> Result<Instant> {
    let path = format!("/proc/{}/stat", process.pid());
    let stat = fs::read_to_string(&path).with_context(|| format!("reading {path}: has {} ended?", process.name()))?;
    let uptime = fs::read_to_string("/proc/uptime").context("reading /proc/uptime")?;
    let now = Instant::now();
    // Fields are counted from the end of the program's name, which may hold spaces; the start is the 22nd of all.
    let ticks: Option<f64> = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)?.parse().ok());
    let uptime: Option<f64> = uptime.split_whitespace().next().and_then(|seconds| seconds.parse().ok());
    let (Some(ticks), Some(uptime)) = (ticks, uptime) else {
        bail!("{path} or /proc/uptime has an unknown form");
    };
    let age = uptime - ticks / rustix::param::clock_ticks_per_second() as f64;
    now.checked_sub(Duration::from_secs_f64(age.max(0.0))).context("a process older than the clock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_process_lies_where_the_kernel_says() {
        let directory = tempfile::tempdir().unwrap();
        let before = Instant::now();
        let mut command = Command::new("sleep");
        command.arg("1000");
        let child = Managed::spawn("sleep", command, directory.path().join("sleep.log")).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let since = started(&child).unwrap().saturating_duration_since(before);
        assert!(since < Duration::from_millis(250), "the pause after the start must not count: {since:?}");
        assert!(started(&child).unwrap() + Duration::from_millis(30) > before);
    }
}
