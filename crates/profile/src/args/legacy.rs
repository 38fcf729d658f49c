//! Arguments of the plugins of the Policy era.

use crate::selectors::label_key;
use crate::{CompileError, each, number};
use berth_api as api;
use berth_core::model::Str;
use berth_core::profile::{LabelPreference, LegacyArgs};

const PRESENCE: &str = "spec.pluginArgs.checkNodeLabelPresence";

pub(super) fn overlay(args: &api::PluginArgs, legacy: &mut LegacyArgs) -> Result<(), CompileError> {
    if let Some(presence) = &args.check_node_label_presence {
        label_presence(presence, legacy)?;
    }
    if let Some(affinity) = &args.check_service_affinity {
        let field = "spec.pluginArgs.checkServiceAffinity.affinityLabels";
        if affinity.affinity_labels.is_empty() {
            return Err(CompileError::args(field, "is empty", "name a node label, or remove checkServiceAffinity"));
        }
        legacy.affinity_labels = keys(&affinity.affinity_labels, field)?;
    }
    if !args.label_preference.is_empty() {
        legacy.label_preferences = label_preferences(&args.label_preference)?;
    }
    if let Some(spread) = args.selector_spread {
        legacy.spread_services_only = spread.workloads == api::SpreadWorkloads::Services;
        legacy.spread_any_selector = spread.matching == api::SelectorMatching::Any;
    }
    if let Some(counts) = &args.max_volume_counts {
        let limits = [
            (counts.ebs, "ebs", &mut legacy.max_ebs),
            (counts.gce_pd, "gcePd", &mut legacy.max_gce_pd),
            (counts.azure_disk, "azureDisk", &mut legacy.max_azure_disk),
            (counts.cinder, "cinder", &mut legacy.max_cinder),
        ];
        for (given, name, limit) in limits {
            if let Some(given) = given {
                let field = format!("spec.pluginArgs.maxVolumeCounts.{name}");
                *limit = number(given, 1..=10_000, field, "use 1 to 10,000")?;
            }
        }
    }
    Ok(())
}

fn label_presence(args: &api::CheckNodeLabelPresenceArgs, legacy: &mut LegacyArgs) -> Result<(), CompileError> {
    let (present, absent) = (&args.present_labels, &args.absent_labels);
    if present.is_empty() && absent.is_empty() {
        let message = "is empty, as is absentLabels, so that nothing is checked";
        let fix = "list labels, or remove checkNodeLabelPresence";
        return Err(CompileError::args(format!("{PRESENCE}.presentLabels"), message, fix));
    }
    if let Some(i) = absent.iter().position(|label| present.contains(label)) {
        let message = format!("{:?} is to be present too", absent[i]);
        let field = format!("{PRESENCE}.absentLabels[{i}]");
        return Err(CompileError::args(field, message, "remove it from one of the lists"));
    }
    legacy.present_labels = keys(present, &format!("{PRESENCE}.presentLabels"))?;
    legacy.absent_labels = keys(absent, &format!("{PRESENCE}.absentLabels"))?;
    Ok(())
}

fn label_preferences(preferences: &[api::LabelPreference]) -> Result<Vec<LabelPreference>, CompileError> {
    let mut read: Vec<LabelPreference> = Vec::with_capacity(preferences.len());
    for (i, preference) in preferences.iter().enumerate() {
        let field = format!("spec.pluginArgs.labelPreference[{i}].label");
        if read.iter().any(|r| *r.label == *preference.label) {
            let message = format!("{:?} is there twice", preference.label);
            return Err(CompileError::args(field, message, "keep one entry for each label"));
        }
        read.push(LabelPreference { label: label_key(&preference.label, &field)?, present: preference.present });
    }
    Ok(read)
}

fn keys(labels: &[String], field: &str) -> Result<Vec<Str>, CompileError> {
    each(labels, field, |label, field| label_key(label, field))
}
