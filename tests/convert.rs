//! `berth convert` as a user meets it: what it prints, what it says was lost, and its exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/convert");
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/policy");

fn fixture(name: &str) -> String {
    format!("{FIXTURES}/{name}")
}

fn berth(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_berth")).args(args).output().unwrap()
}

/// Runs it with `input` on standard input.
fn berth_reading(args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    let command = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn documents(output: &Output) -> Vec<Value> {
    serde_saphyr::from_multiple(&text(&output.stdout)).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stdout)))
}

/// The lines of standard error without the place that each begins with.
fn lines(output: &Output) -> Vec<String> {
    let short = |line: &str| line.replace(&format!("{FIXTURES}/"), "").replace(&format!("{EXAMPLE}/"), "");
    text(&output.stderr).lines().map(short).collect()
}

/// A folder of its own that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("berth-convert-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_configuration_becomes_a_profile_for_each_scheduler_name() {
    let output = berth(&["convert", "-f", &fixture("config.yaml")]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let documents = documents(&output);
    let names: Vec<&str> = documents.iter().map(|d| d["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["packer", "careful", "gpu-extender-gpu-ca"]);
    let packer = &documents[0]["spec"];
    assert_eq!(
        packer["scores"],
        json!([{"name": "NodeResourcesFit", "weight": 5}, {"name": "ImageLocality", "state": "Disabled"}])
    );
    assert_eq!(packer["preemption"], json!({"policy": "Never"}));
    assert_eq!(packer["queue"], json!({"initialBackoff": "2s", "maxBackoff": "30s"}));
    assert_eq!(packer["nodes"], Value::Null, "its own percentage is 0");
    assert_eq!(packer["pluginArgs"]["nodeResourcesFit"]["strategy"]["type"], "MostAllocated");
    let careful = &documents[1]["spec"];
    assert_eq!(careful["nodes"], json!({"percentageToScore": 60}));
    assert_eq!(careful["preemption"]["candidateNodes"], json!({"percentage": 20, "absolute": 50}));
    assert_eq!(careful["extenders"], packer["extenders"]);
    assert_eq!(
        packer["extenders"],
        json!([{
            "name": "gpu-extender-gpu",
            "endpoint": {"url": "https://gpu-extender.gpu.svc:8443/scheduler"},
            "verbs": {
                "filter": {"path": "filter", "timeout": "2s", "failurePolicy": "Ignore"},
                "prioritize": {"path": "prioritize", "timeout": "2s", "failurePolicy": "Ignore"}},
            "weight": 2,
            "nodePayload": "Names",
            "managedResources": [{"name": "nvidia.com/gpu", "fitCheck": "Skip"}],
            "tls": {"caBundleRef": {"kind": "Secret", "name": "gpu-extender-gpu-ca", "key": "ca.crt"}}}])
    );
    let lines = lines(&output);
    let place = "config.yaml, document 1: KubeSchedulerConfiguration";
    let want = [
        "note: PLACE: leaderElection: ",
        "note: PLACE: extenders[0].urlPrefix: ",
        "lost: PLACE: extenders[0].tlsConfig.caData: ",
    ];
    assert_eq!(lines.len(), want.len(), "{lines:#?}");
    for (line, want) in lines.iter().zip(want) {
        assert!(line.starts_with(&want.replace("PLACE", place)), "{lines:#?}");
    }
}

#[test]
fn comments_say_where_what_came_from() {
    let output = text(&berth(&["convert", "-f", &fixture("config.yaml")]).stdout);
    for line in [
        "# Written by berth convert from ",
        "  # from profiles[0].plugins.score.enabled[0].weight",
        "  # from profiles[0].plugins: DefaultPreemption does not run at postFilter",
        "  # from profiles[0].pluginConfig[0].args",
        "  # from extenders[0]",
    ] {
        assert!(output.lines().any(|l| l.trim_start().starts_with(line.trim_start())), "{line}\n{output}");
    }
}

#[test]
fn what_is_printed_is_what_simulate_reads() {
    let folder = Folder::new("printed");
    let node = "{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: '4', memory: 8Gi, pods: '9'}}}\n---\n\
                {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {schedulerName: packer, containers: [{name: c}]}}\n";
    let cluster = folder.file("cluster.yaml", node);
    let printed = text(&berth(&["convert", "-f", &fixture("aks.yaml")]).stdout);
    let profiles = folder.file("profiles.yaml", &printed.replace("node-binpacking-scheduler", "packer"));
    let output = berth(&["simulate", "-f", &cluster, "--profile", &profiles, "-o", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn nothing_lost_is_exit_code_0() {
    let folder = Folder::new("nothing-lost");
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: false}\n";
    let file =
        folder.file("c.yaml", &format!("{head}profiles: [{{schedulerName: batch, percentageOfNodesToScore: 5}}]\n"));
    let output = berth(&["convert", "-f", &file]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let spec = documents(&output)[0]["spec"].clone();
    assert_eq!(spec, json!({"nodes": {"percentageToScore": 5}}));
    // Another order of filters is a loss.
    let reordered = "profiles: [{schedulerName: batch, plugins: {filter: {enabled: [{name: NodePorts}]}}}]\n";
    let output = berth(&["convert", "-f", &folder.file("d.yaml", &format!("{head}{reordered}"))]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("profiles[0].plugins.filter: the order NodePorts, "),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn json_has_the_documented_keys() {
    let output = berth(&["convert", "-f", &fixture("config.yaml"), "-o", "json"]);
    assert_eq!(output.status.code(), Some(2));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["losses", "manifests", "profiles"]);
    assert_eq!(answer["profiles"][0]["kind"], "SchedulerProfile");
    assert_eq!(answer["manifests"][0]["kind"], "Secret");
    let loss = &answer["losses"][2];
    let keys: Vec<&String> = loss.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["field", "kind", "message", "source"]);
    assert_eq!((&loss["field"], &loss["kind"]), (&json!("extenders[0].tlsConfig.caData"), &json!("Lost")));
    // Both forms say the same.
    let mut yaml = documents(&berth(&["convert", "-f", &fixture("config.yaml")]));
    yaml.truncate(2);
    assert_eq!(answer["profiles"], json!(yaml));
}

#[test]
fn the_example_judges_its_pods() {
    let root = env!("CARGO_MANIFEST_DIR");
    let (cluster, pods) = (format!("{root}/examples/quickstart/cluster.yaml"), format!("{EXAMPLE}/pods.yaml"));
    let profile = format!("{EXAMPLE}/profile.yaml");
    let output = berth(&["explain", "-f", &cluster, "-f", &pods, "--profile", &profile, "-o", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let feasible: Vec<(&Value, &Value)> =
        report["pods"].as_array().unwrap().iter().map(|pod| (&pod["name"], &pod["feasible"])).collect();
    assert_eq!(feasible, [(&json!("huge"), &json!(0)), (&json!("one"), &json!(6)), (&json!("two"), &json!(6))]);
}

/// What the example's folder shows is what the command prints, and a Policy in JSON and one in YAML are one Policy.
#[test]
fn the_policy_of_the_tutorials() {
    let policy = format!("{EXAMPLE}/policy.json");
    let output = berth(&["convert", "-f", &policy, "--scheduler-name", "my-scheduler"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = std::fs::read_to_string(format!("{EXAMPLE}/profile.yaml")).unwrap();
    let printed = text(&output.stdout).replace(&policy, "examples/policy/policy.json");
    assert_eq!(printed, shown, "run berth convert again and write it to examples/policy/profile.yaml");
    let said = lines(&output);
    assert!(
        said.iter().any(|line| line.starts_with("note: policy.json, document 1: Policy: priorities[2].name: ")),
        "{said:#?}"
    );
    let value: Value = serde_json::from_str(&std::fs::read_to_string(&policy).unwrap()).unwrap();
    let yaml = serde_saphyr::to_string(&value).unwrap();
    let from_yaml = berth_reading(&["convert", "-f", "-", "--scheduler-name", "my-scheduler", "-o", "json"], &yaml);
    let from_json = berth(&["convert", "-f", &policy, "--scheduler-name", "my-scheduler", "-o", "json"]);
    let profiles = |output: &Output| serde_json::from_slice::<Value>(&output.stdout).unwrap()["profiles"].clone();
    assert_eq!(profiles(&from_yaml), profiles(&from_json));
}

#[test]
fn a_policy_serves_the_default_scheduler_unless_told_otherwise() {
    let folder = Folder::new("default-name");
    let file = folder.file("policy.json", r#"{"kind": "Policy", "apiVersion": "v1"}"#);
    let output = berth(&["convert", "-f", &file]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let profile = &documents(&output)[0];
    // No profile may have the default scheduler's name itself.
    assert_eq!(profile["metadata"]["name"], "default");
    assert_eq!(profile["spec"], json!({"schedulerNames": ["default-scheduler"]}));
    assert!(text(&output.stdout).contains("--serve-default-scheduler"), "{}", text(&output.stdout));
}

#[test]
fn the_old_configuration_finds_its_policy_beside_itself() {
    // The Policy is given as well, and still is read once only.
    for files in [vec![fixture("v1alpha1.yaml")], vec![fixture("policy.yaml"), fixture("v1alpha1.yaml")]] {
        let mut args = vec!["convert"];
        for file in &files {
            args.extend(["-f", file]);
        }
        let output = berth(&args);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let documents = documents(&output);
        assert_eq!(documents.len(), 1);
        assert_eq!(documents[0]["metadata"]["name"], "my-scheduler");
        assert_eq!(documents[0]["spec"]["pluginArgs"]["checkNodeLabelPresence"], json!({"presentLabels": ["ssd"]}));
    }
}

#[test]
fn a_policy_that_is_not_there_is_named() {
    let folder = Folder::new("missing");
    let of = |source: &str| {
        format!(
            "apiVersion: componentconfig/v1alpha1\nkind: KubeSchedulerConfiguration\nalgorithmSource: {{policy: {source}}}\n"
        )
    };
    let file = folder.file("deep/config.yaml", &of("{file: {path: below/policy.cfg}}"));
    let output = berth(&["convert", "-f", &file]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("algorithmSource.policy.file.path: ") && said.contains("deep/below/policy.cfg"), "{said}");
    folder.file("deep/below/policy.cfg", r#"{"predicates": []}"#);
    assert_eq!(berth(&["convert", "-f", &file]).status.code(), Some(0));
    let file = folder.file("map.yaml", &of("{configMap: {namespace: kube-system, name: policy}}"));
    let output = berth(&["convert", "-f", &file]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("algorithmSource.policy.configMap.name: ") && said.contains("ConfigMap kube-system/policy"),
        "{said}"
    );
    let map =
        folder.file("policy.yaml", &config_map("policy", "policy.cfg", r#"{"predicates": [], "priorities": []}"#));
    let output = berth(&["convert", "-f", &file, "-f", &map]);
    assert_eq!((output.status.code(), documents(&output).len()), (Some(0), 1), "{}", text(&output.stderr));
    let map = folder.file("policy.yaml", &config_map("policy", "other.cfg", "{}"));
    let said = text(&berth(&["convert", "-f", &file, "-f", &map]).stderr);
    assert!(said.contains("no key policy.cfg"), "{said}");
}

#[test]
fn a_configuration_names_no_policy_outside_of_its_folder() {
    let folder = Folder::new("outside");
    let secret = folder.file("secret.cfg", r#"{"password": "x"}"#);
    folder.file("in/near.cfg", r#"{"predicates": []}"#);
    let config = |path: &str| {
        let text = json!({"apiVersion": "componentconfig/v1alpha1", "kind": "KubeSchedulerConfiguration",
            "algorithmSource": {"policy": {"file": {"path": path}}}});
        berth(&["convert", "-f", &folder.file("in/config.yaml", &text.to_string())])
    };
    let linked = |name: &str, to: &Path| std::os::unix::fs::symlink(to, folder.0.join("in").join(name)).unwrap();
    linked("there.cfg", Path::new(&secret));
    linked("nowhere.cfg", &folder.0.join("nothing"));
    linked("up", &folder.0);
    let paths =
        ["../secret.cfg", "../nothing", &secret, "/nothing", "there.cfg", "nowhere.cfg", "up/secret.cfg", "up/nothing"];
    for path in paths {
        let output = config(path);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{path}: {said}");
        assert!(
            said.contains(&format!("names the Policy {path}, which is outside of the configuration's own folder")),
            "{said}"
        );
        assert!(!said.contains("password"), "{said}");
    }
    linked("beside.cfg", Path::new("near.cfg"));
    let absolute = folder.0.join("in/near.cfg");
    for path in ["near.cfg", "./near.cfg", "beside.cfg", absolute.to_str().unwrap()] {
        let output = config(path);
        assert_eq!(output.status.code(), Some(0), "{path}: {}", text(&output.stderr));
    }
}

/// The key of a ConfigMap, as a repository's file may have it: no API server would take it.
#[test]
fn a_key_with_line_breaks_adds_no_document() {
    let folder = Folder::new("key");
    let key =
        "x\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: pwn}\n---\n#";
    let configuration = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                         profiles: [{schedulerName: a}]\n";
    for to in ["scheduler-profiles", "kube-scheduler-configuration"] {
        let file = folder.file("map.json", &config_map("s", key, configuration));
        let output = berth(&["convert", "-f", &file, "--to", to]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let documents = documents(&output);
        assert_eq!(documents.len(), 1, "{}", text(&output.stdout));
        assert!(!text(&output.stdout).contains("\nkind: ClusterRoleBinding"), "{}", text(&output.stdout));
    }
}

fn config_map(name: &str, key: &str, text: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "kube-system"}, "data": {key: text}})
        .to_string()
}

/// As in a pod that mounts one ConfigMap with both files.
#[test]
fn a_config_map_may_hold_a_configuration_and_its_policy() {
    let folder = Folder::new("mounted");
    let config = "apiVersion: kubescheduler.config.k8s.io/v1alpha1\nkind: KubeSchedulerConfiguration\n\
                  algorithmSource: {policy: {file: {path: /etc/scheduler/policy.cfg}}}\n";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scheduler"},
        "data": {"config.yaml": config, "policy.cfg": "{\"predicates\": [{\"name\": \"HostName\"}]}", "README": "Policy: none"}});
    let output = berth(&["convert", "-f", &folder.file("map.json", &map.to_string())]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(documents(&output).len(), 1);
    assert_eq!(documents(&output)[0]["spec"]["allowUnsafe"], "Acknowledged");
}

#[test]
fn other_products_hold_configurations_too() {
    let spec = |name: &str, code: i32| {
        let output = berth(&["convert", "-f", &fixture(name)]);
        assert_eq!(output.status.code(), Some(code), "{name}: {}", text(&output.stderr));
        let documents = documents(&output);
        assert_eq!(documents.len(), 1, "{name}");
        documents[0].clone()
    };
    let second = spec("second-scheduler.yaml", 0);
    assert_eq!(second["metadata"]["name"], "my-scheduler");
    assert_eq!(second["spec"], json!({"scores": [{"name": "PodTopologySpread", "state": "Disabled"}]}));
    let aks = spec("aks.yaml", 0);
    assert_eq!(aks["metadata"]["name"], "node-binpacking-scheduler");
    assert_eq!(aks["spec"]["pluginArgs"]["nodeResourcesFit"]["strategy"]["type"], "RequestedToCapacityRatio");
    let openshift = spec("openshift-scheduler.yaml", 0);
    assert_eq!(openshift["spec"]["scores"][0], json!({"name": "NodeResourcesFit", "weight": 5}));
    let policy = spec("openshift-policy.yaml", 2);
    assert_eq!(policy["spec"]["pluginArgs"]["checkServiceAffinity"], json!({"affinityLabels": ["region"]}));
}

#[test]
fn inputs_without_a_configuration_are_an_error() {
    let folder = Folder::new("nothing");
    let file = folder.file("node.yaml", "{apiVersion: v1, kind: Node, metadata: {name: a}}");
    for to in ["scheduler-profiles", "kube-scheduler-configuration"] {
        let output = berth(&["convert", "-f", &file, "--to", to]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        assert!(text(&output.stderr).contains("nothing to convert in there: give "), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("1 Node"), "{}", text(&output.stderr));
    }
}

#[test]
fn a_bad_field_is_named_with_its_file() {
    let folder = Folder::new("bad");
    let file = folder
        .file("policy.json", r#"{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "PodFitsHostPort"}]}"#);
    for command in ["convert", "simulate", "explain"] {
        let output = berth(&[command, "-f", &file]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(
            said.contains("policy.json, document 1: Policy: predicates[0].name: \"PodFitsHostPort\" is no predicate"),
            "{said}"
        );
    }
}

#[test]
fn profiles_become_one_configuration() {
    let folder = Folder::new("back");
    let profiles = "
apiVersion: scheduling.berth.dev/v1alpha1
kind: SchedulerProfile
metadata: {name: packer}
spec:
  preset: BinPack
  nodes: {selector: {matchLabels: {pool: batch}}}
---
apiVersion: scheduling.berth.dev/v1alpha1
kind: SchedulerProfile
metadata: {name: web}
spec: {schedulerNames: [web, shop], preemption: {policy: Never}}
";
    let file = folder.file("profiles.yaml", profiles);
    let output = berth(&["convert", "--to", "kube-scheduler-configuration", "-f", &file]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let configuration = documents(&output).remove(0);
    assert_eq!(configuration["apiVersion"], "kubescheduler.config.k8s.io/v1");
    let names: Vec<&str> =
        configuration["profiles"].as_array().unwrap().iter().map(|p| p["schedulerName"].as_str().unwrap()).collect();
    assert_eq!(names, ["packer", "shop", "web"]);
    let said = lines(&output);
    let of_packer = [
        "spec.scores: kube-scheduler 1.36 has no ScarceResourceAvoidance",
        "spec.nodes.selector: becomes addedAffinity",
        "spec.pluginArgs.nodeResourcesFit.strategy.scalarWeight: kube-scheduler counts only",
    ];
    assert_eq!(said.len(), of_packer.len(), "{said:#?}");
    for what in of_packer {
        let line = format!("SchedulerProfile packer: {what}");
        assert!(said.iter().any(|one| one.contains(&line)), "{line}: {said:#?}");
    }
    assert!(text(&output.stdout).contains("# from SchedulerProfile web"), "{}", text(&output.stdout));
    let json = berth(&["convert", "--to", "kube-scheduler-configuration", "-f", &file, "-o", "json"]);
    let answer: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(answer["configuration"], configuration);
    let kinds: Vec<&Value> = answer["losses"].as_array().unwrap().iter().map(|loss| &loss["kind"]).collect();
    assert_eq!(kinds, ["Lost", "Changed", "Lost"]);
}

/// A Policy can be brought to what kube-scheduler reads today.
#[test]
fn a_policy_becomes_a_configuration() {
    let output = berth(&["convert", "--to", "kube-scheduler-configuration", "-f", &fixture("policy.yaml")]);
    assert_eq!(output.status.code(), Some(2));
    let said = lines(&output);
    assert!(
        said.iter().any(|line| line.starts_with("lost: policy.yaml, document 1: Policy: spec.scores[0]: ")),
        "{said:#?}"
    );
    assert_eq!(documents(&output)[0]["profiles"][0]["schedulerName"], "default-scheduler");
}

/// What is printed one way, read the other way and printed again, is the same.
#[test]
fn there_and_back_again() {
    let folder = Folder::new("again");
    let first = text(&berth(&["convert", "-f", &fixture("aks.yaml"), "-o", "json"]).stdout);
    let first: Value = serde_json::from_str(&first).unwrap();
    let profiles = folder.file("profiles.json", &first["profiles"][0].to_string());
    let back = berth(&["convert", "--to", "kube-scheduler-configuration", "-f", &profiles]);
    assert_eq!(back.status.code(), Some(0), "{}", text(&back.stderr));
    let again = berth_reading(&["convert", "-f", "-", "-o", "json"], &text(&back.stdout));
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["profiles"], first["profiles"]);
}

#[test]
fn the_pages_name_commands_that_run() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/migrating.md")).unwrap();
    let mut run = 0;
    for line in page.lines().filter_map(|line| line.trim().strip_prefix("$ berth ")) {
        // What needs a cluster, or a file of the reader's, is run by the end-to-end tests and by readers.
        if line.contains('|') || line.contains('<') || line.contains('>') {
            continue;
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        let output =
            command.args(line.split_whitespace()).current_dir(Path::new(env!("CARGO_MANIFEST_DIR"))).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 2)), "berth {line}: {}", text(&output.stderr));
        run += 1;
    }
    assert!(run >= 5, "only {run} commands found");
}
