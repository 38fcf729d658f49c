//! A document walked field by field, so that every complaint names the field it is about.

use super::error::ImportError;
use serde_json::{Map, Value};

/// A value of the document and the path that leads to it.
pub(super) struct Node<'a> {
    value: &'a Value,
    path: String,
}

/// The fields of a mapping, all of them known ones.
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Node<'a> {
    /// The document itself.
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    /// The path that leads here; empty for the document.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// An error about this value.
    pub(super) fn bad(&self, message: impl Into<String>, fix: impl Into<String>) -> ImportError {
        let path = if self.path.is_empty() { "document" } else { &self.path };
        ImportError::new(path, message, fix)
    }

    /// The fields of a mapping that has no others than `known`.
    pub(super) fn fields(&self, known: &[&str]) -> Result<Fields<'a>, ImportError> {
        let fields = self.any_fields()?;
        match fields.map.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(fields),
            Some(name) => Err(ImportError::new(
                fields.at(name),
                "unknown field",
                format!("correct its spelling or remove it; known here: {}", known.join(", ")),
            )),
        }
    }

    /// The fields of a mapping that may have any.
    pub(super) fn any_fields(&self) -> Result<Fields<'a>, ImportError> {
        match self.value {
            Value::Object(map) => Ok(Fields { map, path: self.path.clone() }),
            _ => Err(self.wrong("a mapping")),
        }
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Result<Vec<Self>, ImportError> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("a list"))?;
        let item = |(i, value)| Node { value, path: format!("{}[{i}]", self.path) };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// A text.
    pub(super) fn text(&self) -> Result<&'a str, ImportError> {
        self.value.as_str().ok_or_else(|| self.wrong("a text, in quotes if it looks like something else"))
    }

    /// Texts of a list.
    pub(super) fn texts(&self) -> Result<Vec<String>, ImportError> {
        self.items()?.iter().map(|item| item.text().map(str::to_owned)).collect()
    }

    /// A whole number of 64 bits.
    pub(super) fn long(&self) -> Result<i64, ImportError> {
        self.value.as_i64().ok_or_else(|| self.wrong("a whole number"))
    }

    /// A whole number of 32 bits.
    pub(super) fn int(&self) -> Result<i32, ImportError> {
        i32::try_from(self.long()?).map_err(|_| self.wrong("a whole number of 32 bits"))
    }

    /// `true` or `false`.
    pub(super) fn flag(&self) -> Result<bool, ImportError> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    /// One of the named values.
    pub(super) fn choice<T: Copy>(&self, names: &[(&str, T)]) -> Result<T, ImportError> {
        let text = self.text()?;
        let found = names.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            self.bad(format!("{text:?} is not known"), format!("use one of {}", names.join(", ")))
        })
    }

    fn wrong(&self, wanted: &str) -> ImportError {
        let text = self.value.to_string();
        let short = text.char_indices().nth(60).map_or(text.as_str(), |(end, _)| &text[..end]);
        self.bad(format!("{short} is of the wrong type"), format!("write {wanted}"))
    }
}

impl<'a> Fields<'a> {
    /// The field `name`; one that is null is absent.
    pub(super) fn get(&self, name: &str) -> Option<Node<'a>> {
        let value = self.map.get(name).filter(|value| !value.is_null())?;
        Some(Node { value, path: self.at(name) })
    }

    /// The field `name`, which must be there.
    pub(super) fn need(&self, name: &str, fix: &str) -> Result<Node<'a>, ImportError> {
        self.get(name).ok_or_else(|| ImportError::new(self.at(name), "is required and missing", fix))
    }

    /// The items of the list `name`; none where it is absent.
    pub(super) fn list(&self, name: &str) -> Result<Vec<Node<'a>>, ImportError> {
        self.get(name).map_or_else(|| Ok(Vec::new()), |list| list.items())
    }

    /// The names of the fields that are there.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.map.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name.as_str())
    }

    /// The path of the field `name`.
    pub(super) fn at(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}
