//! The certificate authority of the API server is replaced at a stroke: no certificate of the old one is left, and pods get the new
//! one's later. In a rotation as it is meant, both are trusted for a while, and nobody notices.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use berth_lab::ControlPlane;

use crate::cases::signal;
use crate::stage::{Setting, Stage};

/// How long operators trust nobody who answers: longer than a leader leads without renewing the Lease.
const MISMATCH: Duration = Duration::from_secs(12);

/// How long it takes until a process that goes on has read the file again: kube's client reads it once a minute.
const REREAD: Duration = Duration::from_secs(70);

pub(super) fn replace(stage: &mut Stage) {
    let old = serve_by_a_new_one(stage);
    trust(&stage.plane, &old);
    stage.restart_as(Setting::Direct);
    stage.pass(Duration::from_secs(5));
    let new = serve_by_a_new_one(stage);
    stage.pass(MISMATCH);
    trust(&stage.plane, &new);
    let trusted = Instant::now();
    stage.leader();
    stage.remark(format!("{} s later somebody leads", trusted.elapsed().as_secs()));
    stage.pass(REREAD.saturating_sub(trusted.elapsed()));
    // A standby does not end meanwhile: taking over shows that it follows the file. One that ended would start anew and lead.
    let pid = stage.leader().process.pid();
    signal(pid, "STOP");
    stage.leader();
    signal(pid, "CONT");
}

/// Restarts the API server with a certificate by a new authority, which is returned in PEM.
fn serve_by_a_new_one(stage: &Stage) -> String {
    let authority = stage.plane.new_authority().unwrap();
    stage.plane.apiserver().kill().unwrap();
    stage.plane.restart_apiserver().unwrap();
    authority
}

/// The file of authorities that operators are given: what the projected `ca.crt` is to a pod.
pub(super) fn file(plane: &ControlPlane) -> PathBuf {
    plane.dir().join("trusted.crt")
}

/// Replaces the file as a kubelet does, at once and whole.
fn trust(plane: &ControlPlane, authority: &str) {
    let new = plane.dir().join("trusted.new");
    fs::write(&new, authority).unwrap();
    fs::rename(new, file(plane)).unwrap();
}
