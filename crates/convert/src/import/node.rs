//! A document walked field by field, so that every complaint names the field it is about.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// Why a configuration cannot be read: the field, what is wrong with it, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}: {fix}")]
pub struct ImportError {
    /// The field's path within the document, such as `profiles[0].plugins.score.enabled[1].weight`.
    pub field: String,
    pub message: String,
    pub fix: String,
}

impl ImportError {
    pub(super) fn new(field: impl Into<String>, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), fix: fix.into() }
    }
}

/// A value of the document and the path that leads to it.
pub(super) struct Node<'a> {
    value: &'a Value,
    path: String,
}

pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Node<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    /// Empty for the document.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn bad(&self, message: impl Into<String>, fix: impl Into<String>) -> ImportError {
        let path = if self.path.is_empty() { "document" } else { &self.path };
        ImportError::new(path, message, fix)
    }

    /// The fields of a mapping; an error if it has others than `known`.
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

    pub(super) fn any_fields(&self) -> Result<Fields<'a>, ImportError> {
        match self.value {
            Value::Object(map) => Ok(Fields { map, path: self.path.clone() }),
            _ => Err(self.wrong("a mapping")),
        }
    }

    pub(super) fn items(&self) -> Result<Vec<Self>, ImportError> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("a list"))?;
        let item = |(i, value)| Node { value, path: format!("{}[{i}]", self.path) };
        Ok(items.iter().enumerate().map(item).collect())
    }

    pub(super) fn text(&self) -> Result<&'a str, ImportError> {
        self.value.as_str().ok_or_else(|| self.wrong("a text, in quotes if it looks like something else"))
    }

    pub(super) fn texts(&self) -> Result<Vec<String>, ImportError> {
        self.items()?.iter().map(|item| item.text().map(str::to_owned)).collect()
    }

    pub(super) fn long(&self) -> Result<i64, ImportError> {
        self.value.as_i64().ok_or_else(|| self.wrong("a whole number"))
    }

    pub(super) fn int(&self) -> Result<i32, ImportError> {
        i32::try_from(self.long()?).map_err(|_| self.wrong("a whole number of 32 bits"))
    }

    pub(super) fn flag(&self) -> Result<bool, ImportError> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    /// The one of `values` that is written as the text.
    pub(super) fn choice<T: Serialize + Copy>(&self, values: &[T]) -> Result<T, ImportError> {
        let text = self.text()?;
        let names: Vec<Value> = values.iter().map(|value| json!(value)).collect();
        let found = names.iter().position(|name| name == text).map(|at| values[at]);
        found.ok_or_else(|| {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            self.bad(format!("{text:?} is not known"), format!("use one of {}", names.join(", ")))
        })
    }

    /// The row of a table for the name; `kind` is what the table is of.
    pub(super) fn row<'t, T>(&self, table: &'t [(&str, T)], kind: &str) -> Result<&'t T, ImportError> {
        let text = self.text()?;
        let found = table.iter().find(|(name, _)| *name == text);
        found.map(|(_, row)| row).ok_or_else(|| {
            let known: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
            let fix = format!("give it an argument, or use one of {}", known.join(", "));
            self.bad(format!("{text:?} is no {kind}"), fix)
        })
    }

    fn wrong(&self, wanted: &str) -> ImportError {
        let text = self.value.to_string();
        let short = text.char_indices().nth(60).map_or(text.as_str(), |(end, _)| &text[..end]);
        self.bad(format!("{short} is of the wrong type"), format!("write {wanted}"))
    }
}

impl<'a> Fields<'a> {
    /// The field `name`; a field that is null counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<Node<'a>> {
        let value = self.map.get(name).filter(|value| !value.is_null())?;
        Some(Node { value, path: self.at(name) })
    }

    pub(super) fn need(&self, name: &str, fix: &str) -> Result<Node<'a>, ImportError> {
        self.get(name).ok_or_else(|| ImportError::new(self.at(name), "is required and missing", fix))
    }

    /// The text of the field `name`; empty where it is absent.
    pub(super) fn text(&self, name: &str) -> Result<&'a str, ImportError> {
        self.get(name).map_or(Ok(""), |field| field.text())
    }

    /// The field `name`; false where it is absent.
    pub(super) fn flag(&self, name: &str) -> Result<bool, ImportError> {
        self.get(name).map_or(Ok(false), |field| field.flag())
    }

    pub(super) fn long_or(&self, name: &str, default: i64) -> Result<i64, ImportError> {
        self.get(name).map_or(Ok(default), |field| field.long())
    }

    pub(super) fn int_or(&self, name: &str, default: i32) -> Result<i32, ImportError> {
        self.get(name).map_or(Ok(default), |field| field.int())
    }

    /// The items of the list `name`; none where it is absent.
    pub(super) fn list(&self, name: &str) -> Result<Vec<Node<'a>>, ImportError> {
        self.get(name).map_or_else(|| Ok(Vec::new()), |list| list.items())
    }

    /// The names of the fields that are not null.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.map.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name.as_str())
    }

    pub(super) fn at(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}
