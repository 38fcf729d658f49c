//! Configurations read from values and texts.

use super::{Import, ImportError, configuration, node::Node};
use berth_api::DEFAULT_SCHEDULER_NAME;
use serde_json::Value;

pub(crate) fn read(document: &Value) -> Result<Import, ImportError> {
    configuration::read(&Node::root(document), DEFAULT_SCHEDULER_NAME)
}

/// Reads one document of YAML or JSON.
pub(super) fn read_text(text: &str) -> Result<Import, ImportError> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    let document: Value = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let problem = error.without_snippet().to_string();
        ImportError::new("document", problem.lines().next().unwrap_or_default(), "correct the syntax there")
    })?;
    read(&document)
}
