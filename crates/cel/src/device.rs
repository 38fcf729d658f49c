use berth_quantity::Quantity;

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

/// The name of an attribute or a capacity, `DOMAIN/ID` or `ID`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QualifiedName {
    /// Empty where the name has none.
    pub domain: Box<str>,
    pub id: Box<str>,
}

impl QualifiedName {
    pub fn parse(text: &str) -> Self {
        let (domain, id) = text.split_once('/').unwrap_or(("", text));
        Self { domain: domain.into(), id: id.into() }
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
    Text(Box<str>),
    /// A semantic version, as written.
    Version(Box<str>),
    /// A value of a kind that we do not know, such as the lists behind `DRAListTypeAttributes`: to look at it is an error.
    Unknown,
}
