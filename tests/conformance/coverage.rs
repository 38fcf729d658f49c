//! What upstream said in a run, counted by plugin, code and reason, against all that it can say.

use super::answer::{Answer, NodeAnswer, PodAnswer};
use super::cluster::NAMESPACES;
use super::expected::{EXPECTED, Expected, SCORES};
use super::paths::Taken;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Counts over a run.
#[derive(Debug, Default)]
pub struct Coverage {
    /// Pods that upstream said it of, by plugin, code and reason.
    said: BTreeMap<(String, String, String), usize>,
    /// Pods on whose nodes the plugin's scores differed.
    scored: BTreeMap<String, usize>,
    pods: usize,
    fitting: usize,
    /// Paths through preemption.
    pub paths: Taken,
}

impl Coverage {
    pub fn add(&mut self, upstream: &Answer) {
        self.paths.add(&upstream.pods);
        for pod in &upstream.pods {
            self.pods += 1;
            self.fitting += usize::from(pod.feasible > 0);
            self.add_pod(pod);
        }
    }

    fn add_pod(&mut self, pod: &PodAnswer) {
        let mut said = BTreeSet::new();
        if let Some(reason) = &pod.reason {
            said.insert(("PreEnqueue".to_owned(), String::new(), normalise(reason)));
        }
        if let Some(error) = &pod.error {
            said.insert(("error".to_owned(), String::new(), normalise(error)));
        }
        let mut scores: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
        for node in pod.nodes() {
            match node {
                NodeAnswer::Refused { plugin, code, reasons, .. } => {
                    said.extend(reasons.iter().map(|r| (plugin.clone(), code.clone(), normalise(r))));
                }
                NodeAnswer::Fits { scores: of, .. } => {
                    for (plugin, score) in of {
                        scores.entry(plugin).or_default().insert(*score);
                    }
                }
            }
        }
        for key in said {
            *self.said.entry(key).or_default() += 1;
        }
        for (plugin, _) in scores.into_iter().filter(|(_, values)| values.len() > 1) {
            *self.scored.entry(plugin.to_owned()).or_default() += 1;
        }
    }

    fn count(&self, of: &Expected) -> usize {
        self.said.iter().filter(|((p, c, r), _)| of.is(p, c, r)).map(|(_, count)| count).sum()
    }

    /// What upstream can say and never did.
    pub fn missing(&self) -> Vec<String> {
        let reasons = EXPECTED.iter().filter(|e| self.count(e) == 0);
        let scores = SCORES.iter().filter(|plugin| !self.scored.contains_key(**plugin));
        reasons
            .map(|e| format!("{} {}: {}", e.plugin, e.code, e.reason))
            .chain(scores.map(|plugin| format!("{plugin}: two different scores")))
            .chain(self.paths.missing())
            .collect()
    }

    /// What upstream said and the list of all that it can say does not have.
    pub fn unknown(&self) -> Vec<String> {
        let strange = self.said.keys().filter(|(p, c, r)| !EXPECTED.iter().any(|e| e.is(p, c, r)));
        strange.map(|(plugin, code, reason)| format!("{plugin} {code}: {reason}")).collect()
    }

    /// The table: pods that upstream said it of.
    pub fn table(&self) -> String {
        let mut text =
            format!("{} pods, {} of them fit somewhere\n\n{:>7}  PLUGIN: REASON\n", self.pods, self.fitting, "PODS");
        for expected in EXPECTED {
            let code = match expected.code {
                "UnschedulableAndUnresolvable" => " (unresolvable)",
                _ => "",
            };
            let _ = writeln!(text, "{:>7}  {}{code}: {}", self.count(expected), expected.plugin, expected.reason);
        }
        let _ = writeln!(text, "\n{:>7}  PLUGIN WHOSE SCORES DIFFERED", "PODS");
        for plugin in SCORES {
            let _ = writeln!(text, "{:>7}  {plugin}", self.scored.get(*plugin).copied().unwrap_or(0));
        }
        let _ = write!(text, "\n{}", self.paths.table());
        for strange in self.unknown() {
            let _ = writeln!(text, "not in the list: {strange}");
        }
        text
    }
}

/// `text` without the names and numbers of one cluster.
pub fn normalise(text: &str) -> String {
    let mut out = String::new();
    let mut quoted = false;
    for part in text.split('"') {
        if quoted {
            // Plugins are named, objects are not.
            let keep = part.chars().next().is_some_and(char::is_uppercase) && part.chars().all(char::is_alphanumeric);
            let _ = write!(out, "\"{}\"", if keep { part } else { "*" });
        } else {
            out.push_str(part);
        }
        quoted = !quoted;
    }
    let words: Vec<String> = out.split(' ').map(|text| word(&without_indices(text))).collect();
    let mut out = words.join(" ");
    if let Some(start) = out.find("scheduling gates: [") {
        out.truncate(start);
        out.push_str("scheduling gates: [*]");
    }
    out
}

/// `[0]` and `[17]` are the same place in lists.
fn without_indices(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('[') {
        let digits = rest[start + 1..].bytes().take_while(u8::is_ascii_digit).count();
        out.push_str(&rest[..=start]);
        if digits > 0 && rest[start + 1 + digits..].starts_with(']') {
            out.push('#');
            rest = &rest[start + 1 + digits..];
        } else {
            rest = &rest[start + 1..];
        }
    }
    out + rest
}

/// A word, unless it is a namespaced name or a resource.
fn word(word: &str) -> String {
    let bare = word.trim_end_matches([',', ':']);
    let tail = &word[bare.len()..];
    let namespaced = NAMESPACES.iter().any(|(ns, _)| bare.strip_prefix(ns).is_some_and(|rest| rest.starts_with('/')));
    if namespaced {
        return format!("*{tail}");
    }
    if bare.starts_with("hugepages-") {
        return format!("hugepages-*{tail}");
    }
    let scalar = ["example.com/", "other.io/", "nobody.io/", "kubernetes.io/thing"].iter().any(|p| bare.starts_with(p));
    if scalar { format!("*/*{tail}") } else { word.to_owned() }
}
