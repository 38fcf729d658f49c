//! Objects of `resource.k8s.io/v1`, and the claims of pods.
//!
//! ```text
//!  pod         which claims a pod names, and its extended resources
//!  claim       ResourceClaims: what they want
//!  allocation  what a ResourceClaim has got, and what drivers say of it
//!  slice       ResourceSlices
//!  device      the devices in them
//!  class       DeviceClasses
//! ```

mod allocation;
mod claim;
mod class;
mod device;
mod pod;
mod slice;
#[cfg(test)]
mod tests;

pub(super) use pod::{extended_requests, pod_claims};

use super::{Decoder, bad};
use crate::slim::{
    Amount, DeviceConfiguration, DeviceSelector, DeviceToleration as SlimToleration, Expression, FieldError,
    NodeSelector as SlimNodeSelector, Pairs,
};
use berth_cel::QualifiedName;
use berth_core::model::{Quantity, Str};
use berth_devices::model::{DeviceToleration, Selector, TolerationOperator, sorted_by_name};
use berth_devices::node_selector::{NodeSelector, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm};

/// An error in a part of what is at `parent`.
fn under(parent: &str, error: FieldError) -> FieldError {
    FieldError { field: format!("{parent}.{}", error.field), ..error }
}

/// Reads each element of the list called `field`.
fn each<S, T>(
    list: &[S],
    field: &str,
    mut read: impl FnMut(&S) -> Result<T, FieldError>,
) -> Result<Vec<T>, FieldError> {
    let parts = list.iter().enumerate();
    gather(parts.map(|(index, part)| read(part).map_err(|error| under(&format!("{field}[{index}]"), error))))
}

/// Reads each value of the map called `field`, in its order.
fn each_value<S, T>(
    map: &Pairs<'_, S>,
    field: &str,
    mut read: impl FnMut(&str, &S) -> Result<T, FieldError>,
) -> Result<Vec<T>, FieldError> {
    let values = map.iter();
    gather(values.map(|(key, value)| read(key, value).map_err(|error| under(&format!("{field}[{}]", &**key), error))))
}

/// Collecting results makes room for four: most lists have one large element, and all of them stay.
fn gather<T>(parts: impl ExactSizeIterator<Item = Result<T, FieldError>>) -> Result<Vec<T>, FieldError> {
    let mut all = Vec::with_capacity(parts.len());
    for part in parts {
        all.push(part?);
    }
    Ok(all)
}

fn quantity(amount: &Amount, field: &str) -> Result<Quantity, FieldError> {
    amount.0.clone().map_err(|error| bad(field, error.to_string()))
}

fn some_quantity(amount: Option<&Amount>, field: &str) -> Result<Option<Quantity>, FieldError> {
    amount.map(|amount| quantity(amount, field)).transpose()
}

/// The entry without its requests and source, as JSON.
fn configuration(entry: &DeviceConfiguration<'_>) -> Result<Str, FieldError> {
    let Some(opaque) = &entry.opaque else { return Ok("{}".into()) };
    let Some(parameters) = opaque.parameters.compact() else {
        return Err(bad("opaque.parameters", "is no JSON: write what the driver takes as a JSON object"));
    };
    let driver = serde_json::Value::from(&*opaque.driver);
    Ok(format!(r#"{{"opaque":{{"driver":{driver},"parameters":{parameters}}}}}"#).into())
}

impl Decoder {
    fn qualified_name(&mut self, name: &str) -> QualifiedName {
        QualifiedName::with(name, &mut |part| self.text(part))
    }

    /// The amounts of the map called `field`, sorted by name.
    fn amounts(&mut self, map: &Pairs<'_, Amount>, field: &str) -> Result<Vec<(QualifiedName, Quantity)>, FieldError> {
        let read = map.iter().map(|(name, amount)| match &amount.0 {
            Ok(amount) => Ok((self.qualified_name(name), *amount)),
            Err(error) => Err(bad(format!("{field}[{}]", &**name), error.to_string())),
        });
        read.collect::<Result<Vec<_>, _>>().map(sorted_by_name)
    }

    fn device_selectors(&mut self, list: &[DeviceSelector<'_>]) -> Vec<Selector> {
        let expressions = list.iter().map(|selector| selector.cel.as_ref().map(|cel| self.text(&cel.expression)));
        expressions.map(|cel| Selector { cel }).collect()
    }

    fn device_tolerations(&mut self, list: &[SlimToleration<'_>]) -> Vec<DeviceToleration> {
        let read = list.iter().map(|slim| DeviceToleration {
            key: self.text(&slim.key),
            operator: match &*slim.operator {
                "" | "Equal" => TolerationOperator::Equal,
                "Exists" => TolerationOperator::Exists,
                other => TolerationOperator::Other(self.text(other)),
            },
            value: self.text(&slim.value),
            effect: self.text(&slim.effect),
            toleration_seconds: slim.toleration_seconds,
        });
        read.collect()
    }

    fn device_node_selector(&mut self, slim: &SlimNodeSelector<'_>) -> NodeSelector {
        let terms = slim.node_selector_terms.iter().map(|term| NodeSelectorTerm {
            match_expressions: self.node_requirements(&term.match_expressions),
            match_fields: self.node_requirements(&term.match_fields),
        });
        NodeSelector::new(terms.collect())
    }

    fn node_requirements(&mut self, list: &[Expression<'_>]) -> Vec<NodeSelectorRequirement> {
        let read = list.iter().map(|slim| NodeSelectorRequirement {
            key: self.text(&slim.key),
            operator: match &*slim.operator {
                "In" => NodeSelectorOperator::In,
                "NotIn" => NodeSelectorOperator::NotIn,
                "Exists" => NodeSelectorOperator::Exists,
                "DoesNotExist" => NodeSelectorOperator::DoesNotExist,
                "Gt" => NodeSelectorOperator::Gt,
                "Lt" => NodeSelectorOperator::Lt,
                other => NodeSelectorOperator::Other(self.text(other)),
            },
            values: self.texts(&slim.values),
        });
        read.collect()
    }
}
