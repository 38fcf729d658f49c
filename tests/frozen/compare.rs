//! What of a newer definition breaks who uses an older one.

use serde_json::Value;

use crate::promises::{Breach, Promise};

/// Bounds that a newer schema may only raise.
const UPPER: [&str; 4] = ["maximum", "maxLength", "maxItems", "maxProperties"];

/// Bounds that a newer schema may only lower.
const LOWER: [&str; 4] = ["minimum", "minLength", "minItems", "minProperties"];

/// Keywords that say how two writers' values become one.
const MERGING: [&str; 3] = ["x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"];

/// Texts for people.
const TEXTS: [&str; 4] = ["description", "title", "example", "externalDocs"];

/// Keywords that have a rule of their own below.
const COMPARED: [&str; 9] = [
    "properties",
    "required",
    "items",
    "additionalProperties",
    "enum",
    "pattern",
    "nullable",
    "default",
    "x-kubernetes-validations",
];

/// What of `present` breaks users of `frozen`; both are custom resource definitions as JSON.
pub(crate) fn breaches(frozen: &Value, present: &Value) -> Vec<Breach> {
    let mut found = Found::default();
    for field in ["group", "scope"] {
        found.same_address(&format!("spec.{field}"), &frozen["spec"][field], &present["spec"][field]);
    }
    let names = [frozen, present].map(|definition| &definition["spec"]["names"]);
    for field in ["kind", "plural", "singular"] {
        found.same_address(&format!("spec.names.{field}"), &names[0][field], &names[1][field]);
    }
    for field in ["shortNames", "categories"] {
        for gone in missing(&names[0][field], &names[1][field]) {
            found.note(Promise::Address, &format!("spec.names.{field}"), format!("{gone} is gone"));
        }
    }
    for version in list(&frozen["spec"]["versions"]) {
        let same = |other: &&Value| other["name"] == version["name"] && other["served"] == true;
        let Some(now) = list(&present["spec"]["versions"]).iter().find(same) else {
            found.note(Promise::Address, "spec.versions", format!("{} is not served any more", version["name"]));
            continue;
        };
        for (part, _) in fields(&version["subresources"]).filter(|(part, _)| now["subresources"][*part].is_null()) {
            found.note(Promise::Address, "spec.versions[].subresources", format!("{part} is gone"));
        }
        let schemas = [version, now].map(|version| &version["schema"]["openAPIV3Schema"]);
        found.schema("", schemas[0], schemas[1]);
    }
    found.0
}

#[derive(Default)]
struct Found(Vec<Breach>);

impl Found {
    fn note(&mut self, promise: Promise, path: &str, what: String) {
        self.0.push(Breach { promise, path: path.to_owned(), what });
    }

    fn same_address(&mut self, path: &str, old: &Value, new: &Value) {
        if old != new {
            self.note(Promise::Address, path, changed(old, new));
        }
    }

    /// Compares the schemas of one value, and of all that it holds.
    fn schema(&mut self, path: &str, old: &Value, new: &Value) {
        self.properties(path, old, new);
        self.values(path, old, new);
        self.bounds(path, old, new);
        self.keywords(path, old, new);
        for (keyword, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
            let (old, new) = (&old[keyword], &new[keyword]);
            if old.is_object() && new.is_object() {
                self.schema(&format!("{path}{suffix}"), old, new);
            } else if old != new {
                self.note(Promise::Values, path, format!("{keyword}: {}", changed(old, new)));
            }
        }
    }

    fn properties(&mut self, path: &str, old: &Value, new: &Value) {
        for (name, old) in fields(&old["properties"]) {
            let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match new["properties"].get(name) {
                Some(new) => self.schema(&below, old, new),
                None => self.note(Promise::Fields, &below, "is gone".to_owned()),
            }
        }
        for name in missing(&new["required"], &old["required"]) {
            self.note(Promise::Optional, path, format!("{name} must be given now"));
        }
    }

    /// Which values are taken, apart from bounds.
    fn values(&mut self, path: &str, old: &Value, new: &Value) {
        if old["enum"].is_null() && !new["enum"].is_null() {
            self.note(Promise::Values, path, format!("takes only {} now", new["enum"]));
        } else if !new["enum"].is_null() {
            for gone in missing(&old["enum"], &new["enum"]) {
                self.note(Promise::Values, path, format!("does not take {gone} any more"));
            }
        }
        if !new["pattern"].is_null() && old["pattern"] != new["pattern"] {
            self.note(Promise::Values, path, format!("pattern: {}", changed(&old["pattern"], &new["pattern"])));
        }
        if old["nullable"] == true && new["nullable"] != true {
            self.note(Promise::Values, path, "does not take null any more".to_owned());
        }
        let rules = |schema: &Value| -> Vec<Value> {
            list(&schema["x-kubernetes-validations"]).iter().map(|one| one["rule"].clone()).collect()
        };
        let before = rules(old);
        for rule in rules(new).iter().filter(|rule| !before.contains(rule)) {
            self.note(Promise::Values, path, format!("is checked by a new rule: {rule}"));
        }
        if old["default"] != new["default"] {
            self.note(Promise::Defaults, path, format!("default: {}", changed(&old["default"], &new["default"])));
        }
    }

    fn bounds(&mut self, path: &str, old: &Value, new: &Value) {
        let bounds = UPPER.map(|keyword| (keyword, 1.0)).into_iter().chain(LOWER.map(|keyword| (keyword, -1.0)));
        for (keyword, sign) in bounds {
            let [before, now] = [old, new].map(|schema| schema[keyword].as_f64().map(|bound| bound * sign));
            if now.is_some_and(|now| before.is_none_or(|before| now < before)) {
                self.note(Promise::Values, path, format!("{keyword}: {}", changed(&old[keyword], &new[keyword])));
            }
        }
    }

    /// Keywords of which any change breaks something, those that nobody here knows included.
    fn keywords(&mut self, path: &str, old: &Value, new: &Value) {
        let mut keywords: Vec<&String> = fields(old).chain(fields(new)).map(|(keyword, _)| keyword).collect();
        keywords.sort();
        keywords.dedup();
        for keyword in keywords {
            let known: [&[&str]; 4] = [&COMPARED, &UPPER, &LOWER, &TEXTS];
            if known.iter().any(|known| known.contains(&keyword.as_str())) || old.get(keyword) == new.get(keyword) {
                continue;
            }
            let promise = if MERGING.contains(&keyword.as_str()) { Promise::Merging } else { Promise::Values };
            self.note(promise, path, format!("{keyword}: {}", changed(&old[keyword], &new[keyword])));
        }
    }
}

fn changed(old: &Value, new: &Value) -> String {
    let shown = |value: &Value| if value.is_null() { "absent".to_owned() } else { value.to_string() };
    format!("was {}, and is {}", shown(old), shown(new))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// What the list `all` has and the list `others` has not.
fn missing<'a>(all: &'a Value, others: &'a Value) -> impl Iterator<Item = &'a Value> {
    list(all).iter().filter(move |one| !list(others).contains(one))
}
