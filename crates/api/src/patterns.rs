//! Patterns, schemas and rules that several fields share.

use kube::core::Rule;
use schemars::{Schema, SchemaGenerator, json_schema};

pub(crate) const LABEL_KEY: &str = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
pub(crate) const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
pub(crate) const EXTENDED_RESOURCE: &str =
    r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
pub(crate) const DNS_LABEL: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
pub(crate) const DNS_NAME: &str = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";

/// A scheduler name.
pub(crate) const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// A key of a ConfigMap or Secret.
pub(crate) const DATA_KEY: &str = r"^[-._a-zA-Z0-9]+$";

/// What an extender serves a verb under, below its own path.
pub(crate) const VERB_PATH: &str = r"^[^?#\s]+$";

/// Schema of a map of at most 32 labels with valid values; keys need a rule, since schemas cannot bound them.
pub(crate) fn label_map(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": {
            "type": "string",
            "maxLength": 63,
            "pattern": LABEL_VALUE,
        },
    })
}

pub(crate) fn in_needs_values() -> Rule {
    Rule::new("!(self.operator in ['In', 'NotIn']) || (has(self.values) && self.values.size() > 0)")
        .message("values: operators In and NotIn need at least one value")
        .field_path(".values")
}

pub(crate) fn exists_takes_no_values() -> Rule {
    Rule::new("!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || self.values.size() == 0")
        .message("values: operators Exists and DoesNotExist take no values: remove them, or use In or NotIn")
        .field_path(".values")
}

/// For the keys of a [`label_map`], which a schema cannot bound.
pub(crate) fn label_keys(example: &str) -> Rule {
    Rule::new(format!("self.all(k, k.size() <= 317 && k.matches('{LABEL_KEY}'))"))
        .message(&*format!("matchLabels: a key is not a valid label key: write [prefix/]name, such as {example}"))
}

/// For a duration with bounds. One that is left out is within them.
pub(crate) fn between(field: &str, min: &str, max: &str, example: &str) -> Rule {
    let bounds = format!("duration(self.{field}) >= duration('{min}') && duration(self.{field}) <= duration('{max}')");
    Rule::new(format!("!has(self.{field}) || ({bounds})"))
        .message(&*format!("{field}: must be between {min} and {max}, such as {example}"))
        .field_path(format!(".{field}"))
}
