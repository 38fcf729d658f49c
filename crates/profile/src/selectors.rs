//! Label selectors, node affinity and label maps, resolved.

use super::names::{is_dns1123_subdomain, is_label_value, is_qualified_name};
use super::{CompileError, each, sorted};
use berth_api as api;
use berth_core::model::{
    LabelSelector, Labels, NodeSelector, NodeSelectorTerm, NodeTest, NodeTestOperator, PreferredTerm, Requirement,
    RequirementOperator, Str,
};
use berth_core::profile::AddedAffinity;
use std::collections::BTreeMap;

/// Resolves a label selector; `field` is its path.
pub(super) fn label_selector(selector: &api::LabelSelector, field: &str) -> Result<LabelSelector, CompileError> {
    let pairs = labels(&selector.match_labels, &format!("{field}.matchLabels"))?;
    let mut resolved = LabelSelector::from(&pairs);
    let more = each(&selector.match_expressions, &format!("{field}.matchExpressions"), requirement)?;
    resolved.requirements.extend(more);
    Ok(resolved)
}

fn requirement(expression: &api::LabelSelectorRequirement, field: &str) -> Result<Requirement, CompileError> {
    use api::LabelSelectorOperator as Api;
    let operator = match expression.operator {
        Api::In => RequirementOperator::In,
        Api::NotIn => RequirementOperator::NotIn,
        Api::Exists => RequirementOperator::Exists,
        Api::DoesNotExist => RequirementOperator::DoesNotExist,
    };
    let wants_values = matches!(operator, RequirementOperator::In | RequirementOperator::NotIn);
    Ok(Requirement {
        key: label_key(&expression.key, field)?,
        operator,
        values: values(&expression.values, wants_values, field)?,
    })
}

/// Resolves a map of labels that must all be there; `field` is its path.
pub(super) fn labels(map: &BTreeMap<String, String>, field: &str) -> Result<Labels, CompileError> {
    for (name, value) in map {
        label_key(name, field)?;
        label_value(value, &format!("{field}[{name}]"))?;
    }
    Ok(Labels::from_pairs(map.iter().map(|(k, v)| (k.as_str().into(), v.as_str().into()))))
}

/// Resolves the affinity that a profile adds to its pods; `field` is its path.
pub(super) fn added_affinity(affinity: &api::AddedAffinity, field: &str) -> Result<AddedAffinity, CompileError> {
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()
        .map(|selector| node_selector(selector, &format!("{field}.requiredDuringSchedulingIgnoredDuringExecution")))
        .transpose()?;
    let preferred = &affinity.preferred_during_scheduling_ignored_during_execution;
    let field = format!("{field}.preferredDuringSchedulingIgnoredDuringExecution");
    Ok(AddedAffinity { required, preferred: each(preferred, &field, preferred_term)? })
}

fn node_selector(selector: &api::NodeSelector, field: &str) -> Result<NodeSelector, CompileError> {
    let field = format!("{field}.nodeSelectorTerms");
    if selector.node_selector_terms.is_empty() {
        let fix = "add a term, or remove the selector";
        return Err(CompileError::selector(field, "has no terms, so that no node could match", fix));
    }
    Ok(NodeSelector { terms: each(&selector.node_selector_terms, &field, term)? })
}

fn preferred_term(preferred: &api::PreferredNodeSelectorTerm, field: &str) -> Result<PreferredTerm, CompileError> {
    if !(1..=100).contains(&preferred.weight) {
        let message = format!("{} is not a weight of a preferred term", preferred.weight);
        return Err(CompileError::selector(format!("{field}.weight"), message, "use 1 to 100"));
    }
    Ok(PreferredTerm { weight: preferred.weight, term: term(&preferred.preference, &format!("{field}.preference"))? })
}

fn term(term: &api::NodeSelectorTerm, field: &str) -> Result<NodeSelectorTerm, CompileError> {
    let expressions = each(&term.match_expressions, &format!("{field}.matchExpressions"), node_test)?;
    let names = each(&term.match_fields, &format!("{field}.matchFields"), node_name)?;
    Ok(NodeSelectorTerm { expressions, names, broken: false })
}

fn node_test(expression: &api::NodeSelectorRequirement, field: &str) -> Result<NodeTest, CompileError> {
    use api::NodeSelectorOperator as Api;
    let key = label_key(&expression.key, field)?;
    let given = &expression.values;
    let (operator, values) = match expression.operator {
        Api::In => (NodeTestOperator::In, values(given, true, field)?),
        Api::NotIn => (NodeTestOperator::NotIn, values(given, true, field)?),
        Api::Exists => (NodeTestOperator::Exists, values(given, false, field)?),
        Api::DoesNotExist => (NodeTestOperator::DoesNotExist, values(given, false, field)?),
        Api::Gt => (NodeTestOperator::Gt, integer(given, field)?),
        Api::Lt => (NodeTestOperator::Lt, integer(given, field)?),
    };
    Ok(NodeTest { key, operator, values })
}

fn node_name(requirement: &api::FieldSelectorRequirement, field: &str) -> Result<(bool, Str), CompileError> {
    use api::NodeSelectorOperator as Api;
    if requirement.key != "metadata.name" {
        let message = format!("{:?} is not a field that can be matched", requirement.key);
        return Err(CompileError::selector(format!("{field}.key"), message, "use metadata.name"));
    }
    let wanted = match requirement.operator {
        Api::In => true,
        Api::NotIn => false,
        other => {
            let message = format!("{other:?} does not apply to fields");
            return Err(CompileError::selector(format!("{field}.operator"), message, "use In or NotIn"));
        }
    };
    match requirement.values.as_slice() {
        [name] if is_dns1123_subdomain(name) => Ok((wanted, name.as_str().into())),
        [name] => Err(CompileError::selector(
            format!("{field}.values[0]"),
            format!("{name:?} is not a node's name"),
            "use the metadata.name of a node: lower-case letters, digits, - and . between them",
        )),
        other => Err(CompileError::selector(
            format!("{field}.values"),
            format!("has {} values", other.len()),
            "give exactly one node name; use one term for each name",
        )),
    }
}

/// Checks a label's key; `field` is its path.
pub fn label_key(key: &str, field: &str) -> Result<Str, CompileError> {
    if is_qualified_name(key) {
        return Ok(key.into());
    }
    Err(CompileError::selector(
        field,
        format!("{key:?} is not a valid label key"),
        "write name or prefix/name, such as example.com/pool: the prefix a DNS name, the name at most 63 letters, digits, -, _ and .",
    ))
}

fn label_value(value: &str, field: &str) -> Result<(), CompileError> {
    if is_label_value(value) {
        return Ok(());
    }
    Err(CompileError::selector(
        field,
        format!("{value:?} is not a valid label value"),
        "use at most 63 letters, digits, -, _ and ., beginning and ending with a letter or digit",
    ))
}

fn values(values: &[String], wanted: bool, field: &str) -> Result<Vec<Str>, CompileError> {
    let field = format!("{field}.values");
    if wanted && values.is_empty() {
        return Err(CompileError::selector(field, "is empty", "give at least one value, or use Exists"));
    }
    if !wanted && !values.is_empty() {
        let fix = "remove the values, or use In or NotIn";
        return Err(CompileError::selector(field, "are not read by this operator", fix));
    }
    each(values, &field, |value, field| label_value(value, field))?;
    Ok(sorted(values))
}

fn integer(values: &[String], field: &str) -> Result<Vec<Str>, CompileError> {
    let fix = "operators Gt and Lt take exactly one whole number, such as \"4\"";
    match values {
        // A label's value cannot begin with a sign, so a number with a sign could match none.
        [value] if value.parse::<i64>().is_ok() && is_label_value(value) => Ok(vec![value.as_str().into()]),
        [value] => {
            let message = format!("{value:?} is not a whole number");
            Err(CompileError::selector(format!("{field}.values[0]"), message, fix))
        }
        other => Err(CompileError::selector(format!("{field}.values"), format!("has {} values", other.len()), fix)),
    }
}
