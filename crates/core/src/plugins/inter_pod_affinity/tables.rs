use super::domain_counts::DomainCounts;
use super::term_query::{Kind, TermQuery};
use super::topology_columns::TopologyColumns;
use crate::ledger::Ledger;
use crate::limits::{AFFINITY_TABLES_BYTES, TOPOLOGY_KEYS};
use crate::model::PodShape;
use crate::plugins::cache::{ByAddress, Recent};
use crate::plugins::context::{PluginContext, Stop, Work};
use std::sync::Arc;

/// Shapes whose queries are found by address, without comparing labels and terms.
const SHAPES: usize = 512;

/// Where the counts of a query are, as long as the slot still belongs to the query.
#[derive(Debug)]
struct Handle {
    slot: usize,
    query: Arc<TermQuery>,
}

/// Counts kept between attempts: those of the queries that were asked last. The least recently used are replaced.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(super) topology: TopologyColumns,
    counts: Recent<TermQuery, DomainCounts>,
    /// Where the counts of a shape's queries are.
    handles: ByAddress<PodShape, [Option<Handle>; Kind::COUNT], SHAPES>,
}

impl Tables {
    /// Prepares for an attempt: counts found from here on are not replaced before the next attempt.
    pub(super) fn begin(&mut self, ledger: &Ledger) {
        // Too many keys, some perhaps no longer asked for: drop everything; what is still asked for is soon counted again.
        if self.topology.len() > TOPOLOGY_KEYS {
            *self = Self::default();
        }
        self.counts.begin_round();
        self.topology.refresh(ledger);
    }

    pub(super) fn counts(&self, slot: usize) -> &DomainCounts {
        self.counts.value(slot)
    }

    /// The slot of the counts, brought up to date, of the query of this kind that pods of `shape` ask.
    pub(super) fn answer(
        &mut self,
        kind: Kind,
        cx: PluginContext<'_>,
        shape: &Arc<PodShape>,
        work: &mut Work,
    ) -> Result<usize, Stop> {
        let slot = self.find(kind, shape, cx.ledger);
        self.counts.touch(slot).sync(cx, &mut self.topology, work)?;
        Ok(slot)
    }

    fn find(&mut self, kind: Kind, shape: &Arc<PodShape>, ledger: &Ledger) -> usize {
        if let Some(handles) = self.handles.get(shape)
            && let Some(handle) = &handles[kind as usize]
            && Arc::ptr_eq(&handle.query, self.counts.key(handle.slot))
        {
            return handle.slot;
        }
        let query = TermQuery::of(kind, shape);
        let slot = self.counts.find(&query).unwrap_or_else(|| {
            let query = Arc::new(query);
            self.counts.insert(query.clone(), DomainCounts::new(query), bound(ledger)).0
        });
        let handle = Handle { slot, query: self.counts.key(slot).clone() };
        self.handles.get_or_insert(shape, Default::default)[kind as usize] = Some(handle);
        slot
    }
}

/// How many slots there may be: more than one attempt needs, whatever the size of the cluster.
fn bound(ledger: &Ledger) -> usize {
    const MATCH_CACHE_BYTES: usize = 8 << 10;
    let bytes = ledger.nodes().rows() * size_of::<i64>() + MATCH_CACHE_BYTES;
    (AFFINITY_TABLES_BYTES / bytes).max(2 * Kind::COUNT)
}
