use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::api::Api;

/// After a call that failed.
const PAUSE: Duration = Duration::from_millis(100);

/// Shows `see` every object at `path`, which may have a query, and then each that changes, with the type of its event: `ADDED` for those that
/// are there. After an error, also one of `see`, all objects are shown anew: the server may be away, or have forgotten what was seen last. Ends within some two
/// seconds once `stop` is set.
pub fn follow(api: &Api, path: &str, stop: &AtomicBool, mut see: impl FnMut(&str, &Value) -> Result<()>) {
    while !stop.load(Ordering::Relaxed) {
        if list_and_watch(api, path, stop, &mut see).is_err() {
            thread::sleep(PAUSE);
        }
    }
}

fn list_and_watch(
    api: &Api,
    path: &str,
    stop: &AtomicBool,
    see: &mut impl FnMut(&str, &Value) -> Result<()>,
) -> Result<()> {
    let listed = api.get(path)?;
    for object in listed["items"].as_array().into_iter().flatten() {
        see("ADDED", object)?;
    }
    let mut version = version_of(&listed);
    // After an outage it may hold all objects of a test, and the watch goes on for as long.
    drop(listed);
    let sign = if path.contains('?') { '&' } else { '?' };
    while !stop.load(Ordering::Relaxed) {
        // Short, so that the end is noticed soon.
        let query = format!("{path}{sign}watch=true&timeoutSeconds=2&resourceVersion={version}");
        for line in BufReader::new(api.stream(&query, "application/json")?).lines() {
            let event: Value = serde_json::from_str(&line?)?;
            match event["type"].as_str() {
                Some(kind @ ("ADDED" | "MODIFIED" | "DELETED")) => see(kind, &event["object"])?,
                _ => bail!("the watch of {path}: {event}"),
            }
            version = version_of(&event["object"]);
        }
    }
    Ok(())
}

fn version_of(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}
