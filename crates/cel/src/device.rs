use berth_quantity::Quantity;
use std::sync::Arc;

/// What a selector can ask of a device.
#[derive(Debug, Clone, Copy)]
pub struct Device<'a> {
    /// The driver that published it: the domain of names without one.
    pub driver: &'a str,
    pub allow_multiple_allocations: bool,
    /// Sorted by name.
    pub attributes: &'a [(QualifiedName, Attribute)],
    /// Sorted by name; of a shared device the whole capacity.
    pub capacity: &'a [(QualifiedName, Quantity)],
}

/// The name of an attribute or a capacity, `DOMAIN/ID` or `ID`. Thousands of devices have the same names: where they share the texts, a
/// selector that looks at all of them reads few lines of memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QualifiedName {
    /// Empty where the name has none.
    pub domain: Arc<str>,
    pub id: Arc<str>,
}

impl QualifiedName {
    pub fn parse(text: &str) -> Self {
        Self::with(text, &mut |part| part.into())
    }

    /// As [`Self::parse`], with texts that `share` may have had before.
    pub fn with(text: &str, share: &mut dyn FnMut(&str) -> Arc<str>) -> Self {
        let (domain, id) = text.split_once('/').unwrap_or(("", text));
        Self { domain: share(domain), id: share(id) }
    }

    /// The domain, which of a name without one is the driver.
    pub fn domain_at<'a>(&'a self, driver: &'a str) -> &'a str {
        if self.domain.is_empty() { driver } else { &self.domain }
    }
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Attribute {
    Bool(bool),
    Int(i64),
    Text(Arc<str>),
    /// A semantic version, as written.
    Version(Arc<str>),
    /// A value of a kind that we do not know, such as the lists behind `DRAListTypeAttributes`: to look at it is an error.
    Unknown,
}
