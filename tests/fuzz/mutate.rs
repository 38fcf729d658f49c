//! Valid documents made invalid, here and there.

use crate::choices::Choices;
use serde_json::{Value, json};

/// Changes one to four places of `document`.
pub(crate) fn mutate(choices: &mut Choices<'_>, document: &mut Value) {
    for _ in 0..=choices.below(4) {
        change(choices, document);
    }
}

fn change(choices: &mut Choices<'_>, document: &mut Value) {
    let mut place = document;
    loop {
        let children = match &*place {
            Value::Object(map) => map.len(),
            Value::Array(list) => list.len(),
            _ => 0,
        };
        if children == 0 || choices.one_in(8) {
            break;
        }
        let at = choices.below(children);
        let remove = choices.one_in(20);
        match place {
            Value::Object(map) => {
                let key = map.keys().nth(at).cloned().unwrap();
                if remove {
                    map.remove(&key);
                    return;
                }
                place = map.get_mut(&key).unwrap();
            }
            Value::Array(list) if remove => {
                list.remove(at);
                return;
            }
            Value::Array(list) => place = &mut list[at],
            _ => return,
        }
    }
    let drawn = value(choices);
    match place {
        Value::Object(map) if choices.one_in(2) => drop(map.insert(text(choices), drawn)),
        Value::Array(list) if choices.one_in(2) => list.push(drawn),
        place => *place = drawn,
    }
}

fn value(choices: &mut Choices<'_>) -> Value {
    match choices.below(16) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(0),
        3 => json!(-1),
        4 => json!(i64::MIN),
        5 => json!(u64::MAX),
        6 => json!(1e308),
        7 => json!(0.5),
        8 => json!([]),
        9 => json!({}),
        10 => (0..150).fold(Value::Null, |inner, _| json!([inner])),
        11 => json!({"a": {"b": [1, "c"]}}),
        _ => Value::from(text(choices)),
    }
}

fn text(choices: &mut Choices<'_>) -> String {
    let short = [
        "",
        "a",
        "a/b",
        "1",
        "-1",
        "1Gi",
        "1e9999",
        "0",
        "In",
        "Gt",
        "Exists",
        "Always",
        "DoNotSchedule",
        "zone",
        "kubernetes.io/hostname",
        "2026-01-31T12:00:00Z",
        "2026-13-99",
        "\u{0}",
        "Ä",
        "\u{1f300}",
        "a b",
        "{}",
        "metadata.name",
        "9223372036854775808",
    ];
    match choices.below(12) {
        0 => "x".repeat(300),
        1 => String::from_utf8_lossy(choices.rest()).chars().take(20).collect(),
        _ => choices.pick(&short).to_owned(),
    }
}
