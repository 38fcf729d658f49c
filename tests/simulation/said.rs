//! What operators say of pods in events. E3: a pod that is said to be scheduled is bound, and to that node. E4: no pod is said to fit nowhere
//! that its operator was told is bound.

use super::model::api::Asked;
use super::model::store::text;
use super::world::Inner;

impl Inner {
    /// An operator sends a new event.
    pub(crate) fn is_true(&mut self, operator: usize, event: &Asked) {
        let event = event.json();
        let Some(pod) = self.facts.pods.get(text(&event, "/regarding/uid")) else { return };
        match text(&event, "/reason") {
            "Scheduled" => {
                // "Successfully assigned NAMESPACE/NAME to NODE"
                let said = text(&event, "/note").rsplit(' ').next();
                if pod.node.as_deref() != said {
                    let (key, said, node) = (&pod.key, said.unwrap_or_default(), pod.node.as_deref());
                    let what = format!("operator {operator} says that {key} is bound to {said}, and it is on {node:?}");
                    self.rules.breaks("E3", &what);
                }
            }
            "FailedScheduling" => {
                let said = text(&event, "/eventTime").parse::<jiff::Timestamp>().map(jiff::Timestamp::as_microsecond);
                let told = self.rules.told_bound(operator, &pod.uid);
                if told.zip(said.ok()).is_some_and(|(told, said)| said > told) {
                    let what = format!("operator {operator} says that {} fits nowhere, after it has bound it", pod.key);
                    self.rules.breaks("E4", &what);
                }
            }
            _ => {}
        }
    }
}
