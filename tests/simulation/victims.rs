//! S5: no more pods are evicted for one pod at once than its profile's `maxVictimsPerPod` says. Which pods go for another together is read off
//! the ledger of each operator, whenever something happens. Some of them may go for a third pod in any case, whose preemption can have begun
//! and ended since the ledger was last looked at: for whom a pod goes, its event says.

use super::facts::PodFact;
use super::model::api::Asked;
use super::model::store::text;
use super::plan::Plan;
use super::random::Random;
use super::world::Inner;
use berth_core::model::Str;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What operators have evicted.
#[derive(Debug, Default)]
pub(crate) struct Victims {
    /// The pods that the ledger of a process has had evicted.
    known: BTreeMap<usize, BTreeSet<Str>>,
    /// Decisions of which all that go are more than the limit.
    large: Vec<Large>,
}

#[derive(Debug)]
struct Large {
    process: usize,
    preemptor: Str,
    victims: BTreeSet<Str>,
    /// Those that went for this preemptor, as their events say.
    its_own: BTreeSet<Str>,
    most: usize,
}

impl Plan {
    /// In some worlds most profiles say how many pods may be evicted for one of theirs.
    pub(crate) fn draw_limits(&mut self, random: &mut Random) {
        if !random.in_thousand(300) {
            return;
        }
        for profile in 0..self.profiles {
            if random.in_thousand(700) {
                self.most_victims.insert(profile, random.pick(&[1, 1, 2]));
            }
        }
    }

    /// Adds it to the spec of a profile that says so.
    pub(crate) fn add_limit_to(&self, profile: usize, spec: &mut Value) {
        if let Some(most) = self.most_victims.get(&profile) {
            spec["preemption"]["maxVictimsPerPod"] = (*most).into();
        }
    }

    /// How many pods may be evicted for this one at once, if its profile says so.
    fn most_victims_for(&self, pod: &PodFact) -> Option<usize> {
        let profile: usize = pod.scheduler.strip_prefix("berth-")?.parse().ok()?;
        self.most_victims.get(&profile).copied()
    }
}

impl Inner {
    /// Looks inside of the operators: at each request, answer and change of the cluster.
    pub(crate) fn look_inside(&mut self) {
        self.look_at_gates();
        if !self.plan.most_victims.is_empty() {
            self.look_at_victims();
        }
    }

    /// A decision to evict is new to this look with those of its victims that were in none before. Those that terminate, or that are
    /// evicted for another pod as well, do not count: they would go in any case.
    fn look_at_victims(&mut self) {
        let Self { operators, victims, facts, plan, .. } = self;
        for (process, operator) in operators.iter().enumerate().filter(|(_, operator)| operator.connected) {
            let Some(inside) = &operator.inside else { continue };
            let preemptions = inside.preemptions();
            let known = victims.known.entry(process).or_default();
            for (preemptor, its) in &preemptions {
                let Some(pod) = facts.pods.get(&**preemptor) else { continue };
                let Some(most) = plan.most_victims_for(pod) else { continue };
                let is_anothers = |victim: &Str| {
                    preemptions.iter().any(|(other, others)| other != preemptor && others.contains(victim))
                };
                let is_new = |victim: &&Str| !known.contains(*victim) && !is_anothers(victim);
                let new: BTreeSet<Str> = its.iter().filter(is_new).cloned().collect();
                if new.len() > most {
                    let preemptor = preemptor.clone();
                    victims.large.push(Large { process, preemptor, victims: new, its_own: BTreeSet::new(), most });
                }
            }
            known.extend(preemptions.into_values().flatten());
        }
    }

    /// An operator sends a new event.
    pub(crate) fn went_for(&mut self, operator: usize, event: &Asked) {
        if self.victims.large.is_empty() {
            return;
        }
        let event = event.json();
        let (victim, preemptor) = (text(&event, "/regarding/uid"), text(&event, "/related/uid"));
        if event["reason"] != "Preempted" {
            return;
        }
        let is_of_this = |large: &&mut Large| large.process == operator && &*large.preemptor == preemptor;
        for large in self.victims.large.iter_mut().filter(is_of_this) {
            let went = large.victims.get(victim).is_some_and(|victim| large.its_own.insert(victim.clone()));
            if went && large.its_own.len() > large.most {
                let (its, most) = (&large.its_own, large.most);
                let what = format!("operator {operator} evicts {its:?} for {preemptor}, {most} at most");
                self.rules.breaks("S5", &what);
            }
        }
    }
}
