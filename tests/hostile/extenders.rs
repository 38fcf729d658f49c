//! Extenders of the attacker's profile that lie, or keep everybody waiting.

use berth_lab::{Extender, ExtenderOptions, NodeSpec};
use serde_json::{Value, json};

use super::races::wanting;
use super::stage::{Stage, plain};
use super::{Case, LATER, SOON, case};
use crate::objects::{PROFILES, profile, wait_reason};

pub(super) const CASES: &[Case] = &[
    case(
        "extenders",
        "an extender that breaks off the first binds, and then answers each with success and binds none, 100 pods",
        |stage| {
            let extender = start(stage, "liar", &json!({"reset": true, "only": ["bind"]}));
            let verbs = json!({"bind": {"path": "bind", "timeout": "1s"}});
            serve(stage, "hostile-liar", &extender, &verbs);
            stage.make_nodes(&[NodeSpec::new("hostile-lied", "zone-0", "1", "8Gi")]);
            let mut held = wanting("held", "hostile-high", "hostile-lied");
            held["spec"]["schedulerName"] = json!("hostile-liar");
            stage.send(&held);
            let asked = || Ok((!extender.requests()?.is_empty()).then_some(()));
            stage.plane.wait_for("a bind to be asked for", SOON, asked).unwrap();
            extender.rule(&json!({"body": "{}", "only": ["bind"]})).unwrap();
            // It gets the node as soon as that is not kept for the other any more.
            stage.send(&wanting("next", "hostile-high", "hostile-lied"));
            stage.send_many(100, |i| of("hostile-liar", &format!("p{i}")));
            stage.extenders.lock().unwrap().push(extender);
        },
    )
    .holds(|stage| {
        stage.says_soon("p0", "answered that the pod is bound to")?;
        stage.is_bound_within("next", LATER)
    }),
    case("extenders", "an extender that takes a minute for each answer, 300 pods", |stage| {
        let extender = start(stage, "slow", &json!({"delay": "60s"}));
        let verbs = json!({
            "filter": {"path": "filter", "timeout": "30s"},
            "prioritize": {"path": "prioritize", "timeout": "30s"},
        });
        serve(stage, "hostile-slow", &extender, &verbs);
        stage.send_many(300, |i| of("hostile-slow", &format!("p{i}")));
        stage.extenders.lock().unwrap().push(extender);
    })
    .holds(Stage::neighbour_is_told),
];

/// An extender that answers by this rule.
fn start(stage: &Stage, name: &str, rule: &Value) -> Extender {
    let extender = stage.plane.start_extender(&format!("hostile-{name}"), &ExtenderOptions::default()).unwrap();
    extender.rule(rule).unwrap();
    extender
}

/// A profile that has these verbs of it, once it serves.
fn serve(stage: &Stage, name: &str, extender: &Extender, verbs: &Value) {
    let mut spec = extender.spec("ext");
    spec["verbs"] = verbs.clone();
    stage.make(PROFILES, profile(name, &json!({"extenders": [spec]})));
    wait_reason(&stage.plane, name, "Ready", "Serving");
}

/// An ordinary pod of this profile.
fn of(profile: &str, name: &str) -> Value {
    let mut pod = plain(name);
    pod["spec"]["schedulerName"] = json!(profile);
    pod
}
