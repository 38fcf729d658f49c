use super::domain_counts::DomainCounts;
use super::term_query::{Kind, TermQuery};
use crate::ledger::Ledger;
use crate::limits::AFFINITY_TABLES_BYTES;
use crate::model::PodShape;
use crate::plugins::cache::{ByAddress, CacheKey, Recent};
use crate::plugins::context::{PluginContext, Stop, Work};
use std::sync::{Arc, Weak};

/// Shapes whose queries are found by address, without comparing labels and terms.
const SHAPES: usize = 512;

/// Where the counts of a query are, as long as the slot still belongs to the query.
#[derive(Debug)]
struct Handle {
    slot: usize,
    query: Weak<CacheKey<TermQuery>>,
}

/// Counts kept between attempts: those of the queries that were asked last. The least recently used go one by one.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(super) counts: Recent<TermQuery, DomainCounts>,
    /// Where the counts of a shape's queries are.
    handles: ByAddress<PodShape, [Option<Handle>; Kind::COUNT], SHAPES>,
}

impl Tables {
    pub(crate) fn age(&mut self) {
        self.counts.age();
    }

    /// Prepares for an attempt: counts found from here on stay until the next attempt.
    pub(super) fn begin(&mut self) {
        self.counts.begin_round();
        self.counts.shed(AFFINITY_TABLES_BYTES, |_, _| ());
    }

    pub(super) fn counts(&self, slot: usize) -> Option<&DomainCounts> {
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
        if let Some(counts) = self.counts.touch(slot) {
            let synced = counts.sync(cx, work);
            if synced != Ok(false) {
                let bytes = counts.heap_bytes();
                self.counts.weigh(slot, bytes);
            }
            synced?;
        }
        Ok(slot)
    }

    fn find(&mut self, kind: Kind, shape: &Arc<PodShape>, ledger: &Ledger) -> usize {
        if let Some(handles) = self.handles.get(shape)
            && let Some(handle) = &handles[kind as usize]
            && let Some(query) = self.counts.key(handle.slot)
            && std::ptr::eq(handle.query.as_ptr(), Arc::as_ptr(query))
        {
            return handle.slot;
        }
        let query = TermQuery::of(kind, shape).into_key(ledger);
        let known = self.counts.find(&query);
        let slot = known.unwrap_or_else(|| self.counts.insert(query.clone(), DomainCounts::new(query.clone())));
        let query = Arc::downgrade(self.counts.key(slot).unwrap_or(&query));
        self.handles.get_or_insert(shape, Default::default)[kind as usize] = Some(Handle { slot, query });
        slot
    }
}
