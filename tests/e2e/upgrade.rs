//! A release is upgraded and rolled back while pods keep coming: nobody feels it but the profile that the new version refuses.
//!
//! `make upgrade FROM=…` gives the old release the binary and the chart of another commit. Without it both run those of this tree.

use std::path::{Path, PathBuf};
use std::time::Instant;

use berth_lab::{ControlPlane, Operator, Options};
use serde_json::json;

use crate::SOON;
use crate::audit::Audit;
use crate::cluster::{HOME, binary, chart, copied_chart, install_chart_at, namespace, send_signal, start_binary};
use crate::limit::{ROLLED, check, check_rate};
use crate::load::{Load, now_us, ready_from};
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
    let of_old = of_old_release();
    install_chart_at(&plane, &of_old.chart, &["--set", "operator.serveDefaultScheduler=true"]);
    let next = copied_chart(&plane, "99.0.0");
    let load = Load::new(HERE, &plane, &audit);
    namespace(&plane, REFUSED);
    let mut first = start_binary(&plane, of_old.binary.clone(), "berth-old-0", &[]);
    plane.wait_until_serving(&mut first).unwrap();
    let old = [first, ready_from(&plane, &of_old.binary, "berth-old-1")];
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
        let new = rolled(&plane, old, &binary(), "berth-new");
        load.wait_for_binds(100);
        roll.end("upgrade: helm upgrade", &load);
        refused_by_the_new_version(&plane);

        let roll = Roll::begin(&load);
        plane.helm(&["rollback", "berth", "1", "--namespace", HOME]).unwrap();
        let back = rolled(&plane, new, &of_old.binary, "berth-back");
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

/// What the release consists of that is upgraded.
struct Release {
    binary: PathBuf,
    chart: PathBuf,
}

fn of_old_release() -> Release {
    let given = |name: &str| std::env::var_os(name).map(PathBuf::from);
    Release {
        binary: given("BERTH_OLD_BINARY").unwrap_or_else(binary),
        chart: given("BERTH_OLD_CHART").unwrap_or_else(chart),
    }
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
fn rolled(plane: &ControlPlane, old: [Operator; 2], binary: &Path, name: &str) -> [Operator; 2] {
    let mut number = 0;
    old.map(|mut going| {
        let new = ready_from(plane, binary, &format!("{name}-{number}"));
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
