//! What others wrote, made fit for conditions, events, logs and the status. Pure.

use berth_cluster::send::is_obeyed;
use serde_json::Value;
use std::collections::BTreeSet;

/// Characters of a name in a text; no name that an API server checks is longer. (`schedulerName` of a pod is not checked.)
pub(super) const NAME: usize = 253;

/// Characters of a text of the status for which the schema names no limit.
const TEXT: usize = 2_048;

/// At most `most` characters of `text`, control characters escaped and invisible marks of direction too: one line that
/// shows what is there. `…` stands for what was cut.
pub(super) fn printable(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(most));
    // Where the text ends if it must be cut, and how long it is so far.
    let (mut cut_at, mut length) = (0, 0);
    for c in text.chars() {
        let before = shown.len();
        if is_obeyed(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        length += shown[before..].chars().count();
        if length > most {
            shown.truncate(cut_at);
            shown.push('…');
            return shown;
        }
        if length < most {
            cut_at = shown.len();
        }
    }
    shown
}

/// Makes a status fit our own schema, which the API server checks as a whole: one text too long, and nothing of it is written.
/// Texts and lists are cut, and what a list may hold once is there once.
pub(super) fn fit_status(status: &mut Value) {
    let schema = &berth_api::own_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    fit(status, &schema["properties"]["status"]);
}

fn fit(value: &mut Value, schema: &Value) {
    match value {
        Value::String(text) => {
            let most = schema["maxLength"].as_u64().map_or(TEXT, |most| most as usize);
            let shown = printable(text, most);
            if *text != shown {
                *text = shown;
            }
        }
        Value::Array(items) => {
            for item in &mut *items {
                fit(item, &schema["items"]);
            }
            let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let mut seen = BTreeSet::new();
            match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => items.retain(|item| seen.insert(item.to_string())),
                Some("map") => items.retain(|item| {
                    seen.insert(keys.iter().map(|key| item[*key].to_string()).collect::<Vec<_>>().join("/"))
                }),
                _ => {}
            }
            items.truncate(schema["maxItems"].as_u64().map_or(usize::MAX, |most| most as usize));
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                fit(field, schema["properties"].get(name).unwrap_or(&Value::Null));
            }
        }
        _ => {}
    }
}

/// Takes the lists out of a status that are there for people only. Its conditions and numbers stay.
pub(super) fn drop_lists(status: &mut Value) {
    if let Value::Object(fields) = status {
        for list in ["topReasons", "extenders", "unknownFields", "misnamedPods", "effective"] {
            fields.remove(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::{MisnamedPods, SchedulerProfileStatus, TopReason};
    use serde_json::json;

    #[test]
    fn texts_of_others_are_one_line_of_bounded_length() {
        let rows = [
            ("plain-name", 10, "plain-name"),
            ("plain-name", 9, "plain-na…"),
            ("a\nb\u{1b}[2J", 20, "a\\nb\\u{1b}[2J"),
            // An escape is never cut in two.
            ("a\nbc", 3, "a…"),
            ("right\u{202e}left", 30, "right\\u{202e}left"),
            ("ééé", 3, "ééé"),
            ("éééé", 3, "éé…"),
            ("", 0, ""),
        ];
        for (text, most, want) in rows {
            assert_eq!(printable(text, most), want, "{text:?} in {most}");
        }
        let long = printable(&"\u{1b}".repeat(1 << 20), NAME);
        assert!(long.chars().count() <= NAME, "{}", long.len());
    }

    #[test]
    fn a_status_is_cut_to_what_its_schema_takes() {
        let long = "x".repeat(3_000);
        let status = SchedulerProfileStatus {
            misnamed_pods: vec![MisnamedPods { scheduler_name: format!("a\n{long}"), ..MisnamedPods::default() }; 20],
            top_reasons: vec![TopReason { reason: long.clone(), ..TopReason::default() }; 20],
            unknown_fields: vec![format!("{long}1"), format!("{long}2"), "spec.new".to_owned()],
            ..SchedulerProfileStatus::default()
        };
        let mut value = serde_json::to_value(status).unwrap();
        fit_status(&mut value);
        let listed = |name: &str| value[name].as_array().unwrap().clone();
        assert_eq!((listed("misnamedPods").len(), listed("topReasons").len()), (8, 10));
        let name = value["misnamedPods"][0]["schedulerName"].as_str().unwrap();
        assert!(name.starts_with("a\\nxx") && name.chars().count() <= 253, "{}", name.len());
        assert_eq!(value["topReasons"][0]["reason"].as_str().unwrap().chars().count(), TEXT);
        assert_eq!(listed("unknownFields").len(), 2, "two that are equal once cut are one");
    }

    #[test]
    fn of_list_items_with_equal_keys_the_first_stays() {
        let schema = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]});
        let mut list = json!([{"type": "a", "n": 1}, {"type": "b", "n": 2}, {"type": "a", "n": 3}]);
        fit(&mut list, &schema);
        assert_eq!(list, json!([{"type": "a", "n": 1}, {"type": "b", "n": 2}]));
    }

    #[test]
    fn a_status_that_fits_stays_as_it_is() {
        let status = SchedulerProfileStatus { observed_generation: Some(3), ..SchedulerProfileStatus::default() };
        let mut value = serde_json::to_value(status).unwrap();
        let before = value.clone();
        fit_status(&mut value);
        assert_eq!(value, before);
    }
}
