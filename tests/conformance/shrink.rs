//! From a cluster that shows a difference to the smallest one that still does.

use super::cluster::Drawn;
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long one difference is worth.
const PATIENCE: Duration = Duration::from_secs(60);

/// A way into an object: keys of maps, indices of lists.
type Path = Vec<Step>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// Takes away objects, then fields, as long as `still` holds of what is left.
pub fn shrink(drawn: &Drawn, mut still: impl FnMut(&Drawn) -> bool) -> Drawn {
    let end = Instant::now() + PATIENCE;
    let mut small = drawn.clone();
    let mut attempt = |candidate: Drawn, small: &mut Drawn| {
        let holds = Instant::now() < end && still(&candidate);
        if holds {
            *small = candidate;
        }
        holds
    };
    loop {
        let mut changed = small.config.is_some() && attempt(Drawn { config: None, ..small.clone() }, &mut small);
        changed |= drop_objects(&mut small, &mut attempt);
        changed |= drop_fields(&mut small, &mut attempt);
        if !changed || Instant::now() >= end {
            return small;
        }
    }
}

fn drop_objects(small: &mut Drawn, attempt: &mut impl FnMut(Drawn, &mut Drawn) -> bool) -> bool {
    let mut changed = false;
    let mut chunk = small.objects.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        while at < small.objects.len() {
            let mut candidate = small.clone();
            candidate.objects.drain(at..(at + chunk).min(small.objects.len()));
            if attempt(candidate, small) {
                changed = true;
            } else {
                at += chunk;
            }
        }
        chunk /= 2;
    }
    changed
}

fn drop_fields(small: &mut Drawn, attempt: &mut impl FnMut(Drawn, &mut Drawn) -> bool) -> bool {
    let mut changed = false;
    for index in 0..=small.objects.len() {
        // Behind the last object comes the configuration.
        let mut at = 0;
        while let Some(object) = part(small, index) {
            let paths = paths(object);
            let Some(path) = paths.get(at) else { break };
            let mut candidate = small.clone();
            if let Some(object) = part(&mut candidate, index) {
                remove(object, path);
            }
            if attempt(candidate, small) {
                changed = true;
            } else {
                at += 1;
            }
        }
    }
    changed
}

fn part(drawn: &mut Drawn, index: usize) -> Option<&mut Value> {
    if index < drawn.objects.len() { drawn.objects.get_mut(index) } else { drawn.config.as_mut() }
}

/// What may be taken away, outer things first.
fn paths(object: &Value) -> Vec<Path> {
    let mut found = Vec::new();
    let mut open: Vec<Path> = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let children: Vec<Step> = match at(object, &path) {
            Some(Value::Object(map)) => map.keys().cloned().map(Step::Key).collect(),
            Some(Value::Array(list)) => (0..list.len()).map(Step::Index).collect(),
            _ => Vec::new(),
        };
        for step in children {
            let child: Path = path.iter().cloned().chain([step]).collect();
            if !is_required(&child) {
                found.push(child.clone());
            }
            open.push(child);
        }
    }
    found.sort_by_key(Vec::len);
    found
}

/// Fields that the API requires where they stand: without them the cluster shows another difference, or none that can be.
const REQUIRED: [&str; 25] = [
    "apiVersion",
    "kind",
    "name",
    "namespace",
    "uid",
    "metadata",
    "spec",
    "status",
    "profiles",
    "containers",
    "allocatable",
    "key",
    "operator",
    "effect",
    "topologyKey",
    "whenUnsatisfiable",
    "maxSkew",
    "weight",
    "preference",
    "podAffinityTerm",
    "driver",
    "volumeHandle",
    "claimName",
    "provisioner",
    "volumeBindingMode",
];

/// Whether a field must stay.
fn is_required(path: &[Step]) -> bool {
    matches!(path.last(), Some(Step::Key(key)) if REQUIRED.contains(&key.as_str()))
}

fn at<'v>(object: &'v Value, path: &[Step]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}

fn remove(object: &mut Value, path: &[Step]) {
    let Some((last, parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(object, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(index) => value.get_mut(index),
    });
    match (parent, last) {
        (Some(Value::Object(map)), Step::Key(key)) => drop(map.remove(key)),
        (Some(Value::Array(list)), Step::Index(index)) if *index < list.len() => drop(list.remove(*index)),
        _ => {}
    }
}
