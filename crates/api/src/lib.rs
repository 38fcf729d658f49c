//! The Kubernetes API of Berth: `SchedulerProfile` in `scheduling.berth.dev/v1alpha1`.
//!
//! The types here are the source of the custom resource definition: bounds stand in the schema, rules over several fields in
//! CEL, so that the API server refuses a bad profile when it is applied. Defaults are the types' own, and stand in the
//! descriptions. What needs the cluster (a name that another profile has, an operator option) is found by the operator and
//! reported in conditions.
//!
//! - [`SchedulerProfile`], [`SchedulerProfileSpec`]: what a user writes
//! - [`SchedulerProfileStatus`]: what the operator answers
//! - [`conditions`]: condition types, their closed sets of reasons, and how one is set
//! - [`crd_yaml`], [`crd_json`], [`own_crd`], [`missing_fields`], [`unknown_fields`]: the definition as text, and comparisons with it
//!
//! Reading profiles from a watch: wrap the type in `kube::core::DeserializeGuard`, so that one object written under
//! another schema cannot stop the stream.

#![warn(missing_docs, reason = "users read these texts in kubectl explain")]
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![allow(unreachable_pub, reason = "KubeSchema derives a public helper type inside a function for every struct")]

pub mod conditions;

mod affinity;
mod args;
mod duration;
mod extenders;
mod patterns;
mod plugins;
mod preemption;
mod rollout;
mod schema;
mod selector;
mod settings;
mod spec;
mod status;

use serde_json::Value;

pub use affinity::*;
pub use args::*;
pub use duration::{Duration, DurationError};
pub use extenders::*;
pub use plugins::*;
pub use preemption::*;
pub use rollout::*;
pub use schema::{CrdError, crd_json, crd_yaml, missing_fields, own_crd, unknown_fields};
pub use selector::*;
pub use settings::*;
pub use spec::*;
pub use status::*;

/// API group of every kind that Berth defines.
pub const GROUP: &str = "scheduling.berth.dev";

/// The one served and stored version.
pub const VERSION: &str = "v1alpha1";

/// Name of the custom resource definition of [`SchedulerProfile`].
pub const CRD_NAME: &str = "schedulerprofiles.scheduling.berth.dev";

/// The scheduler name that the API server writes into pods that name none.
/// Profiles may serve it only where the operator was started with `--serve-default-scheduler`.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// Takes the defaults out of the schema and into the descriptions; the types fill them in where a profile is read.
///
/// The API server would write a schema's defaults into each profile, and whatever compares it with its manifest would find a
/// difference that nobody made.
fn tell_defaults(schema: &mut schemars::Schema) {
    schemars::transform::transform_subschemas(&mut tell_defaults, schema);
    let shown = match schema.remove("default") {
        // The fields of an object say theirs.
        None | Some(Value::Null | Value::Object(_)) => return,
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
    };
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = format!("{description} Default: {shown}.");
    }
}

/// Joins the lines of every description: comments here are wrapped for the source, `kubectl explain` wraps by itself.
fn join_lines(schema: &mut schemars::Schema) {
    schemars::transform::transform_subschemas(&mut join_lines, schema);
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ");
    }
}
