use crate::ledger::{Ledger, MatchClass};
use crate::model::{AffinityTerm, Labels, PodShape, Str, WeightedTerm};
use rustc_hash::FxHashMap;

/// What a table counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// PlacedPod pods' required anti-affinity terms that speak of the pod.
    ExcludedBy,
    /// PlacedPod pods that all of the pod's required affinity terms speak of.
    Affinity,
    /// PlacedPod pods that a required anti-affinity term of the pod speaks of, once a term.
    AntiAffinity,
    /// PlacedPod pods that a preferred term of the pod speaks of, weighed.
    Preferred,
    /// PlacedPod pods' preferred and required affinity terms that speak of the pod, weighed.
    WantedBy,
}

impl Kind {
    pub(super) const COUNT: usize = 5;
}

/// A question about placed pods. Pods that ask the same one share a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Question {
    ExcludedBy(Peer),
    WantedBy(Peer),
    /// All terms of one placed pod at once.
    All(Vec<AffinityTerm>),
    Each(Vec<AffinityTerm>),
    Weighed(Vec<WeightedTerm>),
}

/// All that terms of others see of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    pub(super) namespace: Str,
    labels: Labels,
}

impl Peer {
    /// Whether `term` speaks of it where its namespace has the labels `of_namespace`.
    pub(super) fn is_meant_by(&self, term: &AffinityTerm, of_namespace: &Labels) -> bool {
        speaks_of(term, &self.namespace, of_namespace, &self.labels)
    }
}

/// Labels of namespaces as a table counted with them: the ledger may have others by now.
///
/// A namespace that is not known has none.
#[derive(Debug, Default)]
pub(super) struct Scopes(FxHashMap<Str, Labels>);

impl Scopes {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn known(&self, namespace: &str) -> Option<&Labels> {
        self.0.get(namespace)
    }

    /// The labels counted with; those of now where none were yet.
    pub(super) fn labels(&mut self, namespace: &Str, ledger: &Ledger) -> &Labels {
        self.0.entry(namespace.clone()).or_insert_with(|| labels_now(namespace, ledger))
    }
}

pub(super) fn labels_now(namespace: &str, ledger: &Ledger) -> Labels {
    ledger.namespace(namespace).cloned().unwrap_or_default()
}

/// Whether `term` looks into a namespace of that name and labels.
fn reaches(term: &AffinityTerm, namespace: &Str, of_namespace: &Labels) -> bool {
    let scope = &term.namespaces;
    scope.names.contains(namespace) || scope.selector.as_ref().is_some_and(|s| s.matches(of_namespace))
}

/// Whether `term` speaks of pods with `labels` in a namespace of that name and labels.
fn speaks_of(term: &AffinityTerm, namespace: &Str, of_namespace: &Labels, labels: &Labels) -> bool {
    reaches(term, namespace, of_namespace) && term.selector.as_ref().is_some_and(|s| s.matches(labels))
}

impl Question {
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

    /// The pod's own terms that it asks with.
    pub(super) fn own_terms(&self) -> impl Iterator<Item = &AffinityTerm> {
        let (plain, weighed): (&[AffinityTerm], &[WeightedTerm]) = match self {
            Self::ExcludedBy(_) | Self::WantedBy(_) => (&[], &[]),
            Self::All(terms) | Self::Each(terms) => (terms, &[]),
            Self::Weighed(terms) => (&[], terms),
        };
        plain.iter().chain(weighed.iter().map(|weighed| &weighed.term))
    }

    /// Whether it asks about the placed pod's own terms.
    pub(super) fn is_reverse(&self) -> bool {
        matches!(self, Self::ExcludedBy(_) | Self::WantedBy(_))
    }

    /// Whether nothing of `match_class` can count, seen without a look at selectors.
    pub(super) fn passes_over(&self, match_class: &MatchClass) -> bool {
        match self {
            Self::ExcludedBy(_) => match_class.anti_affinity.is_empty(),
            Self::WantedBy(_) => match_class.affinity.is_empty() && match_class.preferred.is_empty(),
            _ => false,
        }
    }

    /// The namespace whose labels decide about `match_class`.
    fn scope<'a>(&'a self, match_class: &'a MatchClass) -> &'a Str {
        match self {
            Self::ExcludedBy(peer) | Self::WantedBy(peer) => &peer.namespace,
            _ => &match_class.namespace,
        }
    }

    /// Gives the topology key and the weight of everything that one pod of `match_class` counts for.
    ///
    /// `hard_weight`: what a placed pod's required affinity term adds to a score; nothing at 0.
    pub(super) fn weigh(
        &self,
        match_class: &MatchClass,
        scopes: &mut Scopes,
        ledger: &Ledger,
        hard_weight: i64,
        mut count: impl FnMut(&Str, i64),
    ) {
        let of_namespace = scopes.labels(self.scope(match_class), ledger);
        let meant = |term: &AffinityTerm| speaks_of(term, &match_class.namespace, of_namespace, &match_class.labels);
        match self {
            Self::ExcludedBy(peer) => {
                let terms = match_class.anti_affinity.iter().filter(|term| peer.is_meant_by(term, of_namespace));
                terms.for_each(|term| count(&term.topology_key, 1));
            }
            Self::WantedBy(peer) => {
                if hard_weight > 0 {
                    let terms = match_class.affinity.iter().filter(|term| peer.is_meant_by(term, of_namespace));
                    terms.for_each(|term| count(&term.topology_key, hard_weight));
                }
                let terms = match_class.preferred.iter().filter(|t| peer.is_meant_by(&t.term, of_namespace));
                terms.for_each(|t| count(&t.term.topology_key, i64::from(t.weight)));
            }
            Self::All(terms) => {
                if terms.iter().all(meant) {
                    for term in terms {
                        count(&term.topology_key, 1);
                    }
                }
            }
            Self::Each(terms) => {
                terms.iter().filter(|t| meant(t)).for_each(|term| count(&term.topology_key, 1));
            }
            Self::Weighed(terms) => {
                let terms = terms.iter().filter(|t| meant(&t.term));
                terms.for_each(|t| count(&t.term.topology_key, i64::from(t.weight)));
            }
        }
    }

    /// Whether it is a matter for its answer that a namespace has the labels `now` instead of `before`.
    pub(super) fn tells_apart(&self, before: &Labels, now: &Labels) -> bool {
        let scopes = |term: &AffinityTerm| {
            let selector = term.namespaces.selector.as_ref();
            selector.is_some_and(|s| s.matches(before) != s.matches(now))
        };
        before != now && (self.is_reverse() || self.own_terms().any(scopes))
    }
}
