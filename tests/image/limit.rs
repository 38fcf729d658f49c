//! The operator under a CPU limit, as a container has one, and with some of the cores to itself.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use berth_lab::{Managed, wait_for};
use serde_json::json;

use super::{berth, folder, left_out};

/// Microseconds of processor time per period that a limit is counted in.
const PERIOD: u32 = 100_000;

/// A group of processes that goes with the test.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let _busy = fs::remove_dir(&self.0);
    }
}

impl Group {
    /// A group that may use `quota` microseconds in each period. An error says why there can be none here.
    fn new(quota: u32) -> std::io::Result<Self> {
        let base = Path::new("/sys/fs/cgroup");
        let name = format!("berth-limit-{}-{quota}", std::process::id());
        if fs::read_to_string(base.join("cgroup.controllers")).is_ok_and(|names| names.contains("cpu")) {
            fs::write(base.join("cgroup.subtree_control"), "+cpu")?;
            fs::create_dir(base.join(&name))?;
            let group = Self(base.join(name));
            fs::write(group.0.join("cpu.max"), format!("{quota} {PERIOD}"))?;
            return Ok(group);
        }
        // Version 1.
        fs::create_dir(base.join("cpu").join(&name))?;
        let group = Self(base.join("cpu").join(name));
        fs::write(group.0.join("cpu.cfs_period_us"), PERIOD.to_string())?;
        fs::write(group.0.join("cpu.cfs_quota_us"), quota.to_string())?;
        Ok(group)
    }
}

/// An operator with an API server that takes connections and never answers, started by a shell: `start` is what stands before its
/// command, and ends with `exec`, so that it is the process that is looked at.
fn operator(name: &str, start: &str, server: &TcpListener) -> Managed {
    let dir = folder(name);
    let cluster = json!({"name": "c", "cluster": {"server": format!("http://{}", server.local_addr().unwrap())}});
    let context = json!({"name": "c", "context": {"cluster": "c", "user": "c"}});
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [cluster],
        "contexts": [context], "users": [{"name": "c", "user": {}}]});
    fs::write(dir.join("kubeconfig"), kubeconfig.to_string()).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{start} \"$0\" \"$@\""), &berth(), "operator", "--kubeconfig"]);
    command.arg(dir.join("kubeconfig")).args(["--http-address=127.0.0.1:0", "--log-level=debug"]);
    Managed::spawn(name, command, dir.join("log")).unwrap()
}

/// Threads of the event loop that the operator says it has, once as many are there.
fn threads(operator: &Managed) -> usize {
    let there = || {
        let log = operator.log_tail(usize::MAX);
        let Some(said) = log.lines().find_map(|line| line.split("event loop threads=").nth(1)) else {
            return Ok(None);
        };
        let said: usize = said.trim().parse()?;
        let tasks = fs::read_dir(format!("/proc/{}/task", operator.pid()))?;
        let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
        Ok(Some(said).filter(|_| names.filter(|name| name.starts_with("tokio-rt-worker")).count() == said))
    };
    let found = wait_for("the threads of the event loop", Duration::from_mins(1), there);
    found.map_err(|error| operator.explain(&error)).unwrap()
}

/// A core that this process may use: in a container the first may be another's.
fn a_core() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().split([',', '-']).next().unwrap().to_owned()
}

/// Needs no right, so it is never left out. The call that counts such cores takes a CPU limit into account as well.
#[test]
fn the_event_loop_has_as_many_threads_as_there_are_cores_for_it() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(threads(&operator("cores-all", "exec", &server)), cores.min(16));
    let start = format!("exec taskset -c {}", a_core());
    assert_eq!(threads(&operator("cores-one", &start, &server)), 1);
}

#[test]
fn the_event_loop_has_as_many_threads_as_the_cpu_limit_has_whole_cores() {
    let test = "the_event_loop_has_as_many_threads_as_the_cpu_limit_has_whole_cores";
    let cores = std::thread::available_parallelism().unwrap().get();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    if cores == 1 {
        return left_out(test, "this machine has one core, and no limit shows");
    }
    for (quota, whole) in [(PERIOD, 1), (PERIOD / 2, 1), (PERIOD * 19 / 10, 1), (PERIOD * 2, 2)] {
        let group = match Group::new(quota) {
            Ok(group) => group,
            Err(error) => return left_out(test, &format!("no group with a CPU limit can be made here: {error}")),
        };
        let start = format!("echo $$ > {}/cgroup.procs && exec", group.0.display());
        let operator = operator(&format!("limit-{quota}"), &start, &server);
        assert_eq!(threads(&operator), whole, "{quota} of {PERIOD}");
        drop(operator);
    }
}
