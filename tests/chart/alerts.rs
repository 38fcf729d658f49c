//! The alerts, by Prometheus' own tool: it takes the rules that the chart renders, and runs the cases of `alerts/*.yaml`, which
//! are in the format of `promtool test rules`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use berth_lab::promtool;

use super::monitoring::{WITH_ALERTS, alerts, field};
use super::{rendered, repository, text, yaml};

/// A directory with the rules of the chart with `args`, as the file that Prometheus reads: JSON is YAML.
fn rules(name: &str, args: &[&str]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&directory).unwrap();
    let objects = rendered(args);
    let rule = objects.iter().find(|object| object["kind"] == "PrometheusRule").unwrap();
    fs::write(directory.join("rules.yaml"), rule["spec"].to_string()).unwrap();
    directory
}

/// The files of cases, by name.
fn cases() -> Vec<String> {
    let entries = fs::read_dir(repository("tests/chart/alerts")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn promtool_finds_nothing_in_the_rules() {
    let every = repository("charts/berth/ci/every-value.yaml");
    for (name, args) in [("rules", WITH_ALERTS), ("rules-of-every-value", &["-f", every.to_str().unwrap()][..])] {
        let directory = rules(name, args);
        let checked =
            promtool(&directory, &["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"], None).unwrap();
        assert!(checked.success, "{name}: {}{}", checked.stdout, checked.stderr);
    }
}

#[test]
fn alerts_fire_when_they_should_and_only_then() {
    let directory = rules("alerts", WITH_ALERTS);
    let cases = cases();
    for name in &cases {
        fs::copy(repository("tests/chart/alerts").join(name), directory.join(name)).unwrap();
    }
    let args: Vec<&str> = ["test", "rules"].into_iter().chain(cases.iter().map(String::as_str)).collect();
    let tested = promtool(&directory, &args, None).unwrap();
    assert!(tested.success, "{}{}", tested.stdout, tested.stderr);
}

#[test]
fn each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent() {
    let (mut fires, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for name in cases() {
        let file = yaml(&text(&format!("tests/chart/alerts/{name}")));
        assert_eq!(file["rule_files"][0], "rules.yaml", "{name}");
        for group in file["tests"].as_array().unwrap() {
            for case in group["alert_rule_test"].as_array().unwrap() {
                let expected = case["exp_alerts"].as_array().is_some_and(|alerts| !alerts.is_empty());
                let kind = if expected { &mut fires } else { &mut silent };
                kind.insert(field(case, "/alertname").to_owned());
            }
        }
    }
    let all: BTreeSet<String> = alerts().iter().map(|alert| field(alert, "/alert").to_owned()).collect();
    assert_eq!(fires, all, "alerts that fire in a case of tests/chart/alerts, and those of the chart");
    assert_eq!(silent, all, "alerts that are silent in a case of tests/chart/alerts, and those of the chart");
}
