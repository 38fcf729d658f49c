//! What `make chart` writes: the table of values in the chart's README, and `config/`, the chart's default render for kustomize.

use std::collections::BTreeMap;
use std::process::Command;

use berth_lab::Upstream;
use serde_json::Value;

use super::{defaults, difference, rendered, repository, text, yaml};

#[test]
fn the_readme_lists_each_value_with_its_default_and_its_comment() {
    let args = ["-f", "hack/values.awk", "charts/berth/values.yaml"];
    let output = Command::new("awk").args(args).current_dir(repository("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = String::from_utf8(output.stdout).unwrap();
    let readme = text("charts/berth/README.md");
    let listed: Vec<&str> = readme.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(listed, rows.lines().collect::<Vec<_>>(), "run `make chart`");

    // That script reads lines; this reads YAML.
    let mut cells = BTreeMap::new();
    for row in &listed {
        let columns: Vec<&str> = row.split(" | ").collect();
        let [path, default, meaning] = columns[..] else { panic!("{row}: not three columns") };
        assert!(meaning.len() > 5, "{row}: no comment");
        cells.insert(path.trim_matches(['|', ' ', '`']).to_owned(), yaml(default.trim_matches('`')));
    }
    assert_eq!(cells, defaults());
}

/// Objects by kind, namespace and name.
fn by_name(objects: Vec<Value>) -> BTreeMap<[String; 3], Value> {
    let of = |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
    let key = |object: &Value| ["/kind", "/metadata/namespace", "/metadata/name"].map(|pointer| of(object, pointer));
    objects.into_iter().map(|object| (key(&object), object)).collect()
}

/// kustomize puts the objects into the cluster, not Helm: these two labels say otherwise, and nothing else may differ.
#[test]
fn the_base_for_kustomize_is_the_charts_default_render() {
    let output = Command::new(Upstream::find_or_build().unwrap().binary("kubectl"))
        .args(["kustomize", "config"])
        .current_dir(repository(""))
        .env("KUBECONFIG", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let base: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap();
    let base = by_name(base);
    let mut chart = by_name(rendered(&["--skip-tests"]));
    for object in chart.values_mut() {
        let labels = object["metadata"]["labels"].as_object_mut().unwrap();
        for of_helm in ["helm.sh/chart", "app.kubernetes.io/managed-by"] {
            labels.remove(of_helm).unwrap();
        }
    }
    assert!(base.keys().eq(chart.keys()), "run `make chart`: {:?} against {:?}", base.keys(), chart.keys());
    for (name, ours) in &chart {
        assert_eq!(difference(&base[name], ours, &name.join(" ")), None, "run `make chart`");
    }
}
