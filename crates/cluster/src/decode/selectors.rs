use super::findings::{Findings, values_of_selector};
use super::{Decoder, bad};
use crate::slim::{Expression, FieldError, LabelSelector as SlimLabelSelector, NodeSelectorTerm as SlimTerm};
use berth_core::limits::SELECTOR_VALUES;
use berth_core::model::{
    LabelSelector, NodeSelectorTerm, NodeTest, NodeTestOperator, Requirement, RequirementOperator,
};

/// A node selector term at `field`. What upstream could not parse makes it broken; an operator that this version does
/// not know holds the pod as well.
pub(super) fn node_term(
    decoder: &mut Decoder,
    slim: &SlimTerm<'_>,
    field: &str,
    findings: &mut Findings,
) -> NodeSelectorTerm {
    let mut term = NodeSelectorTerm::default();
    for expression in &slim.match_expressions {
        if let Some(test) = node_test(decoder, expression) {
            term.expressions.push(test);
            continue;
        }
        term.broken = true;
        if node_test_operator(&expression.operator).is_none() {
            findings.unknown(&format!("{field}.matchExpressions.operator"), &expression.operator);
        }
    }
    for expression in &slim.match_fields {
        let wanted = match &*expression.operator {
            "In" => Some(true),
            "NotIn" => Some(false),
            other => {
                if node_test_operator(other).is_none() {
                    findings.unknown(&format!("{field}.matchFields.operator"), other);
                }
                None
            }
        };
        if &*expression.key != "metadata.name" {
            findings.unknown(&format!("{field}.matchFields.key"), &expression.key);
            term.broken = true;
        } else if let (Some(wanted), [name]) = (wanted, &expression.values[..]) {
            term.names.push((wanted, decoder.text(name)));
        } else {
            term.broken = true;
        }
    }
    term
}

/// An expression over labels as a test; none where upstream could not parse it.
pub(super) fn node_test(decoder: &mut Decoder, expression: &Expression<'_>) -> Option<NodeTest> {
    let operator = node_test_operator(&expression.operator).filter(|operator| is_valid_test(*operator, expression))?;
    let mut values = decoder.texts(&expression.values);
    values.sort();
    Some(NodeTest { key: decoder.text(&expression.key), operator, values })
}

fn node_test_operator(text: &str) -> Option<NodeTestOperator> {
    Some(match text {
        "In" => NodeTestOperator::In,
        "NotIn" => NodeTestOperator::NotIn,
        "Exists" => NodeTestOperator::Exists,
        "DoesNotExist" => NodeTestOperator::DoesNotExist,
        "Gt" => NodeTestOperator::Gt,
        "Lt" => NodeTestOperator::Lt,
        _ => return None,
    })
}

/// Whether upstream can parse it. After `NewRequirement` in `staging/src/k8s.io/apimachinery/pkg/labels/selector.go`.
fn is_valid_test(operator: NodeTestOperator, expression: &Expression<'_>) -> bool {
    let values = &expression.values;
    let count = match operator {
        NodeTestOperator::In | NodeTestOperator::NotIn => !values.is_empty(),
        NodeTestOperator::Exists | NodeTestOperator::DoesNotExist => values.is_empty(),
        NodeTestOperator::Gt | NodeTestOperator::Lt => values.len() == 1 && values[0].parse::<i64>().is_ok(),
    };
    count && is_label_key(&expression.key) && values.iter().all(|v| is_label_value(v))
}

/// Refuses the selector at `field` of an object that is no pod, if it lists more than is kept. To be asked before anything is copied.
pub(super) fn check_size(field: &str, values: usize) -> Result<(), FieldError> {
    if values > SELECTOR_VALUES {
        let message = format!(
            "{values} keys and values, at most {SELECTOR_VALUES} are read, so that no object takes up the memory of all: give what is \
             selected a label of its own, and select by that"
        );
        return Err(bad(field, message));
    }
    Ok(())
}

/// The label selector at `field` of an object that is no pod. One that does not parse is none, and selects nothing, as upstream.
pub(super) fn of_object(
    decoder: &mut Decoder,
    slim: Option<&SlimLabelSelector<'_>>,
    field: &str,
) -> Result<Option<LabelSelector>, FieldError> {
    check_size(field, values_of_selector(slim))?;
    Ok(slim.and_then(|slim| label_selector(decoder, slim).ok()))
}

/// A label selector, or the part of it that upstream could not parse.
///
/// After `LabelSelectorAsSelector` in `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go`.
pub(super) fn label_selector(decoder: &mut Decoder, slim: &SlimLabelSelector<'_>) -> Result<LabelSelector, String> {
    let mut requirements = Vec::with_capacity(slim.match_labels.len() + slim.match_expressions.len());
    for (key, value) in slim.match_labels.iter() {
        if !is_label_key(key) || !is_label_value(value) {
            return Err(format!("{}={}", &**key, &**value));
        }
        requirements.push(Requirement::equals(decoder.text(key), decoder.text(value)));
    }
    for expression in &slim.match_expressions {
        requirements.push(requirement(decoder, expression)?);
    }
    Ok(LabelSelector { requirements })
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
    let mut values = decoder.texts(&expression.values);
    values.sort();
    Ok(Requirement { key: decoder.text(&expression.key), operator, values })
}

/// Whether `key` may be a label's key: an optional DNS subdomain and a slash, then a name of up to 63 characters.
fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

fn is_subdomain(text: &str) -> bool {
    let part = |part: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

/// Whether `value` may be a label's value.
fn is_label_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    let ends = |b: Option<&u8>| b.is_none_or(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use crate::decode::Decoder;
    use crate::slim::SlimPod;
    use serde_json::json;

    /// Sorted values are found by binary search, once for each node.
    #[test]
    fn values_of_node_tests_are_sorted() {
        let test = json!({"key": "k", "operator": "In", "values": ["c", "a", "b"]});
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [test]}]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        let pod = json!({"metadata": {"name": "p"}, "spec": {"affinity": affinity}}).to_string();
        let shape = Decoder::small().pod(&SlimPod::read(pod.as_bytes())).expect("a pod").shape;
        let required = shape.row.required_affinity.as_ref().expect("given");
        assert_eq!(required.terms[0].expressions[0].values, ["a".into(), "b".into(), "c".into()]);
        for value in ["a", "b", "c"] {
            assert!(required.matches("n", &[("k", value)].into_iter().collect()), "{value}");
        }
    }

    /// Sorted values are found by binary search, once for each pod.
    #[test]
    fn values_of_label_selectors_are_sorted() {
        let requirement = json!({"key": "k", "operator": "In", "values": ["c", "a", "b"]});
        let constraint = json!({
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchExpressions": [requirement]},
        });
        let spec = json!({"topologySpreadConstraints": [constraint]});
        let pod = json!({"metadata": {"name": "p"}, "spec": spec}).to_string();
        let shape = Decoder::small().pod(&SlimPod::read(pod.as_bytes())).expect("a pod").shape;
        let selector = shape.spread[0].selector.as_ref().expect("given");
        assert_eq!(selector.requirements[0].values, ["a".into(), "b".into(), "c".into()]);
    }
}
