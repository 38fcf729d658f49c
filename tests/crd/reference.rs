//! `docs/reference.md`, made from the definition's schema: a section for each object, with a table of its fields and what is
//! checked besides.
//!
//! `BERTH_BLESS=1 cargo test --workspace --test crd reference` writes the page.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};

use super::{own, repository};

/// What a schema says of the values inside of a list or a map, and the mark that their paths get.
const INSIDE: [(&str, &str); 2] = [("items", "[]"), ("additionalProperties", "{}")];

/// The two ends of each kind of range, and what is counted.
const RANGES: [(&str, &str, &str); 4] = [
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " entries"),
    ("minProperties", "maxProperties", " entries"),
];

const HEAD: &str = "\
# Reference of the API

Written from the schema of the custom resource definition; a change by hand does not last. [The profile in one page](profile.md) explains the fields with examples, [conditions](conditions.md) what a
profile says of itself, and [what the API promises](api-policy.md) how fields change. `kubectl explain sprof.spec --recursive` prints the same from a cluster.

The tables have the fields in the order of their names. A field that is not marked as required may be absent; one that is nullable may also be `null`, which means the same. Below a table is what the API
server checks besides, with the rule (CEL) that says so.
";

/// An object of the schema. Its path is as in `spec.extenders[]`, and empty for the whole.
struct Object<'s> {
    path: String,
    parent: Option<String>,
    schema: &'s Value,
}

/// The objects in `schema`, itself first, those of its fields in the order of their names.
fn objects<'s>(path: &str, parent: Option<&str>, schema: &'s Value, found: &mut Vec<Object<'s>>) {
    let mut parent = parent;
    if let Some(fields) = schema["properties"].as_object() {
        found.push(Object { path: path.to_owned(), parent: parent.map(str::to_owned), schema });
        parent = Some(path);
        for (name, field) in fields {
            let dot = if path.is_empty() { "" } else { "." };
            objects(&format!("{path}{dot}{name}"), parent, field, found);
        }
    }
    for (key, mark) in INSIDE {
        if schema[key].is_object() {
            objects(&format!("{path}{mark}"), parent, &schema[key], found);
        }
    }
}

fn heading(path: &str) -> &str {
    if path.is_empty() { "SchedulerProfile" } else { path }
}

/// The anchor that a page's reader makes of a path's heading.
fn anchor(path: &str) -> String {
    heading(path).to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect()
}

fn code(text: &str) -> String {
    assert!(!text.contains('`'), "a mark of code in code: {text}");
    format!("`{text}`")
}

/// On one line.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// On one line, with nothing in it that would end a cell of a table.
fn cell(text: &str) -> String {
    line(text).replace('|', "\\|")
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn type_of(path: &str, schema: &Value) -> String {
    if schema["properties"].is_object() {
        return format!("[object](#{})", anchor(path));
    }
    let inside = |(key, mark): (&str, &str)| type_of(&format!("{path}{mark}"), &schema[key]);
    match schema["type"].as_str() {
        Some("array") => {
            let each = inside(INSIDE[0]);
            match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => format!("set of {each}"),
                Some("map") => {
                    let keys: Vec<String> =
                        strings(&schema["x-kubernetes-list-map-keys"]).into_iter().map(code).collect();
                    format!("list of {each}, one for each {}", keys.join(", "))
                }
                _ => format!("list of {each}"),
            }
        }
        Some("object") => format!("map of {}", inside(INSIDE[1])),
        Some("string") => schema["format"].as_str().unwrap_or("string").to_owned(),
        Some(plain @ ("integer" | "number" | "boolean")) => plain.to_owned(),
        other => panic!("{path}: a type that no rule here speaks of: {other:?}"),
    }
}

/// A bound; the definition writes those of integers as `1.0`.
fn bound(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().map(|number| number as i64))
}

fn range(least: &Value, most: &Value, of: &str) -> Option<String> {
    match (bound(least), bound(most)) {
        (Some(least), Some(most)) => Some(format!("{least} to {most}{of}")),
        (Some(least), None) => Some(format!("at least {least}{of}")),
        (None, Some(most)) => Some(format!("at most {most}{of}")),
        (None, None) => None,
    }
}

/// Which values a field takes: the list of them, their range, and its default.
fn values_of(schema: &Value) -> String {
    let mut said = Vec::new();
    let listed = strings(&schema["enum"]);
    if !listed.is_empty() {
        said.push(listed.into_iter().map(code).collect::<Vec<_>>().join(", "));
    }
    said.extend(RANGES.iter().filter_map(|(least, most, of)| range(&schema[least], &schema[most], of)));
    let inside = INSIDE.iter().filter(|(key, _)| schema[key].is_object()).map(|(key, _)| values_of(&schema[key]));
    said.extend(inside.filter(|each| !each.is_empty()).map(|each| format!("each {each}")));
    match &schema["default"] {
        Value::Null | Value::Array(_) | Value::Object(_) => {}
        default => said.push(format!("default {}", code(&default.to_string()))),
    }
    said.join("; ")
}

fn rules(schema: &Value, notes: &mut Vec<String>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let (message, rule) = (rule["message"].as_str().unwrap(), rule["rule"].as_str().unwrap());
        notes.push(format!("- {}\n  {}", line(message), code(&line(rule))));
    }
}

/// The forms of a field's values, the rules of it and of what is inside of it, as far as that has no section of its own.
fn notes_of(name: &str, schema: &Value, notes: &mut Vec<String>) {
    if let Some(pattern) = schema["pattern"].as_str() {
        notes.push(format!("- {} matches {}", code(name), code(pattern)));
    }
    if schema["default"].is_array() || schema["default"].is_object() {
        notes.push(format!("- {} is by default {}", code(name), code(&schema["default"].to_string())));
    }
    if schema["properties"].is_object() {
        return;
    }
    rules(schema, notes);
    for (key, mark) in INSIDE {
        if schema[key].is_object() {
            notes_of(&format!("{name}{mark}"), &schema[key], notes);
        }
    }
}

fn row(object: &Object<'_>, name: &str, field: &Value) -> String {
    let dot = if object.path.is_empty() { "" } else { "." };
    let mut kind = type_of(&format!("{}{dot}{name}", object.path), field);
    if strings(&object.schema["required"]).contains(&name) {
        kind += ", **required**";
    }
    if field["nullable"] == json!(true) {
        kind += ", nullable";
    }
    let text = field["description"].as_str().unwrap_or_default();
    format!("| {} | {kind} | {} | {} |\n", code(name), cell(&values_of(field)), cell(text))
}

fn section(object: &Object<'_>) -> String {
    let level = if object.path.contains('.') { "###" } else { "##" };
    let mut text = format!("\n{level} {}\n\n", code(heading(&object.path)));
    let part = |parent: &String| format!(" Part of [{}](#{}).", code(heading(parent)), anchor(parent));
    let about = object.schema["description"].as_str().unwrap_or_default().to_owned();
    let about = about + &object.parent.as_ref().map(part).unwrap_or_default();
    writeln!(text, "{}\n\n| field | type | values | what |\n|---|---|---|---|", line(&about)).unwrap();
    let mut notes = Vec::new();
    for (name, field) in object.schema["properties"].as_object().unwrap() {
        text += &row(object, name, field);
        notes_of(name, field, &mut notes);
    }
    rules(object.schema, &mut notes);
    if !notes.is_empty() {
        writeln!(text, "\n{}", notes.join("\n")).unwrap();
    }
    text
}

/// How the kind is named, and what `kubectl get` shows of it.
fn kind(definition: &Value, version: &Value) -> String {
    let names = &definition["names"];
    let (group, version_name) = (definition["group"].as_str().unwrap(), version["name"].as_str().unwrap());
    let coded = |list: Vec<&str>| list.into_iter().map(code).collect::<Vec<_>>().join(", ");
    let selectable = version["selectableFields"].as_array().into_iter().flatten();
    let mut text = format!(
        "\n`apiVersion: {group}/{version_name}`, `kind: {}`; resource {}, short {}; categories {}; scope {}; field selectors {}.\n",
        names["kind"].as_str().unwrap(),
        code(names["plural"].as_str().unwrap()),
        coded(strings(&names["shortNames"])),
        coded(strings(&names["categories"])),
        definition["scope"].as_str().unwrap(),
        coded(
            selectable
                .filter_map(|field| field["jsonPath"].as_str())
                .map(|path| path.trim_start_matches('.'))
                .collect()
        ),
    );
    text += "\n## What `kubectl get` shows\n\n| column | from | what |\n|---|---|---|\n";
    for column in version["additionalPrinterColumns"].as_array().unwrap() {
        let name = column["name"].as_str().unwrap();
        let wide = if column["priority"].as_i64().unwrap_or_default() > 0 { ", with `-o wide`" } else { "" };
        let from = code(column["jsonPath"].as_str().unwrap());
        writeln!(text, "| {name}{wide} | {from} | {} |", cell(column["description"].as_str().unwrap_or_default()))
            .unwrap();
    }
    text
}

fn page(crd: &Value) -> String {
    let version = &crd["spec"]["versions"][0];
    let mut found = Vec::new();
    objects("", None, &version["schema"]["openAPIV3Schema"], &mut found);
    let sections: String = found.iter().map(section).collect();
    format!("{HEAD}{}{sections}", kind(&crd["spec"], version))
}

#[test]
fn the_reference_page_is_what_the_definition_says() {
    let file = repository().join("docs/reference.md");
    let wanted = page(&own());
    if std::env::var_os("BERTH_BLESS").is_some() {
        fs::write(&file, &wanted).unwrap();
        return;
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(written == wanted, "docs/reference.md is out of date: renew it with BERTH_BLESS=1");
}

#[test]
fn each_object_of_the_reference_has_an_anchor_of_its_own() {
    let crd = own();
    let mut found = Vec::new();
    objects("", None, &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut found);
    let anchors: BTreeSet<String> = found.iter().map(|object| anchor(&object.path)).collect();
    assert!(found.len() > 50, "{} objects; is the schema made in another way now?", found.len());
    assert_eq!(anchors.len(), found.len(), "two headings with one anchor: links go to the first");
}

#[test]
fn a_section_says_types_bounds_and_rules() {
    let schema = json!({
        "description": "What\n it is.",
        "required": ["name"],
        "properties": {
            "list": {"type": "array", "maxItems": 4, "items": {"type": "string", "pattern": "^a|b$", "minLength": 2.0}},
            "mode": {"type": "string", "enum": ["A", "B"], "default": "A", "nullable": true, "description": "A | B."},
            "name": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1.0, "maximum": 9.0}}}
        },
        "x-kubernetes-validations": [{"message": "name: no", "rule": "a ||\n b"}]
    });
    let mut found = Vec::new();
    objects("spec.x[]", Some("spec"), &schema, &mut found);
    let wanted = "
### `spec.x[]`

What it is. Part of [`spec`](#spec).

| field | type | values | what |
|---|---|---|---|
| `list` | list of string | at most 4 entries; each at least 2 characters |  |
| `mode` | string, nullable | `A`, `B`; default `\"A\"` | A \\| B. |
| `name` | [object](#specxname), **required** |  |  |

- `list[]` matches `^a|b$`
- name: no
  `a || b`

### `spec.x[].name`

Part of [`spec.x[]`](#specx).

| field | type | values | what |
|---|---|---|---|
| `n` | integer | 1 to 9 |  |
";
    assert_eq!(found.iter().map(section).collect::<String>(), wanted);
}
