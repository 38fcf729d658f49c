use crate::ledger::{ClassTerms, Ledger, MatchClass};
use crate::model::{AffinityTerm, Footprint, Labels, PodShape, Str, WeightedTerm};
use crate::plugins::cache::CacheKey;
use crate::plugins::context::work_of;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What a query counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Required anti-affinity terms of placed pods that match the pod.
    ExcludedBy,
    /// Placed pods that all of the pod's required affinity terms match.
    Affinity,
    /// Placed pods that a required anti-affinity term of the pod matches, once for each term.
    AntiAffinity,
    /// Placed pods that a preferred term of the pod matches, weighed.
    Preferred,
    /// Preferred and required affinity terms of placed pods that match the pod, weighed.
    WantedBy,
}

impl Kind {
    pub(super) const COUNT: usize = 5;
}

/// A query about placed pods. Pods that ask the same one share its counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum TermQuery {
    ExcludedBy(Peer),
    WantedBy(Peer),
    /// Counts a placed pod only if all terms match it.
    All(Vec<AffinityTerm>),
    Each(Vec<AffinityTerm>),
    Weighed(Vec<WeightedTerm>),
}

/// All that the terms of other pods see of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    pub(super) namespace: Str,
    pub(super) labels: Labels,
}

impl Peer {
    /// Whether `term` matches the pod, whose namespace has the labels `of_namespace`.
    pub(super) fn is_matched_by(&self, term: &AffinityTerm, of_namespace: &Labels) -> bool {
        term.matches(&self.namespace, of_namespace, &self.labels)
    }
}

/// Labels of namespaces at the time they were counted with: the ledger may have others by now.
///
/// A namespace that the ledger does not know has no labels.
#[derive(Debug, Default)]
pub(super) struct NamespaceLabels(FxHashMap<CacheKey<Str>, Labels>);

impl NamespaceLabels {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Without the labels, which the ledger has too.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(CacheKey<Str>, Labels)>()
    }

    pub(super) fn known(&self, namespace: &Str, ledger: &Ledger) -> Option<&Labels> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&CacheKey::new(ledger, namespace.clone(), 0))
    }

    /// The labels counted with; the present ones where the namespace was not counted with yet.
    pub(super) fn labels(&mut self, namespace: &Str, ledger: &Ledger) -> &Labels {
        let key = CacheKey::new(ledger, namespace.clone(), 0);
        self.0.entry(key).or_insert_with(|| labels_now(namespace, ledger))
    }
}

pub(super) fn labels_now(namespace: &str, ledger: &Ledger) -> Labels {
    ledger.namespace(namespace).cloned().unwrap_or_default()
}

/// What comparing the terms with one pod takes.
pub(crate) fn cost<'a>(terms: impl IntoIterator<Item = &'a AffinityTerm>) -> usize {
    terms.into_iter().map(|term| work_of(term.comparisons())).sum()
}

impl TermQuery {
    pub(super) fn of(kind: Kind, shape: &PodShape) -> Self {
        let peer = || Peer { namespace: shape.namespace.clone(), labels: shape.labels.clone() };
        match kind {
            Kind::ExcludedBy => Self::ExcludedBy(peer()),
            Kind::WantedBy => Self::WantedBy(peer()),
            Kind::Affinity => Self::All(shape.affinity.clone()),
            Kind::AntiAffinity => Self::Each(shape.anti_affinity.clone()),
            Kind::Preferred => Self::Weighed(shape.preferred_pods.clone()),
        }
    }

    pub(super) fn into_key(self, ledger: &Ledger) -> Arc<CacheKey<Self>> {
        let bytes = match &self {
            Self::ExcludedBy(peer) | Self::WantedBy(peer) => peer.labels.heap_bytes(),
            Self::All(terms) | Self::Each(terms) => terms.heap_bytes(),
            Self::Weighed(terms) => terms.heap_bytes(),
        };
        Arc::new(CacheKey::new(ledger, self, bytes))
    }

    /// Whether it counts the terms of placed pods, and not the pods that the asking one's terms match.
    pub(super) const fn is_about_placed_terms(&self) -> bool {
        matches!(self, Self::ExcludedBy(_) | Self::WantedBy(_))
    }

    /// The terms of the pod that asks; none where the query is about the terms of placed pods.
    pub(super) fn own_terms(&self) -> impl Iterator<Item = &AffinityTerm> {
        let (plain, weighed): (&[AffinityTerm], &[WeightedTerm]) = match self {
            Self::ExcludedBy(_) | Self::WantedBy(_) => (&[], &[]),
            Self::All(terms) | Self::Each(terms) => (terms, &[]),
            Self::Weighed(terms) => (&[], terms),
        };
        plain.iter().chain(weighed.iter().map(|weighed| &weighed.term))
    }

    /// Whether pods of `match_class` cannot count, whatever the selectors say.
    pub(super) fn ignores(&self, match_class: &MatchClass) -> bool {
        match self {
            Self::ExcludedBy(_) => match_class.terms().anti_affinity.is_empty(),
            Self::WantedBy(_) => match_class.terms().affinity.is_empty() && match_class.terms().preferred.is_empty(),
            _ => false,
        }
    }

    /// The namespace whose labels decide about `match_class`.
    pub(super) fn scope<'a>(&'a self, match_class: &'a MatchClass) -> &'a Str {
        match self {
            Self::ExcludedBy(peer) | Self::WantedBy(peer) => &peer.namespace,
            _ => &match_class.namespace,
        }
    }

    /// Calls `count` with the topology key and the weight of each term that one pod of `match_class` counts for.
    ///
    /// `of_namespace`: the labels of the namespace that is its [`Self::scope`]. `hard_weight` is what a placed pod's required
    /// affinity term adds to a score; 0 adds nothing.
    pub(super) fn weigh(
        &self,
        match_class: &MatchClass,
        of_namespace: &Labels,
        hard_weight: i64,
        mut count: impl FnMut(&Str, i64),
    ) {
        let matched = |term: &AffinityTerm| term.matches(&match_class.namespace, of_namespace, &match_class.labels);
        let ClassTerms { affinity, anti_affinity, preferred } = match_class.terms();
        match self {
            Self::ExcludedBy(peer) => {
                let terms = anti_affinity.iter().filter(|term| peer.is_matched_by(term, of_namespace));
                terms.for_each(|term| count(&term.topology_key, 1));
            }
            Self::WantedBy(peer) => {
                if hard_weight > 0 {
                    let terms = affinity.iter().filter(|term| peer.is_matched_by(term, of_namespace));
                    terms.for_each(|term| count(&term.topology_key, hard_weight));
                }
                let terms = preferred.iter().filter(|t| peer.is_matched_by(&t.term, of_namespace));
                terms.for_each(|t| count(&t.term.topology_key, i64::from(t.weight)));
            }
            Self::All(terms) => {
                if terms.iter().all(matched) {
                    for term in terms {
                        count(&term.topology_key, 1);
                    }
                }
            }
            Self::Each(terms) => {
                terms.iter().filter(|t| matched(t)).for_each(|term| count(&term.topology_key, 1));
            }
            Self::Weighed(terms) => {
                let matching = terms.iter().filter(|t| matched(&t.term));
                matching.for_each(|t| count(&t.term.topology_key, i64::from(t.weight)));
            }
        }
    }

    /// What [`Self::weigh`] takes for a class, in units of [`Work`](crate::plugins::context::Work): its own terms' share is
    /// `of_own_terms`, which is [`Self::cost_of_own_terms`].
    pub(super) fn cost_of(&self, match_class: &MatchClass, of_own_terms: usize) -> usize {
        let ClassTerms { affinity, anti_affinity, preferred } = match_class.terms();
        1 + match self {
            Self::ExcludedBy(_) => cost(anti_affinity),
            Self::WantedBy(_) => cost(affinity) + cost(preferred.iter().map(|weighed| &weighed.term)),
            _ => of_own_terms,
        }
    }

    /// What comparing the terms of the pod that asks with one class takes.
    pub(super) fn cost_of_own_terms(&self) -> usize {
        cost(self.own_terms())
    }

    /// Whether the answer may differ when a namespace has the labels `now` instead of `before`.
    pub(super) fn tells_apart(&self, before: &Labels, now: &Labels) -> bool {
        let differs = |term: &AffinityTerm| {
            term.namespaces.selector.as_ref().is_some_and(|s| s.matches(before) != s.matches(now))
        };
        before != now && (self.is_about_placed_terms() || self.own_terms().any(differs))
    }
}
