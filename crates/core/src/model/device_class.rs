use super::Str;

/// A DeviceClass, as far as it gives devices the name of an extended resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceClass {
    /// Its name.
    pub name: Str,
    /// `spec.extendedResourceName`: the extended resource that its devices stand for.
    pub extended_resource: Option<Str>,
}
