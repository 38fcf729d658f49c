use super::super::selectors::{is_label_key, is_label_value};
use super::Decoder;
use crate::cluster::slim::{Expression, LabelSelector as SlimLabelSelector};
use crate::core::model::{LabelSelector, Requirement, RequirementOperator};

/// A label selector, or what upstream says of one that does not parse.
///
/// After `LabelSelectorAsSelector` in `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go`.
pub(super) fn parse(decoder: &mut Decoder, slim: &SlimLabelSelector<'_>) -> Result<LabelSelector, String> {
    let mut requirements = Vec::with_capacity(slim.match_labels.len() + slim.match_expressions.len());
    for (key, value) in slim.match_labels.iter() {
        check_key(key)?;
        check_value(value)?;
        let (key, values) = (decoder.text(key), vec![decoder.text(value)]);
        requirements.push(Requirement { key, operator: RequirementOperator::In, values });
    }
    for expression in &slim.match_expressions {
        requirements.push(requirement(decoder, expression)?);
    }
    Ok(LabelSelector { requirements })
}

fn requirement(decoder: &mut Decoder, slim: &Expression<'_>) -> Result<Requirement, String> {
    use RequirementOperator::{DoesNotExist, Exists, In, NotIn};
    let operator = match &*slim.operator {
        "In" => In,
        "NotIn" => NotIn,
        "Exists" => Exists,
        "DoesNotExist" => DoesNotExist,
        other => return Err(format!("{other:?} is not a valid label selector operator")),
    };
    check_key(&slim.key)?;
    match operator {
        In | NotIn if slim.values.is_empty() => {
            return Err("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".to_owned());
        }
        Exists | DoesNotExist if !slim.values.is_empty() => {
            return Err("values: Invalid value: values set must be empty for exists and does not exist".to_owned());
        }
        In | NotIn | Exists | DoesNotExist => {}
    }
    slim.values.iter().try_for_each(|value| check_value(value))?;
    let mut values: Vec<_> = slim.values.iter().map(|value| decoder.text(value)).collect();
    values.sort();
    Ok(Requirement { key: decoder.text(&slim.key), operator, values })
}

fn check_key(key: &str) -> Result<(), String> {
    if is_label_key(key) { Ok(()) } else { Err(format!("key: Invalid value: {key:?}")) }
}

fn check_value(value: &str) -> Result<(), String> {
    if is_label_value(value) { Ok(()) } else { Err(format!("values: Invalid value: {value:?}")) }
}
