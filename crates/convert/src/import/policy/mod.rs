//! The Policy, which configured kube-scheduler 1.8 to 1.22.
//!
//! Predicates become filters, priorities scores. Those that kube-scheduler has removed, or whose formulas it has changed,
//! exist here under their old names, so that a profile places pods as the Policy did.

mod fields;
mod predicates;
mod priorities;

use super::Import;
use super::extenders::{Extenders, Spelling};
use super::loss::{Draft, Report};
use super::node::{Fields, ImportError, Node};
use berth_api::{self as api, SchedulerProfileSpec};
use serde_json::Value;

/// Reads a Policy as a profile that serves `scheduler_name`.
pub(super) fn read(document: &Value, scheduler_name: &str) -> Result<Import, ImportError> {
    read_into(document, Draft::new(scheduler_name, None))
}

/// Reads a Policy into a profile of which a configuration has set something already. A Policy itself does not say which version
/// it is of.
pub(super) fn read_into(document: &Value, mut draft: Draft) -> Result<Import, ImportError> {
    if !document.is_object() {
        return Err(Node::root(document).bad("is no Policy", "write a mapping with predicates and priorities"));
    }
    let mut unknown = Vec::new();
    let policy = fields::canonical(document, &fields::POLICY, "", &mut unknown);
    for field in unknown {
        draft.report.note(field, "no version of kube-scheduler knew this field");
    }
    let fields = Node::root(&policy).any_fields()?;
    check_kind(&fields)?;
    predicates::read(&fields, &mut draft)?;
    priorities::read(&fields, &mut draft)?;
    symmetric_weight(&fields, &mut draft)?;
    check_all(&fields, &mut draft.report)?;
    let extenders = Extenders::read(&fields.list("extenders")?, Spelling::Policy, &mut draft.report)?;
    extenders.apply(&mut draft);
    draft.finish_alone()
}

/// A Policy in a file of its own may leave out `kind` and `apiVersion`.
fn check_kind(fields: &Fields<'_>) -> Result<(), ImportError> {
    for (name, wanted) in [("kind", "Policy"), ("apiVersion", "v1")] {
        if let Some(written) = fields.get(name)
            && !matches!(written.text()?, "" | "Policy" | "v1")
        {
            return Err(written.bad(format!("{:?} is not read", written.text()?), format!("write {wanted}")));
        }
    }
    Ok(())
}

/// The weight of required pod affinity; 0 counts as not set.
fn symmetric_weight(fields: &Fields<'_>, out: &mut Draft) -> Result<(), ImportError> {
    let Some(node) = fields.get("hardPodAffinitySymmetricWeight") else { return Ok(()) };
    let weight = node.int()?;
    if !(0..=100).contains(&weight) {
        return Err(node.bad(format!("{weight} is out of range"), "write 1 to 100"));
    }
    if weight != 0 {
        set_hard_weight(&mut out.spec, weight);
        out.origins.add("spec.pluginArgs.interPodAffinity", node.path());
    }
    Ok(())
}

/// Sets the weight that a required affinity of a placed pod has in the score.
pub(super) fn set_hard_weight(spec: &mut SchedulerProfileSpec, weight: i32) {
    let args = api::InterPodAffinityArgs { hard_pod_affinity_weight: weight, ..api::InterPodAffinityArgs::default() };
    spec.plugin_args.inter_pod_affinity = Some(args);
}

fn check_all(fields: &Fields<'_>, report: &mut Report) -> Result<(), ImportError> {
    if let Some(node) = fields.get("alwaysCheckAllPredicates").filter(|node| node.flag() != Ok(false)) {
        node.flag()?;
        let what = "a node is refused by the first filter that does not like it: other reasons are not looked for";
        report.lost(node.path(), what);
    }
    Ok(())
}

#[cfg(test)]
mod policy_tests;
