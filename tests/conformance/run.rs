//! A run over many clusters, and what came of it.

use super::answer::Answer;
use super::cluster::{Drawn, draw_cluster};
use super::compare::{Difference, Outcome, compare};
use super::coverage::Coverage;
use super::draw::Draw;
use super::known::known;
use super::options::Options;
use super::oracle::Oracle;
use super::shrink::shrink;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

/// Classes of differences that are shrunk and shown.
const SHOWN: usize = 6;

/// What came of a run.
#[derive(Debug, Default)]
pub struct Summary {
    pub clusters: usize,
    pub same: usize,
    /// Pods whose difference is meant, by its name.
    pub known: BTreeMap<&'static str, usize>,
    /// All others by class, with the first cluster that showed each.
    pub differences: BTreeMap<String, (usize, Drawn, Difference)>,
    pub coverage: Coverage,
    seconds: f64,
}

/// Draws clusters as `options` say, and asks `oracle` and `berth`.
pub fn run(options: &Options, oracle: &mut Oracle, berth: impl Fn(&Drawn) -> Answer) -> Summary {
    let began = Instant::now();
    let mut seeds = Draw::new(options.seed);
    let count = if options.only.is_some() { 1 } else { options.clusters };
    let only = options.only;
    let clusters = (0..count).map(move |_| draw_cluster(only.unwrap_or_else(|| seeds.next())));
    let mut summary = Summary::default();
    oracle.ask_all(clusters, |drawn, upstream| {
        summary.clusters += 1;
        summary.coverage.add(&upstream);
        for outcome in compare(&upstream, &berth(&drawn)) {
            summary.note(&drawn, outcome);
        }
    });
    summary.seconds = began.elapsed().as_secs_f64();
    summary
}

impl Summary {
    fn note(&mut self, drawn: &Drawn, outcome: Outcome) {
        match outcome {
            Outcome::Same => self.same += 1,
            Outcome::Differs(difference) => {
                if let Some(name) = known(drawn, &difference) {
                    *self.known.entry(name).or_default() += 1;
                } else {
                    let class = difference.class.clone();
                    let entry = self.differences.entry(class).or_insert_with(|| (0, drawn.clone(), difference));
                    entry.0 += 1;
                }
            }
        }
    }

    fn different(&self) -> usize {
        self.differences.values().map(|(count, _, _)| count).sum()
    }

    /// One line.
    pub fn line(&self, options: &Options) -> String {
        format!(
            "conformance: {} clusters ({} with victims searched) in {:.0} s, seed {}: \
             {} pods the same, {} different, {} differ as documented",
            self.clusters,
            self.coverage.paths.clusters,
            self.seconds,
            options.seed,
            self.same,
            self.different(),
            self.known.values().sum::<usize>(),
        )
    }

    /// What was left out, and why.
    pub fn left_out(&self) -> String {
        let mut text = String::new();
        for (name, count) in &self.known {
            let _ = writeln!(text, "{count:>7}  pods differ as documented: {name}");
        }
        text
    }

    /// Every class of difference; the most frequent ones shrunk.
    pub fn report(&self, oracle: &mut Oracle, berth: impl Fn(&Drawn) -> Answer) -> String {
        let mut text = String::new();
        let mut classes: Vec<_> = self.differences.iter().collect();
        classes.sort_by_key(|(_, (count, _, _))| std::cmp::Reverse(*count));
        for (class, (count, drawn, _)) in &classes {
            let _ = writeln!(text, "{count:>7}  {class}   BERTH_CLUSTER={:#x}", drawn.seed);
        }
        for (class, (_, drawn, difference)) in classes.into_iter().take(SHOWN) {
            let mut shown = difference.clone();
            let small = shrink(drawn, |candidate| {
                let outcomes = compare(&oracle.ask(candidate), &berth(candidate));
                let found = outcomes.into_iter().find_map(|outcome| match outcome {
                    Outcome::Differs(d) if d.class == *class && known(candidate, &d).is_none() => Some(d),
                    _ => None,
                });
                let holds = found.is_some();
                if let Some(found) = found {
                    shown = found;
                }
                holds
            });
            let _ = writeln!(
                text,
                "\n=== {class}\n    replay: BERTH_CLUSTER={:#x} cargo test --test conformance",
                drawn.seed
            );
            let _ = writeln!(text, "pod {}\n{}\n{}", shown.pod, shown.text, manifest(&small));
        }
        text
    }
}

/// The cluster as YAML documents, the configuration last.
pub fn manifest(drawn: &Drawn) -> String {
    let mut text = String::new();
    for object in drawn.objects.iter().chain(&drawn.config) {
        let _ = write!(text, "---\n{}", serde_saphyr::to_string(object).unwrap());
    }
    text
}
