//! A worker for which the system has no thread, as where the processes of a pod are limited: its profile says so and an event does, the
//! others go on, and it starts once there is one.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use berth_lab::{ControlPlane, NodeSpec};
use serde_json::json;

use crate::cluster::{namespace, own_plane, serving};
use crate::objects::{PROFILES, events, pod, pod_path, profile, wait_bound, wait_event, wait_reason};

/// A group of processes whose threads can be limited. It goes with the test.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let _busy = fs::remove_dir(&self.0);
    }
}

impl Group {
    /// A group with nobody in it. An error says why there can be none here.
    fn new() -> io::Result<Self> {
        let base = Path::new("/sys/fs/cgroup");
        let is_second = fs::read_to_string(base.join("cgroup.controllers")).is_ok_and(|names| names.contains("pids"));
        if is_second {
            fs::write(base.join("cgroup.subtree_control"), "+pids")?;
        }
        // Version 1 has a folder for each controller.
        let base = if is_second { base.to_owned() } else { base.join("pids") };
        let group = Self(base.join(format!("berth-threads-{}", std::process::id())));
        fs::create_dir(&group.0)?;
        group.allow("max")?;
        Ok(group)
    }

    /// Takes a process in, with all its threads.
    fn take(&self, pid: u32) -> io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), pid.to_string())
    }

    /// From now on no thread is made where there are so many; those that are there stay.
    fn allow(&self, threads: &str) -> io::Result<()> {
        fs::write(self.0.join("pids.max"), threads)
    }
}

/// Says that the test is left out.
#[allow(clippy::explicit_write, reason = "the harness keeps to itself what a passing test prints by a macro")]
fn left_out(error: &io::Error) {
    let test = "a_worker_that_gets_no_thread_is_told_as_failed_and_as_restarted_once_it_has_one";
    writeln!(io::stderr(), "left out: {test}: no group with a limit of threads can be made here: {error}").unwrap();
}

/// Makes a pod of this profile, and waits until it is bound.
fn place(plane: &ControlPlane, scheduler: &str) {
    plane.api.post(&pod_path("starved", ""), &pod("starved", scheduler, scheduler, "100m")).unwrap();
    wait_bound(plane, "starved", scheduler);
}

#[test]
fn a_worker_that_gets_no_thread_is_told_as_failed_and_as_restarted_once_it_has_one() {
    let group = match Group::new() {
        Ok(group) => group,
        Err(error) => return left_out(&error),
    };
    let plane = own_plane(Vec::new());
    namespace(&plane, "starved");
    plane.create_nodes(1, |_| NodeSpec::new("n", "zone-a", "8", "32Gi")).unwrap();
    let operator = serving(&plane, "berth-0", &[]);
    plane.api.post(PROFILES, &profile("early", &json!({}))).unwrap();
    wait_reason(&plane, "early", "Ready", "Serving");

    // Less than it has, whatever threads it may be about to give back.
    if let Err(error) = group.take(operator.process.pid()).and_then(|()| group.allow("1")) {
        return left_out(&error);
    }
    plane.api.post(PROFILES, &profile("late", &json!({}))).unwrap();
    let failed = wait_event(&plane, "default", "late", "WorkerFailed");
    assert_eq!((&failed["type"], &failed["regarding"]["kind"]), (&json!("Warning"), &json!("SchedulerProfile")));
    let note = failed["note"].as_str().unwrap();
    assert!(note.contains("no thread for its worker") && note.contains("limit of threads"), "{note}");
    let (status, message) = wait_reason(&plane, "late", "Programmed", "WorkerFailed");
    assert!(status == "False" && message.contains("no thread for its worker"), "{status}: {message}");
    place(&plane, "early");
    assert!(events(&plane.api, "default", "WorkerRestarted").is_empty(), "nothing works again yet");

    group.allow("max").unwrap();
    wait_reason(&plane, "late", "Ready", "Serving");
    let restarted = wait_event(&plane, "default", "late", "WorkerRestarted");
    assert_eq!((&restarted["type"], &restarted["note"]), (&json!("Normal"), &json!("the worker runs again")));
    place(&plane, "late");
    drop(operator);
}
