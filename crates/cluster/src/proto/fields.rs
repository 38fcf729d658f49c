//! How the published types are on the wire: a table that `tests/upstream/fields` writes from their source.

use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// A type: its fields by their number.
#[derive(Debug)]
pub struct Message {
    fields: Vec<Option<Field>>,
}

impl Message {
    pub fn field(&self, number: u32) -> Option<&Field> {
        self.fields.get(number as usize)?.as_ref()
    }

    /// All of its fields, by number.
    pub fn fields(&self) -> impl Iterator<Item = (u32, &Field)> {
        (0..).zip(&self.fields).filter_map(|(number, field)| Some((number, field.as_ref()?)))
    }
}

#[derive(Debug)]
pub struct Field {
    /// Its name in JSON; empty if the fields of its message are its parent's in JSON.
    pub name: &'static str,
    pub many: Many,
    pub kind: Kind,
    /// Whether JSON leaves it out where it is zero.
    pub left_out: bool,
}

impl Field {
    /// Whether the fields of its message are its parent's in JSON.
    pub const fn is_inline(&self) -> bool {
        self.name.is_empty()
    }
}

/// How many values a field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Many {
    One,
    List,
    /// By a text.
    Map,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Bool,
    Signed,
    /// A message with JSON in its first field.
    Raw,
    Time,
    Quantity,
    IntOrString,
    Message(Type),
}

/// A message in the table. The default is some message, for a name that the table does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Type(u16);

impl Type {
    /// The type with this name, as Go has it.
    pub fn named(name: &str) -> Option<Self> {
        TABLE.by_name.get(name).copied()
    }

    pub fn message(self) -> &'static Message {
        &TABLE.messages[usize::from(self.0)]
    }
}

struct Table {
    messages: Vec<Message>,
    by_name: FxHashMap<&'static str, Type>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("fields.txt")));

impl Table {
    /// Lines that the table's format does not have are left out, as if their fields were not published; a test holds that there are none.
    fn parse(text: &'static str) -> Self {
        let lines = || text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let names = lines().filter(|line| !line.starts_with(' '));
        let by_name: FxHashMap<_, _> = names.zip(0..).map(|(name, at)| (name, Type(at))).collect();
        let mut messages: Vec<Message> = Vec::with_capacity(by_name.len());
        for line in lines() {
            match line.strip_prefix(' ') {
                None => messages.push(Message { fields: Vec::new() }),
                Some(line) => {
                    if let (Some(message), Some((number, field))) = (messages.last_mut(), parse_field(line, &by_name)) {
                        message.fields.resize_with(message.fields.len().max(number + 1), || None);
                        message.fields[number] = Some(field);
                    }
                }
            }
        }
        Self { messages, by_name }
    }
}

/// `NUMBER NAME TYPE`: see the head of the table.
fn parse_field(line: &'static str, types: &FxHashMap<&'static str, Type>) -> Option<(usize, Field)> {
    let (number, rest) = line.split_once(' ')?;
    let (name, kind) = rest.split_once(' ')?;
    let (many, kind) = match (kind.strip_prefix("[]"), kind.strip_prefix("map ")) {
        (Some(kind), _) => (Many::List, kind),
        (_, Some(kind)) => (Many::Map, kind),
        (None, None) => (Many::One, kind),
    };
    let left_out = kind.ends_with('-');
    let kind = match kind.trim_end_matches(['-', '?']) {
        "string" => Kind::Text,
        "bool" => Kind::Bool,
        "int32" | "int64" => Kind::Signed,
        "raw" => Kind::Raw,
        "time" => Kind::Time,
        "quantity" => Kind::Quantity,
        "intorstring" => Kind::IntOrString,
        other => Kind::Message(*types.get(other)?),
    };
    let name = if name == "-" { "" } else { name };
    Some((number.parse().ok()?, Field { name, many, kind, left_out }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_the_table_is_read() {
        let lines = include_str!("fields.txt").lines().filter(|line| line.starts_with(' ')).count();
        let fields = TABLE.messages.iter().flat_map(|message| &message.fields).filter(|field| field.is_some()).count();
        assert!(lines > 1_000, "{lines}");
        assert_eq!(fields, lines);
        assert_eq!(TABLE.by_name.len(), TABLE.messages.len(), "no name twice");
    }

    #[test]
    fn fields_are_found_by_number() {
        let pod = Type::named("Pod").unwrap().message();
        let spec = pod.field(2).unwrap();
        assert_eq!(spec.name, "spec");
        let Kind::Message(spec) = spec.kind else { panic!("{:?}", spec.kind) };
        let field =
            |number| spec.message().field(number).map(|field| (field.name, field.many, field.kind, field.left_out));
        assert_eq!(field(7), Some(("nodeSelector", Many::Map, Kind::Text, false)));
        assert_eq!(field(10), Some(("nodeName", Many::One, Kind::Text, true)));
        assert_eq!(field(25), Some(("priority", Many::One, Kind::Signed, false)));
        assert_eq!((field(0), field(9_999)), (None, None));
        let volume = Type::named("Volume").unwrap().message();
        assert!(volume.field(2).unwrap().is_inline());
        assert_eq!(Type::named("Nothing"), None);
    }
}
