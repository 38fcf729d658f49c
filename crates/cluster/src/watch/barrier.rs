//! The barrier after a take-over: what a watch keeps of its kind must be as new as leadership before anything is decided on it.
//!
//! A watch that lags behind, or whose API server does, does not show the last binds of the leader before us. What shows that
//! it has caught up, cheapest first:
//!
//! 1. A whole read that began after leadership was taken: all whole reads are consistent.
//! 2. What the last leader had seen, if it released the Lease: the version of the newest object that its watch had shown, all of
//!    its own binds included. Every watch of the kind comes to see that object.
//! 3. A consistent read, a LIST of one object without resourceVersion, whose version the watch has reached. Where a kind does not
//!    change, the watch gets no event that tells; a kind with few objects is read again, and for one with many the watch is opened
//!    again for a few seconds: the API server sends a bookmark before the end of a call.
//! 4. If that does not come in time, a whole read.

use super::WatchStats;
use crate::send::{Call, version_number};
use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// Objects that are read again sooner than a bookmark comes.
const FEW: u64 = 6_000;

/// Objects that are read again before an event could come.
const VERY_FEW: u64 = 500;

/// Longest wait for an event of a kind that changes often.
const EVENT_WITHIN: Duration = Duration::from_millis(150);

/// Longest wait for the bookmark of a hurried watch. It comes a second or two after the call began.
const BOOKMARK_WITHIN: Duration = Duration::from_secs(6);

/// Longest wait for what the last leader had seen: its events were sent to all watches at the same time.
const SEEN_WITHIN: Duration = Duration::from_secs(1);

/// Longest wait for the consistent read.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// First pause after a consistent read that failed; it doubles up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(200);

/// Refused reads of an optional kind after which it is read whole. An API server that has just started may refuse for a moment, and a watch that
/// is refused looks again only minutes later.
const REFUSALS: u32 = 3;

/// Longest pause: an API server that comes back is asked soon enough, and one that does not is not pressed.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How often progress is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// An order that interrupts a watch, whatever it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    None,
    /// Somebody waits for this version.
    Reach(u64),
    /// A whole read is needed that begins no sooner than then.
    Read(Instant),
}

/// Sends orders to one watch. Cheap to clone; all clones reach the same watch.
#[derive(Debug, Clone)]
pub struct Orders(watch::Sender<Order>);

impl Default for Orders {
    fn default() -> Self {
        Self(watch::Sender::new(Order::None))
    }
}

impl Orders {
    /// To read everything makes any other order needless, also one that comes before the watch has taken the first.
    pub(super) fn give(&self, order: Order) {
        self.0.send_modify(|given| {
            *given = match (*given, order) {
                (Order::Read(one), Order::Read(other)) => Order::Read(one.max(other)),
                (Order::Read(since), _) => Order::Read(since),
                _ => order,
            };
        });
    }

    /// Somebody waits until the watch has come to this version.
    pub(super) fn reach(&self, version: u64) {
        self.give(Order::Reach(version));
    }

    /// Has the kind read anew.
    pub fn read(&self) {
        self.give(Order::Read(Instant::now()));
    }

    /// Whether the watch has taken the last order.
    #[cfg(test)]
    pub(super) fn is_taken(&self) -> bool {
        *self.0.borrow() == Order::None
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Order> {
        self.0.subscribe()
    }

    /// Takes the next order, as the only one who does.
    pub(super) async fn next(&self, orders: &mut watch::Receiver<Order>) -> Order {
        if orders.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        let mut taken = Order::None;
        self.0.send_if_modified(|given| {
            taken = std::mem::replace(given, Order::None);
            false
        });
        taken
    }
}

/// How a kind passed the barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// It was read whole.
    Read,
    /// It has what the last leader had seen.
    LastSeen,
    /// It has what a consistent read showed.
    Version,
    /// The cluster does without it.
    Absent,
}

/// One kind before the barrier.
#[derive(Clone)]
pub struct Barrier<'a> {
    pub client: &'a Client,
    /// The path of its collection.
    pub path: &'static str,
    /// Whether the cluster may do without it: where the watch is answered 403 or 404, there is nothing of it.
    pub optional: bool,
    pub stats: &'a WatchStats,
    pub orders: &'a Orders,
    /// When leadership was known to be ours.
    pub since: Instant,
    /// The version that the last leader had seen when it released the Lease.
    pub last_seen: Option<u64>,
}

impl std::fmt::Debug for Barrier<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Barrier").field("path", &self.path).field("last_seen", &self.last_seen).finish_non_exhaustive()
    }
}

/// What a consistent read showed of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Newest {
    /// `None` if it is no number: then nothing can be compared with it.
    version: Option<u64>,
    /// How many objects there are, where the server says so.
    objects: u64,
}

/// Why a consistent read showed nothing.
enum Unknown {
    /// The cluster may do without the kind: the watch has to find out.
    Refused {
        code: u16,
    },
    Failed(String),
}

impl Barrier<'_> {
    /// Returns once what the watch keeps is as new as leadership.
    pub async fn pass(&self) -> Passed {
        let (mut last_seen, mut pause, mut refusals) = (self.last_seen, PAUSE, 0);
        loop {
            if self.is_read() {
                return Passed::Read;
            }
            if self.is_found_absent() {
                return Passed::Absent;
            }
            let is_absent = self.stats.absence().is_some();
            if !is_absent && self.stats.whole_read_began().is_none() {
                // The first read is under way.
                sleep(LOOK_EVERY).await;
                continue;
            }
            if let Some(version) = last_seen.take().filter(|_| !is_absent)
                && self.reaches(version, SEEN_WITHIN).await
            {
                return Passed::LastSeen;
            }
            match self.newest().await {
                // The watch found that out up to some minutes before leadership, and it is so still.
                Err(Unknown::Refused { code: 404 }) if is_absent => return Passed::Absent,
                Ok(newest) if !is_absent && self.catches_up_with(newest).await => return Passed::Version,
                Err(Unknown::Refused { .. }) if refusals < REFUSALS => {
                    refusals += 1;
                    sleep(PAUSE).await;
                }
                // The watch may go on with what it has where a read is refused: that is older than leadership, and must not count.
                Ok(_) | Err(Unknown::Refused { .. }) => {
                    self.orders.give(Order::Read(self.since));
                    while !self.is_read() && !self.is_found_absent() {
                        sleep(LOOK_EVERY).await;
                    }
                }
                Err(Unknown::Failed(why)) => {
                    tracing::warn!(
                        path = self.path,
                        why,
                        pause_ms = pause.as_millis(),
                        "not known how new this kind is; it is asked again"
                    );
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    fn is_read(&self) -> bool {
        self.stats.whole_read_began().is_some_and(|began| began >= self.since)
    }

    fn is_found_absent(&self) -> bool {
        self.stats.found_absent().is_some_and(|began| began >= self.since)
    }

    /// Whether the watch comes to where the consistent read was, without a whole read.
    async fn catches_up_with(&self, newest: Newest) -> bool {
        let Some(version) = newest.version else { return false };
        let patience = if newest.objects <= VERY_FEW { Duration::ZERO } else { EVENT_WITHIN };
        if self.reaches(version, patience).await {
            return true;
        }
        if newest.objects <= FEW {
            return false;
        }
        self.orders.give(Order::Reach(version));
        self.reaches(version, BOOKMARK_WITHIN).await
    }

    async fn reaches(&self, version: u64, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            if self.stats.reached() >= version {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn newest(&self) -> Result<Newest, Unknown> {
        let answer = Call::get(format!("{}?limit=1", self.path)).send(self.client, ANSWER_WITHIN).await;
        let answer = answer.map_err(|error| Unknown::Failed(error.to_string()))?;
        match answer.code {
            code @ (403 | 404) if self.optional => Err(Unknown::Refused { code }),
            _ if !answer.is_success() => Err(Unknown::Failed(answer.message())),
            _ => read_newest(&answer.body).ok_or_else(|| Unknown::Failed("the answer is no list".to_owned())),
        }
    }
}

fn read_newest(body: &[u8]) -> Option<Newest> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        resource_version: String,
        remaining_item_count: Option<u64>,
        #[serde(default, rename = "continue")]
        token: String,
    }
    #[derive(Deserialize)]
    struct Page {
        metadata: Meta,
        #[serde(default)]
        items: Vec<IgnoredAny>,
    }
    let Page { metadata, items } = serde_json::from_slice(body).ok()?;
    // More, and the server does not say how many.
    let unsaid = if metadata.token.is_empty() { 0 } else { u64::MAX };
    let objects = metadata.remaining_item_count.unwrap_or(unsaid).saturating_add(items.len() as u64);
    let version = Some(version_number(&metadata.resource_version)).filter(|version| *version > 0);
    Some(Newest { version, objects })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Reply, Scripted};
    use crate::watch::Absence;
    use serde_json::json;
    use std::sync::{Arc, Mutex};

    /// A server on which the newest version is 50, of so many objects.
    async fn server(remaining: u64) -> Scripted {
        Scripted::start(move |_| async move {
            let metadata = json!({"resourceVersion": "50", "continue": "x", "remainingItemCount": remaining});
            Reply::json(200, json!({"metadata": metadata, "items": [{"metadata": {"name": "a"}}]}))
        })
        .await
    }

    /// The barrier of a watch that was read whole before leadership, and has reached `reached`.
    async fn pass(server: &Scripted, stats: &WatchStats, orders: &Orders, last_seen: Option<u64>) -> Passed {
        pass_kind(server, stats, orders, last_seen, false).await
    }

    /// How a barrier is passed beside what answers its orders: an order that does not come fails the test.
    async fn beside(passed: impl Future<Output = Passed>, answers: impl Future<Output = ()>) -> Passed {
        let both = async { tokio::join!(passed, answers).0 };
        tokio::time::timeout(Duration::from_secs(60), both).await.expect("the barrier orders a read")
    }

    async fn pass_kind(
        server: &Scripted,
        stats: &WatchStats,
        orders: &Orders,
        last_seen: Option<u64>,
        optional: bool,
    ) -> Passed {
        let (client, since) = (server.client(), Instant::now());
        let barrier = Barrier { client: &client, path: "/api/v1/pods", optional, stats, orders, since, last_seen };
        tokio::time::timeout(Duration::from_secs(20), barrier.pass()).await.expect("passed")
    }

    fn warm(reached: &str) -> WatchStats {
        let stats = WatchStats::default();
        stats.whole_read(Some(Instant::now() - Duration::from_millis(1)));
        stats.reach(reached);
        stats
    }

    #[tokio::test]
    async fn an_order_to_read_is_not_lost_to_a_later_one() {
        let orders = Orders::default();
        let mut given = orders.subscribe();
        orders.read();
        orders.reach(7);
        assert!(matches!(orders.next(&mut given).await, Order::Read(_)));
        orders.reach(8);
        assert_eq!(orders.next(&mut given).await, Order::Reach(8));
        let now = Instant::now();
        orders.give(Order::Read(now));
        orders.give(Order::Read(now - Duration::from_secs(1)));
        assert_eq!(orders.next(&mut given).await, Order::Read(now), "a read is to be new enough for both");
    }

    #[tokio::test]
    async fn a_watch_that_is_there_passes_by_one_read() {
        let server = server(0).await;
        let (stats, orders) = (warm("50"), Orders::default());
        assert_eq!(pass(&server, &stats, &orders, None).await, Passed::Version);
        let asked = server.requests();
        assert_eq!((asked.len(), &*asked[0].path, &*asked[0].query), (1, "/api/v1/pods", "limit=1"));
    }

    #[tokio::test]
    async fn what_the_last_leader_had_seen_is_enough_and_less_is_not() {
        let server = server(0).await;
        assert_eq!(pass(&server, &warm("40"), &Orders::default(), Some(40)).await, Passed::LastSeen);
        assert!(server.requests().is_empty());

        let (stats, orders) = (warm("40"), Orders::default());
        let mut given = orders.subscribe();
        let read = async {
            // What does not come true: the consistent read counts.
            assert!(matches!(orders.next(&mut given).await, Order::Read(_)));
            assert_eq!(stats.whole_read_began().map(|began| began.elapsed() < SEEN_WITHIN), Some(false));
            stats.whole_read(Some(Instant::now()));
        };
        assert_eq!(tokio::join!(pass(&server, &stats, &orders, Some(41)), read).0, Passed::Read);
    }

    #[tokio::test]
    async fn few_objects_are_read_again_and_of_many_a_bookmark_is_awaited() {
        let (stats, orders) = (warm("40"), Orders::default());
        let few = server(FEW - 1).await;
        let mut given = orders.subscribe();
        let read = async {
            assert!(matches!(orders.next(&mut given).await, Order::Read(_)));
            stats.whole_read(Some(Instant::now()));
        };
        assert_eq!(beside(pass(&few, &stats, &orders, None), read).await, Passed::Read);

        let (stats, orders) = (warm("40"), Orders::default());
        let many = server(FEW).await;
        let mut given = orders.subscribe();
        let hurried = async {
            assert_eq!(orders.next(&mut given).await, Order::Reach(50));
            stats.reach("51");
        };
        assert_eq!(beside(pass(&many, &stats, &orders, None), hurried).await, Passed::Version);
    }

    #[tokio::test]
    async fn a_read_that_began_before_leadership_is_not_enough_and_a_later_one_is_137308() {
        let (stats, orders) = (WatchStats::default(), Orders::default());
        let server = server(0).await;
        let (began, mut given) = (Instant::now(), orders.subscribe());
        let reads = async {
            stats.reach("49");
            stats.whole_read(Some(began - Duration::from_millis(1)));
            assert!(matches!(orders.next(&mut given).await, Order::Read(_)));
            stats.whole_read(Some(Instant::now()));
        };
        assert_eq!(beside(pass(&server, &stats, &orders, None), reads).await, Passed::Read);
        assert_eq!(server.requests().len(), 1);
    }

    #[tokio::test]
    async fn an_optional_kind_that_is_withdrawn_does_not_hold_the_barrier() {
        for code in [403, 404] {
            // What the watch keeps may be older than leadership: it has to find out itself.
            let (stats, orders) = (warm("40"), Orders::default());
            let server = Scripted::start(move |_| async move { Reply::status(code, "not here") }).await;
            let mut given = orders.subscribe();
            let withdrawn = async {
                assert!(matches!(orders.next(&mut given).await, Order::Read(_)));
                stats.set_absence(Some((Absence::Forbidden, Instant::now())));
            };
            let passed = pass_kind(&server, &stats, &orders, None, true);
            assert_eq!(beside(passed, withdrawn).await, Passed::Absent);
            assert_eq!(server.requests().len(), 1 + REFUSALS as usize);
        }
        // Or while it is read anew.
        let (stats, orders, server) = (warm("40"), Orders::default(), server(0).await);
        let mut given = orders.subscribe();
        let withdrawn = async {
            assert!(matches!(orders.next(&mut given).await, Order::Read(_)));
            stats.set_absence(Some((Absence::Forbidden, Instant::now())));
        };
        let passed = pass_kind(&server, &stats, &orders, None, true);
        assert_eq!(beside(passed, withdrawn).await, Passed::Absent);
    }

    /// The right to list it was given back meanwhile, and a watch that is refused looks again only minutes later.
    #[tokio::test]
    async fn an_absence_that_was_found_before_leadership_is_asked_about() {
        // What it had shown before that is nothing to go by.
        let (stats, orders) = (warm("50"), Orders::default());
        stats.set_absence(Some((Absence::Forbidden, Instant::now())));
        let mut given = orders.subscribe();
        let read = async {
            assert!(matches!(orders.next(&mut given).await, Order::Read(_)));
            stats.set_absence(None);
            stats.whole_read(Some(Instant::now()));
        };
        let here = server(0).await;
        let passed = pass_kind(&here, &stats, &orders, Some(40), true);
        assert_eq!(beside(passed, read).await, Passed::Read);

        stats.set_absence(Some((Absence::NotServed, Instant::now())));
        stats.whole_read(None);
        let gone = Scripted::start(|_| async { Reply::status(404, "not here") }).await;
        assert_eq!(pass_kind(&gone, &stats, &orders, None, true).await, Passed::Absent);
        assert_eq!(gone.requests().len(), 1, "a kind that is not served is asked about once");
    }

    #[tokio::test]
    async fn a_read_that_fails_is_repeated_after_growing_pauses() {
        let (times, began) = (Arc::<Mutex<Vec<u128>>>::default(), Instant::now());
        let noted = times.clone();
        let server = Scripted::start(move |asked| {
            noted.lock().unwrap().push(began.elapsed().as_millis());
            async move {
                let list = json!({"metadata": {"resourceVersion": "40"}, "items": []});
                if asked.number < 3 { Reply::status(403, "not yet") } else { Reply::json(200, list) }
            }
        })
        .await;
        assert_eq!(pass_kind(&server, &warm("40"), &Orders::default(), None, false).await, Passed::Version);
        let times = times.lock().unwrap();
        let pauses: Vec<u128> = times.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(pauses.len() == 3 && pauses[0] >= 200 && pauses[1] >= 400 && pauses[2] >= 800, "{pauses:?}");
    }

    #[test]
    fn versions_that_are_no_numbers_are_not_compared() {
        let list = |version: &str| json!({"metadata": {"resourceVersion": version}, "items": []}).to_string();
        assert_eq!(read_newest(list("7").as_bytes()), Some(Newest { version: Some(7), objects: 0 }));
        assert_eq!(read_newest(list("v-7").as_bytes()), Some(Newest { version: None, objects: 0 }));
        assert_eq!(read_newest(b"{}"), None);
        let unsaid = json!({"metadata": {"resourceVersion": "7", "continue": "x"}, "items": [{}]}).to_string();
        assert_eq!(read_newest(unsaid.as_bytes()).map(|newest| newest.objects), Some(u64::MAX));
    }
}
