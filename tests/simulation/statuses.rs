//! What is written of profiles. S7: a status, or a last good spec, is sent only by a process that may think that it leads, but for the last word
//! of one that ends. older status: none that is carried out goes back behind the one before it. L4: once all is well, a profile that its leader
//! has said to be Ready stays so.

use super::model::api::{Asked, Place};
use super::model::kinds::Of;
use super::model::store::text;
use super::rules::{Rules, Wrong};
use berth_cluster::lease::{LEASE_NAME, Timing};
use bytes::Bytes;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// A request that the API server is too busy for is sent again by the client itself, without a look at the gate, as long as whoever made it
/// waits: `TIMEOUT` in `operator/status_writer.rs`, `SAVE_TIMEOUT` in `operator/reconciler.rs`.
const SENT_AGAIN_FOR: Duration = Duration::from_secs(5);

/// So long after everything has healed nothing is left that may end what is Ready.
pub(crate) const STAYS_READY_AFTER: Duration = Duration::from_secs(30);

/// What a worker counts, in `status.totals`.
const COUNTED: [&str; 4] = ["scheduled", "failedAttempts", "preemptionVictims", "bindConflicts"];

/// A status that was carried out.
#[derive(Debug)]
struct Said {
    by: usize,
    /// Which of the leaders that was: the first, the second, and so on.
    term: usize,
    status: Value,
}

#[derive(Debug, Default)]
pub(crate) struct Statuses {
    /// When a write of the Lease was carried out last by which a process holds it.
    renewed: BTreeMap<usize, Instant>,
    /// Who has given it back.
    gave_back: BTreeSet<usize>,
    /// Who has held it, in this order, each as often as it took it.
    leaders: Vec<usize>,
    /// What a process has sent last to a path, and since when.
    last: BTreeMap<(usize, String), (Bytes, Instant)>,
    /// The last status that was carried out, by the profile's uid.
    said: BTreeMap<String, Said>,
    /// From then on a profile that is Ready stays so.
    pub(crate) well_from: Option<Instant>,
}

/// A condition of a status, by its type.
fn condition<'a>(status: &'a Value, kind: &Value) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|one| one["type"] == *kind)
}

fn has_reason(status: &Value, reason: &str) -> bool {
    status["conditions"].as_array().is_some_and(|all| all.iter().any(|one| one["reason"] == reason))
}

fn is_ready(status: &Value) -> bool {
    condition(status, &"Ready".into()).is_some_and(|ready| ready["status"] == "True")
}

fn generation(status: &Value) -> i64 {
    status["observedGeneration"].as_i64().unwrap_or_default()
}

/// Whom a status has counting, and since when; nobody where no worker runs.
fn counting(status: &Value) -> Option<(&str, &str)> {
    let (who, since) = (text(status, "/worker/holder"), text(status, "/totals/since"));
    (!who.is_empty() && !since.is_empty()).then_some((who, since))
}

impl Statuses {
    /// A process holds the Lease from now on. It may have held it before without a word: the answer to the write that took it was lost.
    pub(crate) fn leads(&mut self, operator: usize) {
        self.leaders.push(operator);
    }

    fn term(&self, operator: usize) -> usize {
        self.leaders.iter().rposition(|leader| *leader == operator).unwrap_or_default()
    }

    /// Whether a process may think that it leads. It counts from when it sent its last renewal, which was not later than this was carried out.
    fn may_think_that_it_leads(&self, operator: usize, now: Instant) -> bool {
        let deadline = Timing::default().renew_deadline;
        !self.gave_back.contains(&operator) && self.renewed.get(&operator).is_some_and(|at| now < *at + deadline)
    }
}

impl Rules {
    /// An operator sends something; `is_ending`: it was told to end.
    pub(crate) fn keeps_to_its_lease(&mut self, operator: usize, asked: &Asked, is_ending: bool, now: Instant) {
        let Some(place) = Place::of(&asked.path).filter(|_| asked.method != "GET") else { return };
        let is_status = place.of == Of::Profiles && place.subresource == "status";
        if place.of == Of::Leases {
            let body = asked.json();
            // Who makes one that nobody holds has given nothing back.
            let is_given_back = asked.method == "PUT" && text(&body, "/spec/holderIdentity").is_empty();
            if text(&body, "/metadata/name") == LEASE_NAME && is_given_back {
                self.statuses.gave_back.insert(operator);
            }
        }
        if !is_status && place.of != Of::Revisions {
            return;
        }
        let to = (operator, asked.path.clone());
        let is_sent_again = |(body, first): &(Bytes, Instant)| *body == asked.body && now <= *first + SENT_AGAIN_FOR;
        if self.statuses.last.get(&to).is_some_and(is_sent_again) {
            return;
        }
        self.statuses.last.insert(to, (asked.body.clone(), now));
        let is_last_word = is_status && is_ending && has_reason(&asked.json()["status"], "AwaitingLeader");
        if !is_last_word && !self.statuses.may_think_that_it_leads(operator, now) {
            self.breaks("S7", &format!("operator {operator}: {} {} though it leads no more", asked.method, asked.path));
        }
    }

    /// A write of a Lease by an operator was carried out.
    pub(crate) fn lease_written(&mut self, operator: usize, body: &Value) {
        if text(body, "/metadata/name") == LEASE_NAME && !text(body, "/spec/holderIdentity").is_empty() {
            self.statuses.renewed.insert(operator, Instant::now());
        }
    }

    /// A status of a profile was carried out.
    pub(crate) fn status_written(&mut self, operator: usize, body: &Value) {
        let (uid, name) = (text(body, "/metadata/uid").to_owned(), text(body, "/metadata/name"));
        let said = Said { by: operator, term: self.statuses.term(operator), status: body["status"].clone() };
        let is_well = self.statuses.well_from.is_some_and(|from| from <= Instant::now());
        let wrong = self.statuses.said.get(&uid).map_or_else(Vec::new, |before| after(before, &said, is_well));
        for (rule, why) in wrong {
            self.breaks(rule, &format!("operator {operator} writes of profile {name}: {why}"));
        }
        self.statuses.said.insert(uid, said);
    }
}

/// Why a status must not come after another one.
fn after(before: &Said, said: &Said, is_well: bool) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let mut is_older = |why: String| wrong.push(("older status", why));
    let (then, now) = (&before.status, &said.status);
    let generations = (generation(then), generation(now));
    if generations.1 < generations.0 {
        is_older(format!("generation {} after {}", generations.1, generations.0));
    }
    // Each status names the version that it was made from, and who leads later has made a newer one.
    if said.term < before.term {
        is_older(format!("operator {} has led later, and has written", before.by));
    }
    for condition_now in now["conditions"].as_array().into_iter().flatten() {
        let Some(condition_then) = condition(then, &condition_now["type"]) else { continue };
        let [time_then, time_now] = [condition_then, condition_now].map(|one| text(one, "/lastTransitionTime"));
        let is_same = condition_then["status"] == condition_now["status"];
        let parsed = |time: &str| time.parse::<jiff::Timestamp>().ok();
        if (is_same && time_now != time_then) || parsed(time_now) < parsed(time_then) {
            is_older(format!("{condition_now} after {condition_then}"));
        }
    }
    if counting(now).is_some() && counting(now) == counting(then) {
        for field in COUNTED {
            let [count_then, count_now] =
                [then, now].map(|status| status["totals"][field].as_i64().unwrap_or_default());
            if count_now < count_then {
                is_older(format!("{field}: {count_now} after {count_then}, of the same worker"));
            }
        }
    }
    let is_same = said.by == before.by && generations.0 == generations.1;
    if is_well && is_same && is_ready(then) && !is_ready(now) && !has_reason(now, "RolloutAborted") {
        wrong.push(("L4", format!("it was Ready and is no more: {:?}", condition(now, &"Ready".into()))));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said((by, term): (usize, usize), ready: (&str, &str), scheduled: i64) -> Said {
        let status = json!({
            "observedGeneration": 1,
            "conditions": [{"type": "Ready", "status": ready.0, "lastTransitionTime": ready.1}],
            "worker": {"holder": "one"},
            "totals": {"since": "2026-01-01T00:00:00Z", "scheduled": scheduled},
        });
        Said { by, term, status }
    }

    #[test]
    fn a_status_goes_forward() {
        let (early, late) = ("2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z");
        let before = || said((0, 0), ("True", early), 5);
        for (now, is_well, broken) in [
            (said((0, 0), ("True", early), 5), true, vec![]),
            (said((1, 1), ("True", early), 6), true, vec![]),
            (said((0, 0), ("False", late), 5), false, vec![]),
            (said((0, 0), ("False", late), 5), true, vec!["L4"]),
            (said((1, 1), ("False", late), 5), true, vec![]),
            (said((0, 0), ("True", late), 5), true, vec!["older status"]),
            (said((0, 0), ("False", "2026-01-01T00:00:00Z"), 5), false, vec!["older status"]),
            (said((0, 0), ("True", early), 4), true, vec!["older status"]),
        ] {
            let rules: Vec<&str> = after(&before(), &now, is_well).into_iter().map(|(rule, _)| rule).collect();
            assert_eq!(rules, broken, "{now:?}");
        }
        let later = said((1, 1), ("True", early), 5);
        assert_eq!(after(&later, &before(), true).len(), 1, "of one that led before");
    }
}
