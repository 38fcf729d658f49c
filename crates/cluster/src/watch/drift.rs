//! One kind compared with what the API server has, for what an event that never came has left wrong in a watch that goes on.
//!
//! All pages of a list show one version V. Once the watch has reached V, everything that the list shows has come or was overtaken, and
//! nothing that was gone at V is known any more. What differs before that may be on its way: it is looked at again then, and some seconds
//! later at least, without another request.
//!
//! An object costs the reading of its metadata, a look-up in what was shown and one in the ledger, and 16 bytes while a kind is listed. The
//! lock of what was shown is held for one look-up or one part, the ledger's for a page.

use super::call::metadata_request;
use super::shown::{Deleted, Shown, Uid};
use super::split::{ListMeta, ListSplitter};
use super::{CallError, ObjectKey, Orders, WatchOptions, WatchStats};
use crate::send::version_number;
use kube::Client;
use serde::Deserialize;
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

/// Objects in one page, and objects that are asked for under one lock.
const PAGE: u32 = 500;

/// Between two pages, so that neither side computes for long.
const BETWEEN_PAGES: Duration = Duration::from_millis(20);

/// Objects that the watch has shown and that are looked at without a pause.
const PART: usize = 1_000;

/// Differences that are kept to be looked at again; the rest is only counted.
const SUSPECTS: usize = 1_000;

/// How often is looked whether the watch has come far enough.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Drift {
    /// The API server has it, and the watch has not shown it.
    Missing,
    /// The watch has shown an older version.
    Outdated,
    /// The API server has it no more, and the watch has not shown that.
    Gone,
    /// The watch has shown it, and the ledger does not keep it.
    NotKept,
}

impl Drift {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Outdated => "outdated",
            Self::Gone => "gone",
            Self::NotKept => "not_kept",
        }
    }
}

/// An object that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    /// Only the uid of one that is [`Drift::Gone`], and not even that if it is no UUID.
    pub key: ObjectKey,
    pub uid: Uid,
    pub drift: Drift,
    /// Its version on the API server; the last one known of what is gone.
    pub version: u64,
}

/// How long is waited before a difference counts.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// At least so long.
    pub least: Duration,
    /// For the watch to come to the version of the list: longer than the time between two bookmarks.
    pub most: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { least: Duration::from_secs(5), most: Duration::from_secs(150) }
    }
}

/// Why it is not known whether differences mean anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsettled {
    #[error("the watch did not come to the version of the list in time")]
    Behind,
    #[error("the kind was read anew meanwhile")]
    ReadAnew,
}

/// What is compared with what.
#[derive(Clone, Copy)]
pub struct Comparison<'a> {
    pub client: &'a Client,
    /// The plural of the kind.
    pub plural: &'static str,
    /// The path of its collection.
    pub path: &'static str,
    /// The field selector of its watch.
    pub fields: Option<&'static str>,
    pub stats: &'a WatchStats,
    pub orders: &'a Orders,
    /// Which of some hundred objects the ledger keeps.
    pub are_kept: &'a (dyn Fn(&[ObjectKey]) -> Vec<bool> + Sync),
}

impl std::fmt::Debug for Comparison<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Comparison").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Ends the memory of deletions.
#[derive(Debug)]
struct Comparing<'a>(&'a Shown);

impl Drop for Comparing<'_> {
    fn drop(&mut self) {
        self.0.stop_comparing();
    }
}

/// What a list has shown, and how it differs from what the watch has shown.
#[derive(Debug)]
pub struct Look<'a> {
    /// The version of the list.
    pub version: u64,
    /// Objects of the list.
    pub objects: usize,
    suspects: Vec<Suspect>,
    /// Differences beyond those that are kept.
    left_out: usize,
    /// All objects of the list.
    seen: Vec<Uid>,
    /// Whole reads of the watch when it began.
    reads: u64,
    _comparing: Comparing<'a>,
}

impl Look<'_> {
    fn suspect(&mut self, key: ObjectKey, uid: Uid, drift: Drift, version: u64) {
        if self.suspects.len() < SUSPECTS {
            self.suspects.push(Suspect { key, uid, drift, version });
        } else {
            self.left_out += 1;
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: Meta,
}

impl<'a> Comparison<'a> {
    /// Lists the kind, page by page, and compares.
    pub async fn look(&self) -> Result<Look<'a>, CallError> {
        let shown = self.stats.shown();
        let mut look = Look {
            version: 0,
            objects: 0,
            suspects: Vec::new(),
            left_out: 0,
            seen: Vec::new(),
            reads: shown.compare(),
            _comparing: Comparing(shown),
        };
        let mut token = String::new();
        loop {
            let meta = self.page(&token, &mut look).await?;
            look.version = version_number(&meta.resource_version);
            token = meta.token;
            if token.is_empty() {
                break;
            }
            sleep(BETWEEN_PAGES).await;
        }
        self.look_for_gone(&mut look).await;
        Ok(look)
    }

    async fn page(&self, token: &str, look: &mut Look<'a>) -> Result<ListMeta, CallError> {
        let silence = WatchOptions::default().list_silence;
        let call = metadata_request(self.plural, self.path, self.fields, PAGE, token);
        let mut answer = call.open(self.client.clone(), silence).await?;
        let (mut splitter, mut page) = (ListSplitter::new(), Vec::new());
        let mut take = |item: &[u8]| {
            // What has no readable metadata is named by the watch.
            let Ok(Item { metadata }) = serde_json::from_slice::<Item>(item) else { return };
            let Meta { namespace, name, uid, resource_version } = metadata;
            page.push((ObjectKey { namespace, name, uid }, version_number(&resource_version)));
            // A server may ignore the limit.
            if page.len() >= PAGE as usize {
                self.compare(std::mem::take(&mut page), look);
            }
        };
        while answer.bytes(silence, |bytes| splitter.push(bytes, &mut take)).await? {}
        self.compare(page, look);
        splitter.finish().ok_or(CallError::Cut)
    }

    fn compare(&self, page: Vec<(ObjectKey, u64)>, look: &mut Look<'a>) {
        let (keys, versions): (Vec<_>, Vec<_>) = page.into_iter().filter(|(key, _)| !key.uid.is_empty()).unzip();
        let kept = (self.are_kept)(&keys);
        for ((key, version), is_kept) in keys.into_iter().zip(versions).zip(kept) {
            let uid = Uid::of(&key.uid);
            look.objects += 1;
            look.seen.push(uid);
            if let Some(drift) = self.judge(uid, version, is_kept) {
                look.suspect(key, uid, drift, version);
            }
        }
    }

    /// How an object that the API server has at `version` differs.
    fn judge(&self, uid: Uid, version: u64, is_kept: bool) -> Option<Drift> {
        match self.stats.shown().known(uid) {
            Ok(None) => Some(Drift::Missing),
            Ok(Some(known)) if known.version < version => Some(Drift::Outdated),
            Ok(Some(known)) if known.decoded && !is_kept => Some(Drift::NotKept),
            Ok(Some(_)) | Err(Deleted) => None,
        }
    }

    /// What the watch has shown at the version of the list or before, and the list does not show.
    async fn look_for_gone(&self, look: &mut Look<'a>) {
        let mut seen = std::mem::take(&mut look.seen);
        seen.sort_unstable();
        let mut last = None;
        loop {
            let part = self.stats.shown().after(last, PART);
            let Some((uid, _)) = part.last() else { return };
            last = Some(*uid);
            for (uid, known) in part {
                if known.version <= look.version && seen.binary_search(&uid).is_err() {
                    let key = ObjectKey { uid: uid.text().unwrap_or_default(), ..ObjectKey::default() };
                    look.suspect(key, uid, Drift::Gone, known.version);
                }
            }
            yield_now().await;
        }
    }

    /// What differs still, once the watch has come to where the list was; and how many more differed at the first look, if there were
    /// too many to be kept.
    pub async fn settle(&self, look: Look<'a>, patience: Patience) -> Result<(Vec<Suspect>, usize), Unsettled> {
        let Look { version, suspects, left_out, reads, _comparing, .. } = look;
        if suspects.is_empty() {
            return Ok((suspects, 0));
        }
        let end = Instant::now() + patience.most;
        sleep(patience.least).await;
        if self.stats.reached() < version {
            // A kind that does not change gets no event that tells, and a bookmark once a minute.
            self.orders.reach(version);
        }
        while self.stats.reached() < version {
            if Instant::now() >= end {
                return Err(Unsettled::Behind);
            }
            sleep(LOOK_EVERY).await;
        }
        let differing = self.still_differing(suspects);
        let left_out = if differing.is_empty() { 0 } else { left_out };
        // Asked last: a read that begins now has changed nothing of what was looked at.
        if self.stats.shown().is_comparable(reads) { Ok((differing, left_out)) } else { Err(Unsettled::ReadAnew) }
    }

    fn still_differing(&self, suspects: Vec<Suspect>) -> Vec<Suspect> {
        let mut differing = Vec::new();
        let mut suspects = suspects.into_iter();
        loop {
            let part: Vec<Suspect> = suspects.by_ref().take(PAGE as usize).collect();
            if part.is_empty() {
                return differing;
            }
            let keys: Vec<ObjectKey> = part.iter().map(|suspect| suspect.key.clone()).collect();
            let kept = (self.are_kept)(&keys);
            differing.extend(part.into_iter().zip(kept).filter_map(|(suspect, is_kept)| {
                let is_so = match suspect.drift {
                    Drift::Gone => {
                        matches!(self.stats.shown().known(suspect.uid), Ok(Some(known)) if known.version == suspect.version)
                    }
                    drift => self.judge(suspect.uid, suspect.version, is_kept) == Some(drift),
                };
                is_so.then_some(suspect)
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Reply, Scripted};
    use crate::watch::barrier::Order;
    use serde_json::{Value, json};

    fn uid(name: &str) -> String {
        format!("{name:0>8}-0000-4000-8000-000000000000")
    }

    fn object(name: &str, version: u64) -> Value {
        json!({"metadata": {"name": name, "namespace": "n", "uid": uid(name), "resourceVersion": version.to_string(),
            "labels": {"a": "b"}, "managedFields": [{"manager": "x"}]}})
    }

    async fn server(version: u64, objects: Vec<Value>) -> Scripted {
        Scripted::start(move |_| {
            let list = json!({"metadata": {"resourceVersion": version.to_string()}, "items": objects.clone()});
            async move { Reply::json(200, list) }
        })
        .await
    }

    /// A watch that was read whole and has shown these.
    fn shown<const N: usize>(reached: &str, objects: [(&str, &str); N]) -> WatchStats {
        let stats = WatchStats::default();
        stats.shown().begin();
        for (name, version) in objects {
            stats.shown().present(&uid(name), version, true);
        }
        stats.shown().synced();
        stats.reach(reached);
        stats
    }

    fn all_kept(keys: &[ObjectKey]) -> Vec<bool> {
        vec![true; keys.len()]
    }

    fn comparison<'a>(
        client: &'a Client,
        (stats, orders): (&'a WatchStats, &'a Orders),
        are_kept: &'a (dyn Fn(&[ObjectKey]) -> Vec<bool> + Sync),
    ) -> Comparison<'a> {
        Comparison {
            client,
            plural: "pods",
            path: "/api/v1/pods",
            fields: Some("status.phase!=Failed"),
            stats,
            orders,
            are_kept,
        }
    }

    const AT_ONCE: Patience = Patience { least: Duration::ZERO, most: Duration::from_millis(1) };

    fn named(suspects: &[Suspect]) -> Vec<String> {
        let short = |one: &Suspect| one.key.uid[..8].trim_start_matches('0').to_owned();
        suspects.iter().map(|one| format!("{} {}", one.drift.as_str(), short(one))).collect()
    }

    async fn settled(server: &Scripted, stats: &WatchStats) -> Vec<String> {
        let (client, orders) = (server.client(), Orders::default());
        let comparison = comparison(&client, (stats, &orders), &all_kept);
        let look = comparison.look().await.unwrap();
        named(&comparison.settle(look, AT_ONCE).await.unwrap().0)
    }

    #[tokio::test]
    async fn what_is_alike_asks_for_metadata_from_the_cache_and_waits_for_nothing() {
        let server = server(9, vec![object("a", 5), object("b", 6)]).await;
        // Far from the version of the list.
        let stats = shown("6", [("a", "5"), ("b", "7")]);
        assert!(settled(&server, &stats).await.is_empty());
        let asked = server.requests();
        assert_eq!(asked.len(), 1);
        for part in
            ["resourceVersion=1", "resourceVersionMatch=NotOlderThan", "limit=500", "fieldSelector=status.phase"]
        {
            assert!(asked[0].query.contains(part), "{part}: {}", asked[0].query);
        }
    }

    #[tokio::test]
    async fn what_the_watch_should_have_shown_is_found() {
        let server = server(9, vec![object("a", 5), object("b", 6), object("c", 7)]).await;
        let stats = shown("9", [("a", "5"), ("b", "4"), ("d", "8"), ("e", "10")]);
        // d went at the version of the list or before, e came after it.
        assert_eq!(settled(&server, &stats).await, ["outdated b", "missing c", "gone d"]);
    }

    #[tokio::test]
    async fn what_comes_before_the_second_look_is_no_drift() {
        let server = server(9, vec![object("a", 5), object("b", 6), object("c", 7)]).await;
        let stats = shown("5", [("a", "5"), ("b", "4"), ("d", "3")]);
        let (client, orders) = (server.client(), Orders::default());
        let comparison = comparison(&client, (&stats, &orders), &all_kept);
        let look = comparison.look().await.unwrap();
        assert_eq!(look.suspects.len(), 3);
        stats.shown().present(&uid("b"), "6", true);
        // It came and went.
        stats.shown().present(&uid("c"), "7", true);
        stats.shown().deleted(&uid("c"));
        stats.shown().deleted(&uid("d"));
        stats.reach("9");
        assert_eq!(comparison.settle(look, AT_ONCE).await, Ok((Vec::new(), 0)));
    }

    #[tokio::test]
    async fn a_watch_that_is_behind_or_reads_anew_says_nothing() {
        let server = server(9, vec![object("a", 5)]).await;
        let (client, orders) = (server.client(), Orders::default());
        let stats = shown("8", []);
        let comparison = comparison(&client, (&stats, &orders), &all_kept);
        let look = comparison.look().await.unwrap();
        let mut given = orders.subscribe();
        assert_eq!(comparison.settle(look, AT_ONCE).await, Err(Unsettled::Behind));
        assert_eq!(orders.next(&mut given).await, Order::Reach(9), "it was hurried");
        let look = comparison.look().await.unwrap();
        stats.reach("9");
        stats.shown().begin();
        assert_eq!(comparison.settle(look, AT_ONCE).await, Err(Unsettled::ReadAnew));
    }

    #[tokio::test]
    async fn what_the_ledger_does_not_keep_is_found_unless_it_cannot_be_read() {
        let server = server(9, vec![object("a", 5), object("b", 6)]).await;
        let (client, orders, stats) = (server.client(), Orders::default(), shown("9", [("a", "5")]));
        stats.shown().present(&uid("b"), "6", false);
        let none = |keys: &[ObjectKey]| vec![false; keys.len()];
        let comparison = comparison(&client, (&stats, &orders), &none);
        let look = comparison.look().await.unwrap();
        let (differing, _) = comparison.settle(look, AT_ONCE).await.unwrap();
        assert_eq!((differing.len(), differing[0].drift, &*differing[0].key.name), (1, Drift::NotKept, "a"));
    }

    #[tokio::test]
    async fn pages_are_followed_and_many_differences_are_counted() {
        let server = Scripted::start(|asked| async move {
            let (first, token) = if asked.query.contains("continue=") { (1_000, "") } else { (0, "next") };
            let items: Vec<Value> = (first..first + 1_000).map(|number| object(&number.to_string(), 5)).collect();
            Reply::json(200, json!({"metadata": {"resourceVersion": "9", "continue": token}, "items": items}))
        })
        .await;
        let (client, orders, stats) = (server.client(), Orders::default(), shown("9", []));
        let comparison = comparison(&client, (&stats, &orders), &all_kept);
        let look = comparison.look().await.unwrap();
        assert_eq!((look.objects, look.version), (2_000, 9));
        let (differing, left_out) = comparison.settle(look, AT_ONCE).await.unwrap();
        assert_eq!((differing.len(), left_out), (SUSPECTS, 2_000 - SUSPECTS));
        assert!(!server.requests()[1].query.contains("resourceVersion"), "{:?}", server.requests()[1]);
    }
}
