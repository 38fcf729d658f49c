use super::Text;
use serde::Deserialize;

/// What is read of a DeviceClass's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceClassSpec<'a> {
    /// The extended resource that its devices stand for.
    #[serde(borrow)]
    pub extended_resource_name: Text<'a>,
}
