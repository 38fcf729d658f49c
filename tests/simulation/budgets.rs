//! PodDisruptionBudgets: the disruption controller, and what a profile that keeps budgets strictly must never do.

use super::facts::{Facts, PodFact};
use super::model::kinds::Of;
use super::model::store::{Change, Verb};
use super::plan::BudgetPlan;
use super::rules::Rules;
use super::world::{Act, Inner};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Evictions of so long ago were decided within what an operator knows of a budget's history.
const COUNTED: Duration = Duration::from_secs(20);

/// Statuses of a budget that are remembered: more than change within any time that is looked at.
const REMEMBERED: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct BudgetFact {
    namespace: String,
    app: String,
    /// How many pods are to stay healthy.
    least: i64,
    /// What it allowed, since which version.
    allowed: VecDeque<(u64, i64)>,
}

impl BudgetFact {
    fn covers(&self, pod: &PodFact) -> bool {
        pod.app == self.app && pod.namespace() == self.namespace
    }

    /// How many evictions somebody may have thought allowed who has known what was there at `version` for long: that many then, and
    /// all that were allowed anew since.
    fn most_since(&self, version: u64) -> i64 {
        let known = self.allowed.iter().rev().find(|(at, _)| *at <= version).or(self.allowed.front());
        let mut last = known.map_or(0, |(_, allowed)| *allowed);
        let mut most = last;
        for (_, allowed) in self.allowed.iter().filter(|(at, _)| *at > version) {
            most += (allowed - last).max(0);
            last = *allowed;
        }
        most
    }
}

impl Facts {
    pub(crate) fn budget(&mut self, change: &Change) {
        if change.verb == Verb::Deleted {
            return;
        }
        let object = &change.object;
        let fact = self.budgets.entry(object.text("/metadata/name").to_owned()).or_default();
        object.text("/metadata/namespace").clone_into(&mut fact.namespace);
        object.text("/spec/selector/matchLabels/app").clone_into(&mut fact.app);
        fact.least = object.value["spec"]["minAvailable"].as_i64().unwrap_or_default();
        let allowed = object.value.pointer("/status/disruptionsAllowed").and_then(Value::as_i64).unwrap_or_default();
        fact.allowed.push_back((change.version, allowed));
        if fact.allowed.len() > REMEMBERED {
            fact.allowed.pop_front();
        }
    }
}

impl Inner {
    pub(crate) fn set_up_budgets(&mut self, now: Instant) {
        for (index, plan) in self.plan.budgets.clone().into_iter().enumerate() {
            let BudgetPlan { namespace, app, least } = plan;
            let budget = json!({
                "metadata": {"name": format!("budget-{index}"), "namespace": namespace},
                "spec": {"selector": {"matchLabels": {"app": app}}, "minAvailable": least},
                "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": least, "expectedPods": 0},
            });
            self.store.create(Of::Budgets, budget, now);
        }
    }

    /// The disruption controller looks again, soon.
    pub(crate) fn look_at_budgets_soon(&mut self, now: Instant) {
        if !self.plan.budgets.is_empty() && !std::mem::replace(&mut self.budgets_are_due, true) {
            let at = now + self.random.millis(5, 80);
            self.later(at, Act::Budgets);
        }
    }

    /// After `updatePdbStatus` in `pkg/controller/disruption/disruption.go`: pods that run and do not terminate are healthy.
    pub(crate) fn look_after_budgets(&mut self, now: Instant) {
        self.budgets_are_due = false;
        let budgets: Vec<_> = self.store.of(Of::Budgets).objects.values().cloned().collect();
        for budget in budgets {
            let Some(fact) = self.facts.budgets.get(budget.text("/metadata/name")) else { continue };
            let its: Vec<&PodFact> =
                self.facts.pods.values().filter(|pod| pod.gone.is_none() && !pod.ended && fact.covers(pod)).collect();
            let (expected, healthy) = (its.len() as i64, its.iter().filter(|pod| pod.is_healthy()).count() as i64);
            let desired = budget.value["spec"]["minAvailable"].as_i64().unwrap_or_default();
            let mut value = budget.value.clone();
            value["status"] = json!({"disruptionsAllowed": (healthy - desired).max(0), "currentHealthy": healthy,
                "desiredHealthy": desired, "expectedPods": expected});
            if value != budget.value {
                self.store.update(Of::Budgets, value, now);
            }
        }
    }
}

/// Evictions for profiles that keep budgets strictly.
#[derive(Debug, Default)]
pub(crate) struct Strict {
    /// The schedulers of those profiles.
    schedulers: Vec<String>,
    /// The deletions of pods of budgets that operators sent.
    sent: VecDeque<Eviction>,
}

/// The first deletion of a pod of a budget that an operator sent.
#[derive(Debug)]
struct Eviction {
    at: Instant,
    operator: usize,
    budget: String,
    victim: String,
}

impl Strict {
    pub(crate) fn of(schedulers: Vec<String>) -> Self {
        Self { schedulers, sent: VecDeque::new() }
    }

    /// The operator was told that the pod stays: its deletion, sent before, takes nothing from budgets.
    pub(crate) fn refused(&mut self, operator: usize, victim: &str) {
        self.sent.retain(|one| (one.operator, &*one.victim) != (operator, victim));
    }
}

impl Rules {
    /// B1: an eviction for a profile that keeps budgets strictly is sent by an operator that has known what was there at `long` for long.
    /// A victim that is not healthy takes nothing from its budgets: it may be assumed only, its bind of unknown outcome.
    pub(crate) fn strict_eviction(
        &mut self,
        what: &str,
        operator: usize,
        (victim, scheduler): (&PodFact, &str),
        facts: &Facts,
        (long, now): (u64, Instant),
    ) {
        if !victim.is_healthy() || !self.strict.schedulers.iter().any(|strict| strict == scheduler) {
            return;
        }
        let sent = &mut self.strict.sent;
        while sent.front().is_some_and(|one| one.at + COUNTED < now) {
            sent.pop_front();
        }
        let mut wrong = Vec::new();
        for (name, budget) in facts.budgets.iter().filter(|(_, budget)| budget.covers(victim)) {
            if !sent.iter().any(|one| (one.operator, &one.budget, &one.victim) == (operator, name, &victim.uid)) {
                let (budget, victim) = (name.clone(), victim.uid.clone());
                sent.push_back(Eviction { at: now, operator, budget, victim });
            }
            let of_budget = || sent.iter().filter(|one| (one.operator, &one.budget) == (operator, name));
            let evicted = of_budget().count() as i64;
            let most = budget.most_since(long);
            // A pod that became healthy a moment ago may be evicted before the controller has counted it: that takes nothing from the budget.
            let is_left = |pod: &&PodFact| {
                pod.gone.is_none()
                    && pod.is_healthy()
                    && budget.covers(pod)
                    && of_budget().all(|one| one.victim != pod.uid)
            };
            let left = facts.pods.values().filter(is_left).count() as i64;
            if evicted > most && left < budget.least {
                wrong.push(format!(
                    "{what}: {evicted} evictions of pods of {name}, which has allowed {most}, and {left} are left"
                ));
            }
        }
        for what in wrong {
            self.breaks("B1", &what);
        }
    }
}
