//! S5: no more pods are evicted for one pod at once than its profile's `maxVictimsPerPod` says. What is asked of the API server does not say
//! for which pod a victim goes, so that this is read off the ledger of each operator, whenever something happens.

use super::facts::PodFact;
use super::plan::Plan;
use super::random::Random;
use super::world::Inner;
use berth_core::model::Str;
use serde_json::Value;

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
        let Self { operators, victims, facts, plan, rules, .. } = self;
        for (process, operator) in operators.iter().enumerate().filter(|(_, operator)| operator.connected) {
            let Some(inside) = &operator.inside else { continue };
            let preemptions = inside.preemptions();
            let known = victims.entry(process).or_default();
            for (preemptor, its) in &preemptions {
                let Some(pod) = facts.pods.get(&**preemptor) else { continue };
                let Some(most) = plan.most_victims_for(pod) else { continue };
                let is_anothers = |victim: &Str| {
                    preemptions.iter().any(|(other, others)| other != preemptor && others.contains(victim))
                };
                let new = its.iter().filter(|&victim| !known.contains(victim) && !is_anothers(victim)).count();
                if new > most {
                    let what = format!("operator {process} evicts {its:?} for {}, {most} at most", pod.key);
                    rules.breaks("S5", &what);
                }
            }
            known.extend(preemptions.into_values().flatten());
        }
    }
}
