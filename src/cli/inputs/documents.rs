//! From texts to single objects: documents of a stream and members of `List`s, each with its origin.

use super::error::{InputError, Origin};
use berth_convert::import::{Form, KIND};
use serde_json::Value;
use std::{path::Path, sync::Arc};

/// One object as it was written, with the kind that it has of itself or of its list.
#[derive(Clone)]
pub(super) struct Object {
    pub(super) origin: Origin,
    /// `namespace/name` of the ConfigMap that it stands in, if it does.
    pub(super) holder: Option<String>,
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) value: Value,
}

impl Object {
    /// The form of the object, if it configures kube-scheduler.
    pub(super) fn form(&self) -> Option<Form> {
        Form::of(&self.api_version, &self.kind)
    }

    /// The error for an object that cannot be used.
    pub(super) fn bad(&self, problem: impl Into<String>) -> InputError {
        InputError::Bad { origin: self.origin.clone(), object: self.kind.clone(), problem: problem.into() }
    }

    pub(super) fn is_config_map(&self) -> bool {
        self.api_version == "v1" && self.kind == "ConfigMap"
    }

    /// `namespace/name` as written; `default` where it names no namespace.
    pub(super) fn full_name(&self) -> String {
        let (namespace, name) = names(&self.value);
        format!("{namespace}/{name}")
    }
}

/// Namespace and name of an object as written; `default` where it names no namespace.
pub(super) fn names(object: &Value) -> (&str, &str) {
    let text = |key: &str| object["metadata"][key].as_str().filter(|text| !text.is_empty());
    (text("namespace").unwrap_or("default"), text("name").unwrap_or_default())
}

/// The objects in `text`, which stands in the file called `name`; members of lists one by one.
pub(super) fn split(name: &str, text: &str) -> Result<Vec<Object>, InputError> {
    let mut objects = Vec::new();
    split_loosely(name, text, None, &mut objects)?;
    Ok(objects)
}

/// Adds the objects in `text` to `objects`; documents that do not say what they are have the version and kind `otherwise`.
pub(super) fn split_loosely(
    name: &str,
    text: &str,
    otherwise: Option<(&str, &str)>,
    objects: &mut Vec<Object>,
) -> Result<(), InputError> {
    let file: Arc<str> = name.into();
    for (index, document) in parse(&file, text)?.into_iter().enumerate() {
        let origin = Origin { file: file.clone(), document: index + 1, item: None };
        flatten(origin, document, otherwise, objects)?;
    }
    Ok(())
}

/// The configurations of kube-scheduler in a text that stands in a field of the object at `origin`. A text without any is
/// another program's business; `policy` says that it holds a Policy whatever it says of itself.
pub(super) fn documents_in(origin: &Origin, field: &str, text: &str, policy: bool) -> Result<Vec<Object>, InputError> {
    let surely = policy || text.contains(KIND);
    if !surely && !text.contains("Policy") {
        return Ok(Vec::new());
    }
    let mut objects = Vec::new();
    let read = split_loosely(&format!("{origin}, {field}"), text, policy.then_some(("v1", "Policy")), &mut objects);
    if surely {
        read?;
    }
    objects.retain(|object| object.form().is_some());
    Ok(objects)
}

/// The documents of a text. JSON goes to its own reader, which is several times faster.
fn parse(file: &str, text: &str) -> Result<Vec<Value>, InputError> {
    if text.trim_start().starts_with(['{', '[']) {
        let documents: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        match documents {
            Ok(documents) => return Ok(documents),
            Err(e) if Path::new(file).extension().is_some_and(|e| e == "json") => {
                return Err(InputError::NotJson { file: file.to_owned(), problem: e.to_string() });
            }
            // A flow mapping of YAML starts alike.
            Err(_) => {}
        }
    }
    let mut reader = text.as_bytes();
    let mut documents = Vec::new();
    for document in serde_saphyr::read_with_options(&mut reader, options()) {
        let number = documents.len() + 1;
        documents.push(document.map_err(|e| not_yaml(file, number, &e))?);
    }
    Ok(documents)
}

/// The text is the user's own, so size is no reason to refuse it; what grows in memory by itself (aliases) stays bounded.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: None,
            max_buffered_comment_events: 65_536,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_documents: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_total_comment_bytes: usize::MAX,
        },
        emit_comments: false,
        // YAML 1.2: a node named `n` or a zone `no` is a name, not a truth value.
        strict_booleans: true,
        with_snippet: false,
    }
}

fn not_yaml(file: &str, document: usize, error: &serde_saphyr::Error) -> InputError {
    let problem = error.without_snippet().to_string();
    let problem = problem.lines().next().unwrap_or_default().trim_end_matches('.').to_owned();
    InputError::NotYaml { file: file.to_owned(), document, problem }
}

/// Adds `value` to `objects`, or its members if it is a list; `member_of` is the typed list it stands in.
fn flatten(
    origin: Origin,
    mut value: Value,
    member_of: Option<(&str, &str)>,
    objects: &mut Vec<Object>,
) -> Result<(), InputError> {
    let Some(map) = value.as_object_mut() else {
        return Err(InputError::NotAnObject { origin });
    };
    let text = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
    let kind = text("kind").or_else(|| member_of.map(|(_, kind)| kind.to_owned()));
    let api_version = text("apiVersion").or_else(|| member_of.map(|(version, _)| version.to_owned()));
    let Some(kind) = kind else {
        return Err(InputError::NoKind { origin, field: "kind" });
    };
    let Some(api_version) = api_version else {
        return Err(InputError::NoKind { origin, field: "apiVersion" });
    };
    let member_kind = kind.strip_suffix("List").filter(|_| origin.item.is_none());
    let items = match (member_kind, map.remove("items")) {
        (Some(_), Some(Value::Array(items))) => items,
        (Some("" | "Pod" | "Node" | "Namespace" | "SchedulerProfile"), None | Some(Value::Null)) => return Ok(()),
        (Some(""), Some(_)) => return Err(InputError::BadList { origin }),
        // A kind of its own whose name happens to end so.
        _ => {
            objects.push(Object { origin, holder: None, api_version, kind, value });
            return Ok(());
        }
    };
    // Members of a typed list, as the API server sends it, name neither kind nor version.
    let typed = member_kind.filter(|kind| !kind.is_empty()).map(|kind| (api_version.as_str(), kind));
    for (index, item) in items.into_iter().enumerate() {
        flatten(Origin { item: Some(index), ..origin.clone() }, item, typed, objects)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Result<Vec<(String, String)>, InputError> {
        Ok(split("f.yaml", text)?
            .into_iter()
            .map(|o| (format!("{}/{}", o.api_version, o.kind), o.origin.to_string()))
            .collect())
    }

    #[test]
    fn documents_without_content_do_not_count() {
        let got =
            kinds("---\n# nothing\n---\napiVersion: v1\nkind: Pod\n---\n---\n{apiVersion: v1, kind: Node}\n").unwrap();
        assert_eq!(
            got,
            [("v1/Pod".into(), "f.yaml, document 1".into()), ("v1/Node".into(), "f.yaml, document 2".into())]
        );
    }

    #[test]
    fn members_of_a_typed_list_have_its_kind() {
        let got = kinds(r#"{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {}}, {}]}"#).unwrap();
        assert_eq!(got[1], ("v1/Pod".into(), "f.yaml, document 1, items[1]".into()));
    }

    #[test]
    fn members_of_a_plain_list_name_their_kind() {
        let error = kinds("{apiVersion: v1, kind: List, items: [{metadata: {}}]}").unwrap_err().to_string();
        assert!(error.contains("items[0]") && error.contains("kind"), "{error}");
    }

    #[test]
    fn an_empty_list_is_no_object() {
        assert_eq!(kinds("{apiVersion: v1, kind: List, items: []}").unwrap(), []);
        assert_eq!(kinds("{apiVersion: v1, kind: PodList, items: null}").unwrap(), []);
    }

    #[test]
    fn a_list_whose_items_are_none_is_refused_and_other_kinds_may_end_in_list() {
        let error = kinds("{apiVersion: v1, kind: List, items: {a: b}}").unwrap_err().to_string();
        assert!(error.contains("items is not a list"), "{error}");
        let got = kinds("{apiVersion: example.com/v1, kind: AllowList, spec: {}}").unwrap();
        assert_eq!(got[0].0, "example.com/v1/AllowList");
    }

    #[test]
    fn what_is_not_yaml_is_named_with_its_document() {
        let error = kinds("kind: Pod\napiVersion: v1\n---\nkind: [\n").unwrap_err().to_string();
        assert!(error.starts_with("f.yaml, document 2: "), "{error}");
        let error = kinds("just words").unwrap_err().to_string();
        assert!(error.contains("not a Kubernetes object"), "{error}");
    }

    #[test]
    fn words_that_were_truth_values_once_are_words() {
        let text = "{apiVersion: v1, kind: Node, metadata: {name: n, labels: {zone: no, spot: \"true\"}}}";
        let objects = split("f.yaml", text).unwrap();
        assert_eq!(
            objects[0].value["metadata"],
            serde_json::json!({"name": "n", "labels": {"zone": "no", "spot": "true"}})
        );
    }

    #[test]
    fn aliases_that_multiply_are_refused() {
        let line = |i: usize| match i {
            0 => "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned(),
            _ => format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 10].join(", ")),
        };
        let bomb: String = (0..9).map(line).collect();
        assert!(kinds(&bomb).unwrap_err().to_string().contains("not YAML"));
    }
}
