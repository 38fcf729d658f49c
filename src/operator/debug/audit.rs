use super::super::context::Context;
use super::super::drift::{Audit, Audits, OfKind, Verdict};
use super::pretty;
use berth_telemetry::DebugReply;
use serde_json::{Value, json};
use std::time::Duration;

/// What the last audit has found; asks for none.
pub(super) fn page(cx: &Context, every: Option<Duration>) -> DebugReply {
    pretty(&json!({"intervalSeconds": every.map(|every| every.as_secs()), "last": last(&cx.audits)}))
}

/// The last audit; null before the first.
pub(super) fn last(audits: &Audits) -> Value {
    // Copied, so that whoever counts does not wait for the text.
    let last = audits.lock().last.clone();
    last.as_ref().map_or(Value::Null, of_audit)
}

fn of_audit(audit: &Audit) -> Value {
    json!({
        "began": audit.began.to_string(),
        "ended": audit.ended.to_string(),
        "tookSeconds": audit.took.as_secs_f64(),
        "kinds": audit.kinds.iter().map(of_kind).collect::<Vec<_>>(),
    })
}

fn of_kind(of: &OfKind) -> Value {
    let mut value = json!({"resource": of.plural, "objects": of.objects, "shown": of.shown,
        "resourceVersion": of.version.to_string()});
    match &of.verdict {
        Verdict::Agrees => value["verdict"] = "agrees".into(),
        Verdict::Drifted { count, named, mended } => {
            value["verdict"] = "drifted".into();
            value["count"] = (*count).into();
            value["first"] = json!(named);
            value["readAnew"] = (*mended).into();
        }
        Verdict::Unknown(why) => {
            value["verdict"] = "unknown".into();
            value["why"] = json!(why);
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;

    #[test]
    fn each_verdict_says_what_it_rests_on() {
        let of = |plural, verdict| OfKind { plural, objects: 7, shown: 8, version: 9, verdict };
        let drifted = Verdict::Drifted { count: 12, named: vec!["missing a".to_owned()], mended: true };
        let audit = Audit {
            began: Timestamp::from_second(1).unwrap(),
            ended: Timestamp::from_second(3).unwrap(),
            took: Duration::from_secs(2),
            kinds: vec![
                of("nodes", Verdict::Agrees),
                of("pods", drifted),
                of("services", Verdict::Unknown("behind".to_owned())),
            ],
        };
        let value = of_audit(&audit);
        assert_eq!((&value["began"], &value["tookSeconds"]), (&json!("1970-01-01T00:00:01Z"), &json!(2.0)));
        let [nodes, pods, services] = [0, 1, 2].map(|at| &value["kinds"][at]);
        let wanted =
            json!({"resource": "nodes", "objects": 7, "shown": 8, "resourceVersion": "9", "verdict": "agrees"});
        assert_eq!(*nodes, wanted);
        assert_eq!(
            (&pods["count"], &pods["first"][0], &pods["readAnew"]),
            (&json!(12), &json!("missing a"), &json!(true))
        );
        assert_eq!(services["why"], "behind");
        assert_eq!(last(&Audits::default()), Value::Null);
    }
}
