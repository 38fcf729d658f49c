//! Claims that get no devices: with fewer of them, a selector less or a toleration more, or with devices that somebody gives up.
//!
//! The spec of a claim cannot be changed: whoever follows the advice makes the claim, or its template, anew.

use super::{ChangeKind, Draft, Edit, GUESSES, Scene, Trial};
use crate::devices::{Holders, spelled};
use berth_core::model::ResourceClaim;
use berth_core::plugins::{ClaimSurvey, Plugin, SurveyedAsk};
use berth_devices::model::{
    AllocationMode, DeviceToleration, Request, RequestDetails, ResourceClaim as ClaimSpec, TaintEffect,
    TolerationOperator,
};
use berth_devices::{Obstacle, Survey};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) fn change(scene: &Scene<'_>, trial: &mut Trial<'_>) -> Vec<Draft> {
    let ledger = trial.ledger();
    let mut survey = ClaimSurvey::new(scene.profile, ledger, scene.pod);
    let holders = Holders::of(ledger);
    // By kind, field and value: nodes ask for the same.
    let mut drafts: BTreeMap<(ChangeKind, String, String), Draft> = BTreeMap::new();
    for view in scene.only(&[Plugin::DynamicResources]).take(GUESSES) {
        for (ask, found) in survey.on(&view.node.name) {
            // One that is made for extended resources is not there yet.
            let of_claim = ledger.devices().claim(&ask.claim).map(|claim| Asking { claim, ask: &ask, found: &found });
            let of_claim = of_claim.map(|asking| asking.drafts()).unwrap_or_default();
            for draft in of_claim.into_iter().chain(given_up(&survey, &found, &holders)) {
                drafts.entry((draft.kind, draft.field.clone(), draft.to.to_string())).or_insert(draft);
            }
        }
    }
    drafts.into_values().collect()
}

/// Each other claim that has a device which the request could have otherwise, without it.
fn given_up(own: &ClaimSurvey<'_>, found: &Survey, holders: &Holders<'_>) -> Vec<Draft> {
    let taken = found.devices.iter().filter(|device| device.obstacle == Some(Obstacle::Taken));
    let claims = taken.filter_map(|device| holders.claim(device.published())).filter(|claim| !own.has(claim));
    claims.take(GUESSES).map(|claim| freed(claim, holders)).collect()
}

fn freed(claim: &ResourceClaim, holders: &Holders<'_>) -> Draft {
    let results = claim.allocation.iter().flat_map(|allocation| &allocation.result.results);
    let devices: Vec<String> = results.map(|result| format!("{}/{}", result.pool, result.device)).collect();
    let after = ResourceClaim { allocation: None, reserved_for: Vec::new(), ..claim.clone() };
    let text = match holders.users(claim) {
        Some(users) => format!("end {users}: the devices of claim {} are free then", claim.key),
        None => format!("delete the claim {}: its devices are free then, and no pod uses them", claim.key),
    };
    Draft {
        kind: ChangeKind::FreeDevices,
        field: format!("resourceclaim {}", claim.key),
        from: json!(devices),
        to: Value::Null,
        text,
        weight: devices.len() as u64,
        edit: Edit::resource_claim(claim, after),
    }
}

/// A request of a claim, and what a node has for it.
struct Asking<'a> {
    claim: &'a ResourceClaim,
    ask: &'a SurveyedAsk,
    found: &'a Survey,
}

impl Asking<'_> {
    fn drafts(&self) -> Vec<Draft> {
        let obstacles = self.found.devices.iter().filter_map(|device| device.obstacle.as_ref());
        obstacles.filter_map(|obstacle| self.without(obstacle)).chain(self.fewer()).collect()
    }

    fn without(&self, obstacle: &Obstacle) -> Option<Draft> {
        match obstacle {
            Obstacle::RequestSelector(index) => {
                let expression = self.ask.details.selectors.get(*index)?.cel.as_ref()?;
                let text = format!("drop selectors[{index}] ({expression})");
                let draft =
                    self.draft(ChangeKind::DropDeviceSelector, &format!("selectors[{index}]"), &text, |details| {
                        details.selectors.remove(*index);
                    });
                Some(Draft { from: json!(**expression), ..draft })
            }
            Obstacle::Taint(taint) => {
                let effect = match &taint.effect {
                    TaintEffect::NoSchedule => "NoSchedule",
                    TaintEffect::NoExecute => "NoExecute",
                    TaintEffect::None | TaintEffect::Other(_) => return None,
                };
                let (key, value) = (taint.key.clone(), taint.value.clone());
                let to = json!({"key": *key, "operator": "Equal", "value": *value, "effect": effect});
                let toleration = DeviceToleration {
                    key,
                    operator: TolerationOperator::Equal,
                    value,
                    effect: effect.into(),
                    toleration_seconds: None,
                };
                let field = format!("tolerations[{}]", self.ask.details.tolerations.len());
                let text = format!("tolerate the taint {}", spelled(taint));
                let draft = self.draft(ChangeKind::TolerateDeviceTaint, &field, &text, |details| {
                    details.tolerations.push(toleration);
                });
                Some(Draft { to, ..draft })
            }
            _ => None,
        }
    }

    /// As many as the node has, where it has some.
    fn fewer(&self) -> Option<Draft> {
        let wanted = self.ask.details.count;
        let most = self.found.devices.iter().filter(|device| device.obstacle.is_none()).count() as i64;
        if self.ask.details.allocation_mode != AllocationMode::ExactCount || !(1..wanted).contains(&most) {
            return None;
        }
        let text = format!("ask for at most {most} instead of {wanted}");
        let draft = self.draft(ChangeKind::LowerDeviceCount, "count", &text, |details| details.count = most);
        Some(Draft { from: json!(wanted), to: json!(most), weight: (wanted - most) as u64, ..draft })
    }

    fn draft(&self, kind: ChangeKind, field: &str, text: &str, change: impl FnOnce(&mut RequestDetails)) -> Draft {
        let SurveyedAsk { claim, request, .. } = self.ask;
        let mut spec = ClaimSpec::clone(&self.claim.spec);
        if let Some(details) = details_of(&mut spec, request) {
            change(details);
        }
        Draft {
            kind,
            field: format!("resourceclaim {claim} spec.devices.requests[{request}].{field}"),
            from: Value::Null,
            to: Value::Null,
            text: format!("{text} in request {request} of claim {claim}"),
            weight: 0,
            edit: Edit::resource_claim(self.claim, ResourceClaim { spec: Arc::new(spec), ..self.claim.clone() }),
        }
    }
}

/// Of `REQUEST`, or `REQUEST/SUBREQUEST`.
fn details_of<'a>(spec: &'a mut ClaimSpec, name: &str) -> Option<&'a mut RequestDetails> {
    let (request, alternative) = name.split_once('/').map_or((name, None), |(request, sub)| (request, Some(sub)));
    let request = spec.requests.iter_mut().find(|own| *own.name == *request)?;
    match (&mut request.request, alternative) {
        (Request::Exactly { details, .. }, None) => Some(details),
        (Request::FirstAvailable(all), Some(name)) => {
            all.iter_mut().find(|own| *own.name == *name).map(|own| &mut own.details)
        }
        _ => None,
    }
}
