/// The path of the field that lies at `line` and `column` (both from 1, as `serde_json` counts) of the JSON in `bytes`.
///
/// Looks at brackets and keys only, so it works on JSON that breaks off or is wrong behind that place.
pub(super) fn path_at(bytes: &[u8], line: usize, column: usize) -> String {
    let before: usize = bytes.split_inclusive(|b| *b == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    let end = before.saturating_add(column).min(bytes.len());
    walk(&bytes[..end]).iter().fold(String::new(), |path, level| match level {
        Level::List(index) => format!("{path}[{index}]"),
        Level::Map { key, .. } if key.is_empty() => path,
        Level::Map { key, .. } if path.is_empty() => key.clone(),
        Level::Map { key, .. } => format!("{path}.{key}"),
    })
}

enum Level {
    List(usize),
    Map { key: String, key_next: bool },
}

fn walk(bytes: &[u8]) -> Vec<Level> {
    let mut levels = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            // A bracket at the very end is where an error in the whole value is reported.
            b'{' if at < bytes.len() => levels.push(Level::Map { key: String::new(), key_next: true }),
            b'[' if at < bytes.len() => levels.push(Level::List(0)),
            b'}' | b']' if at < bytes.len() => drop(levels.pop()),
            b',' => match levels.last_mut() {
                Some(Level::List(index)) if at < bytes.len() => *index += 1,
                Some(Level::Map { key_next, .. }) => *key_next = true,
                _ => {}
            },
            b'"' => {
                let start = at;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += 1 + usize::from(bytes[at] == b'\\');
                }
                at = at.min(bytes.len());
                if let Some(Level::Map { key, key_next }) = levels.last_mut()
                    && *key_next
                {
                    *key = String::from_utf8_lossy(&bytes[start..at]).into_owned();
                    *key_next = false;
                }
                at += 1;
            }
            _ => {}
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::path_at;
    use crate::slim::SlimPod;

    #[test]
    fn the_path_of_each_kind_of_error() {
        for (json, path) in [
            (
                r#"{"spec":{"containers":[{"name":"a"},{"name":"b","ports":[{"hostPort":1},{"hostPort":"x"}]}]}}"#,
                "spec.containers[1].ports[1].hostPort",
            ),
            (r#"{"spec":{"containers":{}}}"#, "spec.containers"),
            (r#"{"spec":{"containers":[7,{}]}}"#, "spec.containers[0]"),
            ("{\n \"spec\": {\n  \"nodeName\": [\"\\\"}\"]\n }}", "spec.nodeName"),
            (r#"{"spec":{"priority":true},"metadata":{}}"#, "spec.priority"),
            (r#"{"spec":{"priority":99999999999}}"#, "spec.priority"),
            (r#"{"spec":"none"}"#, "spec"),
        ] {
            let error = SlimPod::read(json.as_bytes()).parts.unwrap_err();
            assert_eq!(error.field, path, "{json}");
        }
    }

    #[test]
    fn any_place_of_any_bytes_has_a_path() {
        for (line, column) in [(0, 0), (1, 0), (1, 99), (9, 9), (usize::MAX, usize::MAX)] {
            for bytes in [&b""[..], b"]]}}", b"\"\\", b"{\"a\\", b"{\"a\":[,,"] {
                let _ = path_at(bytes, line, column);
            }
        }
    }
}
