//! A release is upgraded and rolled back while pods keep coming: nobody feels it but the profile that the new version refuses.

use std::time::Instant;

use berth_lab::{ControlPlane, Operator, Options};
use serde_json::json;

use crate::SOON;
use crate::audit::Audit;
use crate::cluster::{HOME, copied_chart, install_chart, namespace, send_signal, serving};
use crate::limit::{ROLLED, check, check_rate};
use crate::load::{Load, now_us, ready};
use crate::objects::{PROFILES, condition, pod, pod_path, profile, wait_bound, wait_reason};

const HERE: &str = "upgrade";
/// The profile that only the old release serves: it has a reserved name.
const REFUSED: &str = "refused-by-the-next";
/// Pods a second.
const RATE: u32 = 100;

#[test]
fn an_upgrade_and_a_rollback_lose_no_pod_and_double_none() {
    let audit = Audit::new("upgrade");
    let plane = ControlPlane::start(&Options { apiserver_args: audit.flags(), ..Options::default() }).unwrap();
    install_chart(&plane, &["--set", "operator.serveDefaultScheduler=true"]);
    let next = copied_chart(&plane, "99.0.0");
    let load = Load::new(HERE, &plane, &audit);
    namespace(&plane, REFUSED);
    let old = [serving(&plane, "berth-old-0", &[]), ready(&plane, "berth-old-1")];
    for (name, spec) in
        [(HERE, json!({"preset": "BinPack"})), (REFUSED, json!({"schedulerNames": ["default-scheduler"]}))]
    {
        plane.api.post(PROFILES, &profile(name, &spec)).unwrap();
        wait_reason(&plane, name, "Ready", "Serving");
    }
    let _last = load.beside(RATE, || {
        load.wait_for_binds(100);
        let roll = Roll::begin(&load);
        let unset = ["--set", "operator.serveDefaultScheduler=false"];
        plane.helm(&[&["upgrade", "berth", next.to_str().unwrap(), "--namespace", HOME], &unset[..]].concat()).unwrap();
        let new = rolled(&plane, old, "berth-new");
        load.wait_for_binds(100);
        roll.end("upgrade: helm upgrade", &load);
        refused_by_the_new_version(&plane);

        let roll = Roll::begin(&load);
        plane.helm(&["rollback", "berth", "1", "--namespace", HOME]).unwrap();
        let back = rolled(&plane, new, "berth-back");
        // The pod that the new version left alone is placed by the old one.
        wait_bound(&plane, REFUSED, "left-alone");
        wait_reason(&plane, REFUSED, "Ready", "Serving");
        load.wait_for_binds(100);
        roll.end("upgrade: helm rollback", &load);
        back
    });
    assert_eq!(condition(&plane.api.get(&format!("{PROFILES}/{HERE}")).unwrap(), "Ready").unwrap().1, "Serving");
    load.nothing_was_lost_doubled_or_overbooked();
}

/// A time in which all replicas are replaced.
struct Roll {
    /// When it began, also in microseconds of Unix time.
    began: Instant,
    since: i64,
    /// How many pods had been made.
    made: usize,
}

impl Roll {
    fn begin(load: &Load<'_>) -> Self {
        Self { began: Instant::now(), since: now_us(), made: load.made() }
    }

    /// That pods came meanwhile is a part of what is shown.
    fn end(self, what: &str, load: &Load<'_>) {
        let reached = (load.made() - self.made) as f64 / self.began.elapsed().as_secs_f64();
        check(what, &[load.longest_gap(self.since)], ROLLED);
        check_rate(what, reached, RATE);
    }
}

/// What the Deployment does, one surge and none unavailable: a new pod is ready before an old one goes, the leader first.
fn rolled(plane: &ControlPlane, old: [Operator; 2], name: &str) -> [Operator; 2] {
    let mut number = 0;
    old.map(|mut going| {
        let new = ready(plane, &format!("{name}-{number}"));
        number += 1;
        send_signal(&going, "TERM");
        let status = going.process.wait(SOON).unwrap();
        assert_eq!(status.code(), Some(0), "{}", going.process.log_tail(20));
        new
    })
}

fn refused_by_the_new_version(plane: &ControlPlane) {
    let (status, message) = wait_reason(plane, REFUSED, "Accepted", "ReservedSchedulerName");
    assert_eq!(status, "False");
    assert!(message.contains("--serve-default-scheduler"), "{message}");
    plane.api.post(&pod_path(REFUSED, ""), &pod(REFUSED, "left-alone", "default-scheduler", "10m")).unwrap();
    let object = plane.api.get(&format!("{PROFILES}/{HERE}")).unwrap();
    assert_eq!(condition(&object, "Ready").unwrap().1, "Serving", "{object:#}");
}
