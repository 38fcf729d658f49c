//! A profile that is read back is the one that was applied: tools that compare it with its manifest find no difference. Every
//! example and every profile of the pages goes through the real API server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails where it stands")]

use std::fs;
use std::path::{Path, PathBuf};

use berth_api as api;
use berth_lab::{ControlPlane, Options};
use serde_json::Value;

/// The first line of a profile.
const BEGIN: &str = "apiVersion: scheduling.berth.dev/v1alpha1";

/// The API server refuses it, to show how.
const REFUSED: &str = "examples/demo/bad-schema.yaml";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files below a folder that end so, as paths from the root of the repository.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(repository().join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if repository().join(&path).is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The profiles that a text spells out, however far they are indented.
fn profiles(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = lines.iter().enumerate().filter(|(_, line)| line.trim() == BEGIN);
    let whole = |(first, line): (usize, &&str)| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let inside = |line: &&str| {
            if line.trim().is_empty() { Some(String::new()) } else { line.strip_prefix(indent).map(str::to_owned) }
        };
        let ends = |line: &String| matches!(line.as_str(), "---" | "```" | "EOF");
        let of_profile = lines[first..].iter().map_while(inside).take_while(|line| !ends(line));
        of_profile.collect::<Vec<_>>().join("\n") + "\n"
    };
    begins.map(whole).filter(|yaml| yaml.contains("\nkind: SchedulerProfile\n")).collect()
}

/// Every profile that users are shown, with the file that shows it.
fn shown() -> Vec<(String, String)> {
    let mut all = files("examples", "yaml");
    all.extend(files("docs", "md"));
    all.extend(["README.md", "charts/berth/templates/NOTES.txt"].map(PathBuf::from));
    let mut shown = Vec::new();
    for path in all.iter().filter(|path| **path != Path::new(REFUSED)) {
        let text = fs::read_to_string(repository().join(path)).unwrap();
        shown.extend(profiles(&text).into_iter().map(|yaml| (path.display().to_string(), yaml)));
    }
    shown
}

/// What comes back different after this profile was applied, if anything does.
fn drift(plane: &ControlPlane, yaml: &str) -> Option<String> {
    let written: Value = serde_saphyr::from_str(yaml).unwrap();
    let name = written["metadata"]["name"].as_str().unwrap();
    let file = plane.dir().join("profile.yaml");
    fs::write(&file, yaml).unwrap();
    let file = file.to_str().unwrap();
    let applied = plane.kubectl(&["apply", "--server-side", "-f", file]).unwrap();
    if !applied.success {
        return Some(applied.stderr);
    }
    let read = plane.kubectl_ok(&["get", "sprof", name, "-o", "json"]).unwrap();
    let read: Value = serde_json::from_str(&read).unwrap();
    let diff = plane.kubectl(&["diff", "--server-side", "-f", file]).unwrap();
    plane.kubectl_ok(&["delete", "sprof", name]).unwrap();
    if read["spec"] != written["spec"] {
        return Some(format!("read back as {:#}", read["spec"]));
    }
    (!diff.success).then(|| format!("kubectl diff: {}{}", diff.stdout, diff.stderr))
}

#[test]
fn every_profile_that_is_shown_is_read_back_as_it_was_applied() {
    let plane = ControlPlane::start(&Options::default()).unwrap();
    plane.apply(&api::crd_yaml().unwrap()).unwrap();
    let wait = ["wait", "--for=condition=Established", "--timeout=60s", "crd", api::CRD_NAME];
    plane.kubectl_ok(&wait).unwrap();
    let shown = shown();
    assert!(shown.len() > 10, "{} profiles; are they written in another way now?", shown.len());
    let drifted: Vec<String> =
        shown.iter().filter_map(|(path, yaml)| Some(format!("{path}:\n{yaml}{}", drift(&plane, yaml)?))).collect();
    assert!(drifted.is_empty(), "{}", drifted.join("\n----\n"));
}
