use super::Decoder;
use super::selectors::{is_label_key, is_label_value};
use crate::slim::{Expression, LabelSelector as SlimLabelSelector};
use berth_core::model::{LabelSelector, Requirement, RequirementOperator, Str};

/// A label selector, or the part of it that upstream could not parse.
///
/// After `LabelSelectorAsSelector` in `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go`.
pub(super) fn parse(decoder: &mut Decoder, slim: &SlimLabelSelector<'_>) -> Result<LabelSelector, String> {
    let mut requirements = Vec::with_capacity(slim.match_labels.len() + slim.match_expressions.len());
    for (key, value) in slim.match_labels.iter() {
        if !is_label_key(key) || !is_label_value(value) {
            return Err(format!("{}={}", &**key, &**value));
        }
        requirements.push(is(decoder.text(key), decoder.text(value)));
    }
    for expression in &slim.match_expressions {
        requirements.push(requirement(decoder, expression)?);
    }
    Ok(LabelSelector { requirements })
}

/// `key` has this very value.
pub(super) fn is(key: Str, value: Str) -> Requirement {
    Requirement { key, operator: RequirementOperator::In, values: vec![value] }
}

fn requirement(decoder: &mut Decoder, expression: &Expression<'_>) -> Result<Requirement, String> {
    let operator = match &*expression.operator {
        "In" => RequirementOperator::In,
        "NotIn" => RequirementOperator::NotIn,
        "Exists" => RequirementOperator::Exists,
        "DoesNotExist" => RequirementOperator::DoesNotExist,
        other => return Err(format!("{other:?} is not a valid label selector operator")),
    };
    let takes_values = matches!(operator, RequirementOperator::In | RequirementOperator::NotIn);
    if takes_values == expression.values.is_empty() {
        return Err(format!("{} {} of {} values", &*expression.key, &*expression.operator, expression.values.len()));
    }
    if !is_label_key(&expression.key) {
        return Err(format!("key {}", &*expression.key));
    }
    if let Some(bad) = expression.values.iter().find(|v| !is_label_value(v)) {
        return Err(format!("{}={}", &*expression.key, &**bad));
    }
    let mut values: Vec<Str> = expression.values.iter().map(|v| decoder.text(v)).collect();
    values.sort();
    Ok(Requirement { key: decoder.text(&expression.key), operator, values })
}
