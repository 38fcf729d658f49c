//! YAML as people write it: blocks, short parts on one line, and comments above the part that they are about.

use crate::cli::output::plain;
use berth_api::Duration;
use berth_cluster::send::is_obeyed;
use serde_json::{Map, Value};

/// The longest line for a part that is put on one line.
const WIDTH: usize = 100;

/// Keys in the order in which people write them; others follow by name. Identity comes first, then the settings of a profile
/// or configuration.
const ORDER: &str = "
    apiVersion kind metadata type name key topologyKey schedulerName schedulerNames mode allowUnsafe
    unknownFields preset filters scores percentageOfNodesToScore podInitialBackoffSeconds podMaxBackoffSeconds
    profiles plugins pluginConfig pluginArgs nodes namespaces queue preemption extenders endpoint urlPrefix path
    verbs
";

/// The fields of a mapping in the order in which they are written.
fn ordered(map: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let rank = |key: &str| ORDER.split_whitespace().position(|known| known == key).unwrap_or(usize::MAX);
    let mut fields: Vec<_> = map.iter().collect();
    fields.sort_by_key(|(key, _)| rank(key));
    fields.into_iter()
}

/// A document with comments on its parts.
pub(super) struct Document<'a> {
    /// Comments above the document, a line each.
    pub(super) header: Vec<String>,
    pub(super) value: &'a Value,
    /// Paths such as `spec.scores[1]`, each with the comment to write above it.
    pub(super) comments: &'a [(String, String)],
}

/// The document as text, with a separator before it.
pub(super) fn write(document: &Document<'_>) -> String {
    let mut writer = Writer { out: "---\n".to_owned(), comments: document.comments };
    for line in &document.header {
        writer.comment(0, line);
    }
    match document.value {
        Value::Object(map) if !map.is_empty() => writer.map(map, "", 0, true),
        other => writer.line(0, &flow(other)),
    }
    writer.out
}

struct Writer<'a> {
    out: String,
    comments: &'a [(String, String)],
}

impl Writer<'_> {
    fn line(&mut self, indent: usize, text: &str) {
        self.out.extend(std::iter::repeat_n(' ', indent));
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// Writes one line of comment. What `text` has of line breaks is escaped: names in it must not become a document.
    fn comment(&mut self, indent: usize, text: &str) {
        self.line(indent, &format!("# {}", plain(text)));
    }

    /// Writes the comments on `path`; with `below`, also those on everything in it. Equal comments are written once.
    fn comments(&mut self, path: &str, below: bool, indent: usize) {
        let inside = |field: &str| field.strip_prefix(path).is_some_and(|rest| rest.starts_with(['.', '[']));
        let mut found: Vec<&str> = Vec::new();
        for (field, text) in self.comments {
            if (field == path || (below && inside(field))) && !found.contains(&text.as_str()) {
                found.push(text);
            }
        }
        for text in found {
            for line in text.lines() {
                self.comment(indent, line);
            }
        }
    }

    fn map(&mut self, map: &Map<String, Value>, path: &str, indent: usize, root: bool) {
        for (key, value) in ordered(map) {
            let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let opened = root && key == "spec" && value.as_object().is_some_and(|map| !map.is_empty());
            let flat = if opened { None } else { on_one_line(value, indent + key.len() + 2) };
            self.comments(&at, flat.is_some(), indent);
            let key = scalar(key);
            match (flat, value) {
                (Some(text), _) => self.line(indent, &format!("{key}: {text}")),
                (None, Value::Array(items)) => {
                    self.line(indent, &format!("{key}:"));
                    self.list(items, &at, indent);
                }
                (None, Value::Object(map)) => {
                    self.line(indent, &format!("{key}:"));
                    self.map(map, &at, indent + 2, false);
                }
                (None, other) => self.line(indent, &format!("{key}: {}", flow(other))),
            }
        }
    }

    fn list(&mut self, items: &[Value], path: &str, indent: usize) {
        for (i, item) in items.iter().enumerate() {
            let at = format!("{path}[{i}]");
            let flat = on_one_line(item, indent + 2);
            self.comments(&at, flat.is_some(), indent);
            match (flat, item) {
                (Some(text), _) => self.line(indent, &format!("- {text}")),
                (None, Value::Object(map)) => {
                    let start = self.out.len();
                    self.map(map, &at, indent + 2, false);
                    self.dash(start, indent);
                }
                (None, Value::Array(inner)) => {
                    let start = self.out.len();
                    self.list(inner, &at, indent + 2);
                    self.dash(start, indent);
                }
                (None, other) => self.line(indent, &format!("- {}", flow(other))),
            }
        }
    }

    /// Puts the dash of a list item before the first line since `start` that is no comment.
    fn dash(&mut self, start: usize, indent: usize) {
        let mut at = start;
        while self.out[at..].trim_start_matches(' ').starts_with('#') {
            at += self.out[at..].find('\n').map_or(0, |end| end + 1);
        }
        self.out.replace_range(at + indent..=at + indent, "-");
    }
}

/// `value` on one line, if it is short and reads well there: no list of mappings, not too deep.
fn on_one_line(value: &Value, indent: usize) -> Option<String> {
    let text = flow(value);
    let short = indent + text.chars().count() <= WIDTH;
    let plain = match value {
        Value::Object(_) | Value::Array(_) => depth(value) <= 2 && !lists_mappings(value) && short,
        _ => true,
    };
    plain.then_some(text)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn lists_mappings(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.values().any(lists_mappings),
        Value::Array(items) => items.iter().any(Value::is_object),
        _ => false,
    }
}

fn flow(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", scalar(key), flow(value))).collect();
            format!("{{{}}}", fields.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// A text as a scalar, in quotes if some YAML reader might take it for another type.
fn scalar(text: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(word);
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"];
    let reserved = reserved.iter().any(|word| text.eq_ignore_ascii_case(word));
    if (plain && !reserved) || text.parse::<Duration>().is_ok() {
        return text.to_owned();
    }
    // JSON leaves some characters as they are that YAML takes for line breaks or does not allow.
    let quoted = Value::from(text).to_string();
    if !quoted.contains(is_obeyed) {
        return quoted;
    }
    let escaped = |c: char| if is_obeyed(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    quoted.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn text(value: &Value, comments: &[(&str, &str)]) -> String {
        let comments: Vec<(String, String)> = comments.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
        write(&Document { header: vec!["from here".into()], value, comments: &comments })
    }

    #[test]
    fn comments_stand_above_their_part() {
        let value = json!({"kind": "P", "spec": {"queue": {"initialBackoff": "2s"},
            "scores": [{"name": "A", "weight": 5}, {"name": "B", "args": [{"x": 1}, {"z": [1]}]}]}});
        let comments = [
            ("spec.scores[0].weight", "of a"),
            ("spec.scores[1].args[0]", "of x"),
            ("spec.scores[1]", "of b"),
            ("spec.nothing", "not said"),
            ("spec.scores", "two\nlines"),
        ];
        let want = "---\n# from here\nkind: P\nspec:\n  # two\n  # lines\n  scores:\n  # of a\n  - {name: A, weight: 5}\n  \
                    # of b\n  - name: B\n    args:\n    # of x\n    - {x: 1}\n    - {z: [1]}\n  \
                    queue: {initialBackoff: 2s}\n";
        assert_eq!(text(&value, &comments), want);
    }

    #[test]
    fn texts_that_could_be_another_type_are_quoted() {
        for (word, want) in [
            ("a-b.c/d", "a-b.c/d"),
            ("1m30s", "1m30s"),
            ("yes", "\"yes\""),
            ("No", "\"No\""),
            ("12", "\"12\""),
            ("1e3", "\"1e3\""),
            ("", "\"\""),
            ("*", "\"*\""),
            ("a: b", "\"a: b\""),
            ("http://x:80/y", "\"http://x:80/y\""),
            ("two\nlines", "\"two\\nlines\""),
            ("a\u{85}b\u{2028}c\u{7f}\u{feff}", r#""a\u0085b\u2028c\u007f\ufeff""#),
        ] {
            assert_eq!(scalar(word), want);
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "\\PC{0,12}|[a-z]{1,4}|[0-9]{1,3}[smh]|[ -~]{0,40}|~|\\.5|0x1|[a-z\n\"'#:-]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map("[a-zA-Z0-9./ -]{1,8}", inner, 0..5)
                    .prop_map(|map| Value::from(map.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    fn read_all(written: &str) -> Vec<Value> {
        let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
        serde_saphyr::from_multiple_with_options(written, options).unwrap_or_else(|e| panic!("{e}: {written}"))
    }

    #[test]
    fn a_header_with_line_breaks_remains_a_comment() {
        let value = json!({"kind": "P"});
        for line_break in ["\n", "\r", "\r\n", "\u{85}", "\u{2028}", "\u{2029}"] {
            let header = vec![["x", "---", "kind: ClusterRoleBinding", "---", "#"].join(line_break)];
            let comments = [("kind".to_owned(), header[0].clone())];
            let written = write(&Document { header, value: &value, comments: &comments });
            assert_eq!(read_all(&written), [json!({"kind": "P"})], "{written}");
            assert!(!written.contains("\nkind: ClusterRoleBinding"), "{written}");
        }
    }

    /// Text with all that YAML might take for a line break, a document or a comment.
    fn hostile() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            Just("\n"),
            Just("\r"),
            Just("\u{85}"),
            Just("\u{2028}"),
            Just("\u{2029}"),
            Just("\u{feff}"),
            Just("\u{0}"),
            Just("\u{1b}"),
            Just("---"),
            Just("..."),
            Just("kind: B"),
            Just("# "),
            Just("- a"),
            Just("\t"),
        ];
        proptest::collection::vec(prop_oneof![part.prop_map(str::to_owned), any::<String>()], 0..8)
            .prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn whatever_comments_say_one_document_is_read_back(
            header in proptest::collection::vec(hostile(), 0..3),
            said in hostile(),
            value in any_value(),
            name in hostile(),
        ) {
            let value = json!({"spec": value, "list": [[{"a": {"b": {"c": 1}}}], []], "name": name});
            let comments: Vec<_> = ["spec", "list[0]", "name"].map(|path| (path.to_owned(), said.clone())).into();
            let written = write(&Document { header, value: &value, comments: &comments });
            prop_assert_eq!(read_all(&written), [value], "{}", written);
        }

        #[test]
        fn what_is_written_reads_back(value in any_value()) {
            let value = json!({"spec": value, "list": [[{"a": {"b": {"c": 1}}}], []]});
            let written = text(&value, &[("spec", "said"), ("list[0]", "said too")]);
            let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
            let read: Value = serde_saphyr::from_str_with_options(&written, options).unwrap();
            prop_assert_eq!(read, value, "{}", written);
        }
    }
}
