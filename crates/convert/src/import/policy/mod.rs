//! The Policy, which configured kube-scheduler 1.8 to 1.22.
//!
//! Predicates become filters, priorities scores. Those that kube-scheduler has removed, or whose formulas it has changed,
//! exist here under their old names, so that a profile places pods as the Policy did.

mod fields;
mod predicates;
mod priorities;

use super::extenders::{Extenders, Spelling};
use super::loss::{Loss, Origins};
use super::node::{Fields, ImportError, Node};
use super::{Import, ImportedProfile};
use berth_api::{self as api, SchedulerProfileSpec};
use berth_profile::compile;
use serde_json::Value;

/// What the readers of predicates and priorities fill in.
struct Out<'a> {
    spec: &'a mut SchedulerProfileSpec,
    origins: &'a mut Origins,
    losses: &'a mut Vec<Loss>,
    /// Whether the Policy is of kube-scheduler 1.13 or before, where SelectorSpread counted pods that any selector matched.
    any_selector: bool,
}

/// Reads a Policy as a profile that serves `scheduler_name`.
pub(super) fn read(document: &Value, scheduler_name: &str) -> Result<Import, ImportError> {
    let spec =
        SchedulerProfileSpec { scheduler_names: vec![scheduler_name.to_owned()], ..SchedulerProfileSpec::default() };
    read_into(document, scheduler_name, spec, Origins::default(), false)
}

/// Reads a Policy into a profile of which a configuration has set something already; `any_selector` says that the
/// configuration is of kube-scheduler 1.13 or before. A Policy itself does not say which version it is of.
pub(super) fn read_into(
    document: &Value,
    scheduler_name: &str,
    mut spec: SchedulerProfileSpec,
    mut origins: Origins,
    any_selector: bool,
) -> Result<Import, ImportError> {
    let (mut losses, mut unknown) = (Vec::new(), Vec::new());
    if !document.is_object() {
        return Err(Node::root(document).bad("is no Policy", "write a mapping with predicates and priorities"));
    }
    let policy = fields::canonical(document, &fields::POLICY, "", &mut unknown);
    let unknown = unknown.into_iter().map(|field| Loss::note(field, "no version of kube-scheduler knew this field"));
    losses.extend(unknown);
    let fields = Node::root(&policy).any_fields()?;
    check_kind(&fields)?;
    let mut out = Out { spec: &mut spec, origins: &mut origins, losses: &mut losses, any_selector };
    predicates::read(&fields, &mut out)?;
    priorities::read(&fields, &mut out)?;
    symmetric_weight(&fields, &mut out)?;
    check_all(&fields, out.losses)?;
    let extenders = Extenders::read(&fields.list("extenders")?, Spelling::Policy, &mut losses)?;
    extenders.apply(&mut spec, &mut origins, &mut losses);
    let compiled =
        compile(scheduler_name, &spec).map_err(|e| ImportError::new(origins.find(&e.field), e.message, e.fix))?;
    let comments = origins.into_comments();
    let profile = ImportedProfile { scheduler_name: scheduler_name.to_owned(), spec, compiled, comments };
    Ok(Import { profiles: vec![profile], losses, manifests: extenders.manifests })
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
fn symmetric_weight(fields: &Fields<'_>, out: &mut Out<'_>) -> Result<(), ImportError> {
    let Some(node) = fields.get("hardPodAffinitySymmetricWeight") else { return Ok(()) };
    let weight = node.int()?;
    if !(0..=100).contains(&weight) {
        return Err(node.bad(format!("{weight} is out of range"), "write 1 to 100"));
    }
    if weight != 0 {
        set_hard_weight(out.spec, weight);
        out.origins.add("spec.pluginArgs.interPodAffinity", node.path());
    }
    Ok(())
}

/// Sets the weight that a required affinity of a placed pod has in the score.
pub(super) fn set_hard_weight(spec: &mut SchedulerProfileSpec, weight: i32) {
    let args = api::InterPodAffinityArgs { hard_pod_affinity_weight: weight, ..api::InterPodAffinityArgs::default() };
    spec.plugin_args.inter_pod_affinity = Some(args);
}

fn check_all(fields: &Fields<'_>, losses: &mut Vec<Loss>) -> Result<(), ImportError> {
    if let Some(node) = fields.get("alwaysCheckAllPredicates").filter(|node| node.flag() != Ok(false)) {
        node.flag()?;
        let what = "a node is refused by the first filter that does not like it: other reasons are not looked for";
        losses.push(Loss::lost(node.path(), what));
    }
    Ok(())
}

#[cfg(test)]
mod policy_tests;
