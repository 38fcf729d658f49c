//! Predicates become filters.

use crate::import::loss::Draft;
use crate::import::node::{Fields, ImportError, Node};
use FilterName as F;
use berth_api::{
    AllowUnsafe, CheckNodeLabelPresenceArgs, CheckServiceAffinityArgs, FilterConfig, FilterName, PluginState,
};

/// Every predicate that a Policy could name without an argument, with the filters that do its work. CheckNodeCondition has
/// none: node conditions are taints today, and the filters in [`ALWAYS`] look at those.
#[rustfmt::skip] // One row per name: the table is read down.
const PREDICATES: &[(&str, &[FilterName])] = &[
    ("CheckNodeCondition", &[]),
    ("CheckNodeUnschedulable", &[F::NodeUnschedulable]),
    ("GeneralPredicates", &[F::NodeName, F::NodeAffinity, F::NodePorts, F::NodeResourcesFit]),
    ("HostName", &[F::NodeName]),
    ("PodFitsHostPorts", &[F::NodePorts]),
    ("PodFitsPorts", &[F::NodePorts]),
    ("MatchNodeSelector", &[F::NodeAffinity]),
    ("PodFitsResources", &[F::NodeResourcesFit]),
    ("NoDiskConflict", &[F::VolumeRestrictions]),
    ("PodToleratesNodeTaints", &[F::TaintToleration]),
    ("PodToleratesNodeNoExecuteTaints", &[F::TaintToleration]),
    ("MaxEBSVolumeCount", &[F::MaxEBSVolumeCount]),
    ("MaxGCEPDVolumeCount", &[F::MaxGCEPDVolumeCount]),
    ("MaxAzureDiskVolumeCount", &[F::MaxAzureDiskVolumeCount]),
    ("MaxCinderVolumeCount", &[F::MaxCinderVolumeCount]),
    ("MaxCSIVolumeCountPred", &[F::NodeVolumeLimits]),
    ("CheckVolumeBinding", &[F::VolumeBinding]),
    ("NoVolumeNodeConflict", &[F::VolumeBinding]),
    ("NoVolumeZoneConflict", &[F::VolumeZone]),
    ("CheckNodeMemoryPressure", &[F::CheckNodeMemoryPressure]),
    ("CheckNodePIDPressure", &[F::CheckNodePIDPressure]),
    ("CheckNodeDiskPressure", &[F::CheckNodeDiskPressure]),
    ("MatchInterPodAffinity", &[F::InterPodAffinity]),
    ("EvenPodsSpread", &[F::PodTopologySpread]),
];

/// Filters that run with every Policy, as in every kube-scheduler since 1.12; and one that is younger than Policies: without it, pods with
/// resource claims would be bound without their devices.
const ALWAYS: [FilterName; 3] = [F::NodeUnschedulable, F::TaintToleration, F::DynamicResources];

/// Reads the predicates of a Policy. Without the field the default filters run; with an empty list [`ALWAYS`] alone.
pub(super) fn read(fields: &Fields<'_>, out: &mut Draft) -> Result<(), ImportError> {
    let Some(list) = fields.get("predicates") else {
        out.origins.comment("spec", "predicates: not given, so that the default filters run");
        return Ok(());
    };
    let mut wanted: Vec<(FilterName, String)> = Vec::new();
    for node in list.items()? {
        predicate(&node, &mut wanted, out)?;
    }
    let runs = |name: FilterName| ALWAYS.contains(&name) || wanted.iter().any(|(w, _)| *w == name);
    for name in FilterName::ALL {
        let by_default = !is_policy_only(name);
        if runs(name) == by_default {
            continue;
        }
        let index = out.spec.filters.len();
        if let Some((_, source)) = wanted.iter().find(|(w, _)| *w == name) {
            out.origins.add(format!("spec.filters[{index}]"), source);
        }
        let state = if by_default { PluginState::Disabled } else { PluginState::Enabled };
        out.spec.filters.push(FilterConfig { name, state });
    }
    for name in FilterName::ALL.into_iter().filter(|name| name.is_safety() && !runs(*name)) {
        out.spec.allow_unsafe = AllowUnsafe::Acknowledged;
        let what = format!(
            "no predicate runs {name}, without which pods can be placed where they cannot run: taken over with \
             allowUnsafe: Acknowledged"
        );
        out.report.note(list.path(), what);
    }
    comment_on_filters(&wanted, out);
    Ok(())
}

/// Comments on the filters of the preset, which have no entry of their own that a comment could stand at.
fn comment_on_filters(wanted: &[(FilterName, String)], out: &mut Draft) {
    let field = if out.spec.filters.is_empty() { "spec" } else { "spec.filters" };
    for name in FilterName::ALL.into_iter().filter(|name| !is_policy_only(*name)) {
        let sources: Vec<&str> = wanted.iter().filter(|(w, _)| *w == name).map(|(_, s)| s.as_str()).collect();
        match &sources[..] {
            [] if ALWAYS.contains(&name) => out.origins.comment(field, format!("{name} runs with every Policy")),
            [] => {}
            sources => out.origins.comment(field, format!("{name} runs: from {}", sources.join(", "))),
        }
    }
}

/// Whether `name` is in no preset.
fn is_policy_only(name: FilterName) -> bool {
    name as usize >= FilterName::CheckNodeLabelPresence as usize
}

fn predicate(node: &Node<'_>, wanted: &mut Vec<(FilterName, String)>, out: &mut Draft) -> Result<(), ImportError> {
    let fields = node.any_fields()?;
    let name = fields.need("name", "name a predicate, such as PodFitsResources")?;
    let source = format!("{} {}", node.path(), name.text()?);
    if let Some(argument) = fields.get("argument") {
        wanted.push((with_argument(&argument, out)?, source));
        return Ok(());
    }
    let filters = name.row(PREDICATES, "predicate")?;
    if filters.is_empty() {
        out.origins.comment("spec.filters", format!("{source}: nodes that are not ready are tainted today"));
    }
    wanted.extend(filters.iter().map(|filter| (*filter, source.clone())));
    Ok(())
}

/// A predicate with an argument, which decides what it does; its name is free.
fn with_argument(argument: &Node<'_>, out: &mut Draft) -> Result<FilterName, ImportError> {
    let fields = argument.any_fields()?;
    let labels = |node: &Node<'_>| match node.any_fields()?.get("labels") {
        Some(labels) => labels.texts(),
        None => Ok(Vec::new()),
    };
    match (fields.get("serviceAffinity"), fields.get("labelsPresence")) {
        (Some(affinity), None) => {
            let wanted = labels(&affinity)?;
            let args = &mut out.spec.plugin_args.check_service_affinity;
            let args = args.get_or_insert(CheckServiceAffinityArgs { affinity_labels: Vec::new() });
            add(&mut args.affinity_labels, wanted);
            out.origins.add("spec.pluginArgs.checkServiceAffinity", affinity.path());
            Ok(F::CheckServiceAffinity)
        }
        (None, Some(presence)) => {
            let wanted = labels(&presence)?;
            let present = presence.any_fields()?.flag("presence")?;
            let args = &mut out.spec.plugin_args.check_node_label_presence;
            let args = args.get_or_insert_with(CheckNodeLabelPresenceArgs::default);
            add(if present { &mut args.present_labels } else { &mut args.absent_labels }, wanted);
            out.origins.add("spec.pluginArgs.checkNodeLabelPresence", presence.path());
            Ok(F::CheckNodeLabelPresence)
        }
        _ => Err(argument.bad("does not say what it is", "give either serviceAffinity or labelsPresence")),
    }
}

fn add(labels: &mut Vec<String>, more: Vec<String>) {
    for label in more {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
}
