//! What an answer to a bind means, and the requests themselves.

use super::BindRequest;
use crate::send::{Answer, Call, NoAnswer, push_json};
use berth_core::model::Str;
use std::time::Duration;

/// Pause where the API server asks for one without saying how long.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);

/// What one answer to a bind says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Carried out.
    Bound,
    /// It conflicts with what is there (409, 404): only the pod itself tells how.
    ReadBack {
        /// The API server's words.
        message: String,
        /// Whether a pod that is there unbound is worth the same bind again at once.
        again: bool,
    },
    /// This pod is refused.
    Refused(String),
    /// Not now: the same bind again after a pause.
    Later {
        /// How long.
        pause: Duration,
        /// Whether a proxy or a server going down may have said so after the bind was carried out.
        doubtful: bool,
    },
    /// No connection: the API server has not seen it.
    NotSent,
    /// It may have been carried out, or still be.
    Unknown(String),
}

/// The table: `reliability-anchors` §6 in code.
pub(super) fn judge(result: Result<Answer, NoAnswer>) -> Verdict {
    let answer = match result {
        Ok(answer) => answer,
        Err(NoAnswer::NotSent(_)) => return Verdict::NotSent,
        Err(NoAnswer::Lost(why)) => return Verdict::Unknown(why),
    };
    match (answer.code, answer.retry_after) {
        (200..300, _) => Verdict::Bound,
        (409, _) => Verdict::ReadBack { message: answer.message(), again: true },
        (404, _) => Verdict::ReadBack { message: answer.message(), again: false },
        (429, pause) => Verdict::Later { pause: pause.unwrap_or(DEFAULT_PAUSE), doubtful: false },
        (503, Some(pause)) => Verdict::Later { pause, doubtful: true },
        (408 | 500.., _) => Verdict::Unknown(answer.message()),
        _ => Verdict::Refused(answer.message()),
    }
}

/// What the pod itself tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Bound to our node.
    Here,
    /// Bound to another.
    Elsewhere(Str),
    /// Gone, another pod by now, or going: the API server binds none of these.
    Gone,
    /// There, unbound.
    Unbound,
    /// It could not be read.
    Unread(String),
}

/// Reads what a GET of the pod says.
pub fn found(result: Result<Answer, NoAnswer>, request: &BindRequest) -> Found {
    #[derive(serde::Deserialize)]
    struct Seen {
        metadata: Meta,
        #[serde(default)]
        spec: Spec,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        uid: String,
        deletion_timestamp: Option<String>,
    }
    #[derive(serde::Deserialize, Default)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        node_name: Option<Str>,
    }
    let answer = match result {
        Ok(answer) => answer,
        Err(e) => return Found::Unread(e.to_string()),
    };
    if answer.code == 404 {
        return Found::Gone;
    }
    if !answer.is_success() {
        return Found::Unread(answer.message());
    }
    let seen: Seen = match serde_json::from_slice(&answer.body) {
        Ok(seen) => seen,
        Err(e) => return Found::Unread(format!("pod {}: {e}", request.pod.key)),
    };
    if *seen.metadata.uid != *request.pod.uid {
        return Found::Gone;
    }
    match seen.spec.node_name.filter(|name| !name.is_empty()) {
        Some(node) if node == request.node => Found::Here,
        Some(node) => Found::Elsewhere(node),
        None if seen.metadata.deletion_timestamp.is_some() => Found::Gone,
        None => Found::Unbound,
    }
}

/// The bind: POST of a Binding with the pod's uid as precondition. The API server gives up when we do.
pub(super) fn bind_call(request: &BindRequest, timeout: Duration) -> Call {
    let key = &request.pod.key;
    let uri = format!(
        "/api/v1/namespaces/{}/pods/{}/binding?fieldManager=berth&timeout={}ms",
        key.namespace,
        key.name,
        timeout.as_millis()
    );
    let mut body = Vec::with_capacity(256);
    body.extend_from_slice(br#"{"apiVersion":"v1","kind":"Binding","metadata":{"name":"#);
    push_json(&mut body, &key.name);
    body.extend_from_slice(br#","namespace":"#);
    push_json(&mut body, &key.namespace);
    body.extend_from_slice(br#","uid":"#);
    push_json(&mut body, &request.pod.uid);
    body.extend_from_slice(br#"},"target":{"apiVersion":"v1","kind":"Node","name":"#);
    push_json(&mut body, &request.node);
    body.extend_from_slice(b"}}");
    Call::post(uri, body)
}

/// The read that settles a doubt.
pub fn read_call(request: &BindRequest) -> Call {
    let key = &request.pod.key;
    Call::get(format!("/api/v1/namespaces/{}/pods/{}", key.namespace, key.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::pod;
    use berth_core::io::AttemptId;
    use serde_json::json;
    use std::sync::Arc;

    #[allow(clippy::unnecessary_wraps, reason = "stands for what a request gives")]
    fn answer(code: u16, retry: Option<u64>, body: &serde_json::Value) -> Result<Answer, NoAnswer> {
        Ok(Answer { code, retry_after: retry.map(Duration::from_secs), body: body.to_string().into() })
    }

    #[test]
    fn every_answer_has_its_meaning() {
        let said = json!({"message": "why"});
        let later = |s, doubtful| Verdict::Later { pause: Duration::from_secs(s), doubtful };
        let back = |again| Verdict::ReadBack { message: "why".into(), again };
        let table = [
            (200, None, Verdict::Bound),
            (201, None, Verdict::Bound),
            (400, None, Verdict::Refused("why".into())),
            (401, None, Verdict::Refused("why".into())),
            (403, None, Verdict::Refused("why".into())),
            (404, None, back(false)),
            (408, None, Verdict::Unknown("why".into())),
            (409, None, back(true)),
            (422, None, Verdict::Refused("why".into())),
            (429, Some(3), later(3, false)),
            (429, None, later(1, false)),
            (500, None, Verdict::Unknown("why".into())),
            (500, Some(1), Verdict::Unknown("why".into())),
            (502, None, Verdict::Unknown("why".into())),
            (503, None, Verdict::Unknown("why".into())),
            (503, Some(2), later(2, true)),
            (504, None, Verdict::Unknown("why".into())),
        ];
        for (code, retry, want) in table {
            assert_eq!(judge(answer(code, retry, &said)), want, "{code} {retry:?}");
        }
        assert_eq!(judge(Err(NoAnswer::NotSent("refused".into()))), Verdict::NotSent);
        assert_eq!(judge(Err(NoAnswer::Lost("reset".into()))), Verdict::Unknown("reset".into()));
    }

    #[test]
    fn the_pod_tells_how_it_is() {
        let request =
            BindRequest { attempt: AttemptId(1), pod: Arc::new(pod("ns", "p")), node: "n1".into(), extender: None };
        let pod = |uid: &str, spec, deleted: Option<&str>| json!({"metadata": {"uid": uid, "deletionTimestamp": deleted}, "spec": spec});
        let table = [
            (200, pod("uid-p", json!({"nodeName": "n1"}), None), Found::Here),
            (200, pod("uid-p", json!({"nodeName": "n1"}), Some("2026-01-01T00:00:00Z")), Found::Here),
            (200, pod("uid-p", json!({"nodeName": "n2"}), None), Found::Elsewhere("n2".into())),
            (200, pod("other", json!({"nodeName": "n1"}), None), Found::Gone),
            (200, pod("uid-p", json!({}), Some("2026-01-01T00:00:00Z")), Found::Gone),
            (200, pod("uid-p", json!({}), None), Found::Unbound),
            (200, pod("uid-p", json!({"nodeName": ""}), None), Found::Unbound),
            (404, json!({"message": "gone"}), Found::Gone),
            (500, json!({"message": "oops"}), Found::Unread("oops".into())),
        ];
        for (code, body, want) in table {
            assert_eq!(found(answer(code, None, &body), &request), want, "{body}");
        }
    }
}
