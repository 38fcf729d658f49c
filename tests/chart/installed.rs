//! The chart on a real API server: install, upgrade, uninstall, with profiles present.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use berth_lab::{ControlPlane, Options};
use serde_json::{Value, json};

use super::{CRD, HOME, difference, object, rendered, repository, text, yaml};

const SOON: Duration = Duration::from_mins(1);

const PROFILE: &str = "
apiVersion: scheduling.berth.dev/v1alpha1
kind: SchedulerProfile
metadata: {name: kept}
spec: {preset: BinPack}
";

/// A control plane with a release namespace that enforces the restricted Pod Security Standard.
pub(super) fn cluster() -> ControlPlane {
    let cluster = ControlPlane::start(&Options::default()).unwrap();
    cluster.kubectl_ok(&["create", "namespace", HOME]).unwrap();
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    cluster.kubectl_ok(&["label", "namespace", HOME, restricted]).unwrap();
    cluster
}

pub(super) fn install(cluster: &ControlPlane, chart: &Path, more: &[&str]) -> String {
    let args = ["install", "berth", chart.to_str().unwrap(), "--namespace", HOME];
    let notes = cluster.helm(&[&args, more].concat()).unwrap();
    let crd = format!("crd/{CRD}");
    cluster.kubectl_ok(&["wait", "--for=condition=Established", &crd, "--timeout=60s"]).unwrap();
    notes
}

pub(super) fn get(cluster: &ControlPlane, args: &[&str]) -> Value {
    let out = cluster.kubectl_ok(&[&["get", "-o", "json"], args].concat()).unwrap();
    serde_json::from_str(&out).unwrap()
}

/// Names of the release's objects that exist, of all kinds that the chart makes beside the CRD.
fn left_over(cluster: &ControlPlane) -> Vec<String> {
    let kinds = "deployments,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,flowschemas,networkpolicies,\
                 validatingadmissionpolicies,validatingadmissionpolicybindings";
    let args = ["get", kinds, "-A", "-o", "name", "-l", "app.kubernetes.io/name=berth"];
    let out = cluster.kubectl_ok(&args).unwrap();
    out.lines().map(str::to_owned).collect()
}

/// A chart to upgrade from, in `directory`, and where it came from: the newest committed one that differs from the files
/// here. In a fresh or shallow clone there may be none; then a copy of today's with another version and CRD.
fn previous_chart(directory: &Path) -> (PathBuf, String) {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(repository("")).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let chart = directory.join("charts/berth");
    let commits = git(&["rev-list", "-n", "20", "HEAD", "--", "charts/berth"]).unwrap_or_default();
    for commit in commits.lines() {
        let same = git(&["diff", "--quiet", commit, "--", "charts/berth", ":(exclude)charts/berth/ci"]).is_some();
        let whole = git(&["cat-file", "-e", &format!("{commit}:charts/berth/files/crd.yaml")]).is_some();
        if same || !whole {
            continue;
        }
        let archive = directory.join("chart.tar");
        git(&["archive", "-o", archive.to_str().unwrap(), commit, "charts/berth"]).unwrap();
        let status = Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(directory).status().unwrap();
        assert!(status.success());
        return (chart, format!("the chart of commit {commit}"));
    }
    fs::create_dir_all(directory.join("charts")).unwrap();
    let copied = Command::new("cp").arg("-R").arg(repository("charts/berth")).arg(&chart).status().unwrap();
    assert!(copied.success());
    let mut about = yaml(&text("charts/berth/Chart.yaml"));
    about["version"] = json!("0.0.1");
    fs::write(chart.join("Chart.yaml"), about.to_string()).unwrap();
    let mut crd = yaml(&text("charts/berth/files/crd.yaml"));
    crd["spec"]["names"]["categories"] = json!(["older"]);
    fs::write(chart.join("files/crd.yaml"), crd.to_string()).unwrap();
    (chart, "a changed copy of today's chart, as no earlier one is in this clone".to_owned())
}

#[test]
fn installed_upgraded_and_uninstalled_with_profiles_present() {
    let cluster = cluster();
    let (older, origin) = previous_chart(cluster.dir());
    println!("upgrading from {origin}");
    install(&cluster, &older, &["--set", "operator.bindQps=77"]);
    cluster.apply(PROFILE).unwrap();
    let before = get(&cluster, &["schedulerprofile", "kept"]);

    let chart = repository("charts/berth");
    let chart = chart.to_str().unwrap();
    let with_policies = ["--set", "admissionPolicy.enabled=true"];
    let upgrade = ["upgrade", "berth", chart, "-n", HOME, "--reset-then-reuse-values"];
    cluster.helm(&[&upgrade[..], &with_policies].concat()).unwrap();
    let source = yaml(&text("charts/berth/files/crd.yaml"));
    let crd = get(&cluster, &["crd", CRD]);
    for field in ["/spec/names/categories", "/spec/versions/0/schema"] {
        let (served, ours) = (crd.pointer(field).unwrap(), source.pointer(field).unwrap());
        let differs = difference(served, ours, field);
        assert_eq!(differs, None, "the upgrade from {origin} left an older definition");
    }
    let deployment = get(&cluster, &["deployment", "berth", "-n", HOME]);
    let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    assert!(args.contains("--bind-qps=77"), "the upgrade forgot a value: {args}");
    let after = get(&cluster, &["schedulerprofile", "kept"]);
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["spec"], before["spec"]);

    cluster.helm(&["uninstall", "berth", "-n", HOME]).unwrap();
    assert_eq!(left_over(&cluster), Vec::<String>::new());
    let kept = get(&cluster, &["schedulerprofile", "kept"]);
    assert_eq!(kept["metadata"]["uid"], before["metadata"]["uid"]);
    assert!(kept["metadata"]["deletionTimestamp"].is_null());

    install(&cluster, Path::new(chart), &[]);
    let adopted = get(&cluster, &["schedulerprofile", "kept"]);
    assert_eq!(adopted["metadata"]["uid"], before["metadata"]["uid"]);
}

#[test]
fn a_new_install_says_what_to_do_next_and_its_pod_is_admitted() {
    let cluster = cluster();
    let notes = install(&cluster, &repository("charts/berth"), &[]);
    // The profile that NOTES.txt shows, as a user would paste it.
    let shown: Vec<&str> = notes
        .lines()
        .skip_while(|line| !line.contains("<<'EOF'"))
        .skip(1)
        .take_while(|line| line.trim() != "EOF")
        .map(|line| line.strip_prefix("   ").unwrap_or(line))
        .collect();
    cluster.apply(&shown.join("\n")).unwrap();
    get(&cluster, &["schedulerprofile", "binpack"]);
    let about = yaml(&text("charts/berth/Chart.yaml"));
    for example in yaml(about["annotations"]["artifacthub.io/crdsExamples"].as_str().unwrap()).as_array().unwrap() {
        cluster.apply(&example.to_string()).unwrap();
    }
    // No controller makes the Deployment's pod here, so its template is sent as a pod: admission checks Pod Security
    // (restricted) and the priority class.
    let deployment = get(&cluster, &["deployment", "berth", "-n", HOME]);
    let mut pod = deployment["spec"]["template"].clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("as-the-deployment-makes-it");
    let made = cluster.api.post(&format!("/api/v1/namespaces/{HOME}/pods?dryRun=All"), &pod).unwrap();
    assert_eq!(made["spec"]["priority"], 2_000_000_000);
    // The pod of `helm test`. No controller makes the account `default` of its namespace here.
    let objects = rendered(&[]);
    let mut test = object(&objects, "Pod", "berth-test").clone();
    test["spec"]["serviceAccountName"] = json!("berth");
    cluster.api.post(&format!("/api/v1/namespaces/{HOME}/pods?dryRun=All"), &test).unwrap();
    // And the check does check: the same pod with one privilege too many is refused.
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
    let refused = cluster.api.post(&format!("/api/v1/namespaces/{HOME}/pods?dryRun=All"), &pod).unwrap_err();
    assert!(refused.to_string().contains("restricted"), "{refused}");
}

/// No kubelet runs here: the pod's end is written as one would.
#[test]
fn helm_test_succeeds_or_fails_as_its_pod_does() {
    let cluster = cluster();
    install(&cluster, &repository("charts/berth"), &[]);
    for (phase, succeeds) in [("Succeeded", true), ("Failed", false)] {
        std::thread::scope(|scope| {
            let test = scope.spawn(|| cluster.helm(&["test", "berth", "-n", HOME, "--timeout", "2m"]));
            let status = json!({"status": {"phase": phase}}).to_string();
            let patch =
                ["patch", "pod", "berth-test", "-n", HOME, "--subresource=status", "--type=merge", "-p", &status];
            cluster.wait_for("the pod of helm test", SOON, || Ok(cluster.kubectl_ok(&patch).ok())).unwrap();
            let said = test.join().unwrap();
            assert_eq!(said.is_ok(), succeeds, "{phase}: {said:?}");
        });
    }
}
