//! Reads a cluster for as long as the screen is there: pods and nodes by watches, profiles and the Lease now and then, and the
//! leader's metrics.
//!
//! One thread runs all of it and the screen: the lock around the facts is never waited for.

use super::facts::{Facts, Profile};
use super::metrics::Scrape;
use crate::cli::live;
use crate::cli::live::lease::{self, Leader};
use anyhow::{Context, anyhow, bail};
use axum::http::{Request, Uri};
use berth_cluster::client::{self, Fault};
use berth_cluster::watch::{self, KindVisitor, Orders, Tracked, WatchEvent, WatchOptions};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams};
use kube::{Client, Config};
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The port of the metrics where the pod does not say it.
const PORT: i32 = 8080;

/// Longest wait for one scrape.
const SCRAPED_WITHIN: Duration = Duration::from_secs(10);

/// The pause after metrics were refused: a right or a token that is missing is not there a moment later.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// Looks between two lists of the profiles, whose statuses seldom change.
const PROFILES_EVERY: u32 = 3;

/// The facts, shared by the tasks of one thread.
pub(super) type Shared = Arc<Mutex<Facts>>;

/// The facts as they are. Never held across an await.
pub(super) fn facts(shared: &Shared) -> MutexGuard<'_, Facts> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where to look for the operator.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// The namespace of the operator's pods; `None`: as the Lease says.
    pub(super) home: Option<String>,
    pub(super) lease_namespace: String,
}

pub(super) struct Reader {
    client: Client,
    places: Places,
    shared: Shared,
    origin: Instant,
    /// Another way to the metrics than the API server's proxy.
    direct: Option<Direct>,
    looks: u32,
    /// Metrics are not asked for before.
    not_before: Instant,
    /// The pod whose port is known.
    port: Option<(String, i32)>,
    /// The watches; they end with the reader.
    watches: JoinSet<()>,
}

/// A URL of metrics, and the client for it.
pub(super) struct Direct {
    client: Client,
    path: String,
}

impl Direct {
    /// The token in `token_file` goes to `url`: in clear only within this machine.
    pub(super) fn new(url: &Uri, token_file: Option<&Path>) -> anyhow::Result<Self> {
        let host = url.host().filter(|_| url.scheme().is_some());
        let host = host
            .ok_or_else(|| anyhow!("--metrics-url {url}: write a whole URL, such as http://127.0.0.1:8080/metrics"))?;
        let mut config = Config::new(url.clone());
        if let Some(file) = token_file {
            let is_local = ["127.0.0.1", "localhost", "[::1]"].contains(&host);
            if url.scheme_str() != Some("https") && !is_local {
                bail!(
                    "--metrics-url {url}: a token is sent over https only, or to this machine: forward the port, or write https"
                );
            }
            let token = std::fs::read_to_string(file).with_context(|| format!("--metrics-token {}", file.display()))?;
            config.auth_info.token = Some(token.trim().to_owned().into());
        }
        let path = match url.path() {
            "/" | "" => "/metrics".to_owned(),
            path => path.to_owned(),
        };
        config.cluster_url = Uri::builder()
            .scheme(url.scheme_str().unwrap_or("http"))
            .authority(url.authority().map_or(host, |authority| authority.as_str()))
            .path_and_query("/")
            .build()?;
        config.default_retry = false;
        Ok(Self { client: Client::try_from(config).context("--metrics-url")?, path })
    }
}

struct Watches<'a> {
    client: &'a Client,
    shared: &'a Shared,
    tasks: JoinSet<()>,
}

impl KindVisitor for Watches<'_> {
    fn visit<K: Tracked>(&mut self) {
        let of_pods = match K::RESOURCE {
            "pods" => true,
            "nodes" => false,
            _ => return,
        };
        let shared = self.shared.clone();
        let sink = move |event: WatchEvent<K::Object>| facts(&shared).take(of_pods, event);
        let (orders, cancel) = (Orders::default(), CancellationToken::new());
        let client = self.client.clone();
        self.tasks.spawn(watch::run::<K>(client, WatchOptions::default(), Arc::default(), orders, cancel, sink, None));
    }
}

impl Reader {
    /// Begins to read. The facts fill as answers come.
    pub(super) fn new(client: Client, server: String, places: Places, direct: Option<Direct>) -> Self {
        let shared = Shared::default();
        facts(&shared).server = server;
        let mut watches = Watches { client: &client, shared: &shared, tasks: JoinSet::new() };
        watch::visit_kinds(&mut watches);
        let watches = watches.tasks;
        let now = Instant::now();
        Self { client, places, shared, origin: now, direct, looks: 0, not_before: now, port: None, watches }
    }

    pub(super) fn shared(&self) -> Shared {
        self.shared.clone()
    }

    /// Looks again and again, `every` so often, and after each look says so.
    pub(super) async fn follow(mut self, every: Duration, looked: impl Fn()) {
        loop {
            self.look().await;
            looked();
            // A watch ends only if it panicked.
            if self.watches.try_join_next().is_some() {
                return;
            }
            sleep(every).await;
        }
    }

    /// Reads once what is not watched.
    pub(super) async fn look(&mut self) {
        let home = self.lease().await;
        if self.looks.is_multiple_of(PROFILES_EVERY) {
            self.profiles().await;
        }
        self.looks = self.looks.wrapping_add(1);
        self.metrics(home).await;
        self.probe("pods", "/api/v1/pods", |facts| facts.pods.is_whole).await;
        self.probe("nodes", "/api/v1/nodes", |facts| facts.nodes.is_whole).await;
        let at = self.origin.elapsed();
        facts(&self.shared).count(at);
    }

    /// Notes what happened to a read of `what`.
    fn settle<T>(&self, what: &'static str, outcome: Result<T, Fault>, take: impl FnOnce(&mut Facts, T)) {
        let mut facts = facts(&self.shared);
        match outcome {
            Ok(read) => {
                facts.troubles.remove(what);
                take(&mut facts, read);
            }
            Err(fault) => drop(facts.troubles.insert(what, fault.to_string())),
        }
    }

    /// Reads who leads; returns the namespace of the operator's pods.
    async fn lease(&self) -> String {
        let read = lease::read(&self.client, &self.places.lease_namespace).await;
        let read = read.map_err(|error| Fault::of("get", "leases.coordination.k8s.io", &error));
        let named = read.as_ref().ok().and_then(Option::as_ref).and_then(lease::home_of).map(str::to_owned);
        self.settle("lease", read, |facts, lease| facts.led_by(Leader::of(lease.as_ref(), Timestamp::now())));
        self.places.home.clone().or(named).unwrap_or_else(|| lease::HOME.to_owned())
    }

    async fn profiles(&self) {
        let read = match live::list_profiles(&self.client).await {
            Err(error) => Err(Fault::of("list", "schedulerprofiles.scheduling.berth.dev", &error)),
            Ok(objects) => Ok(objects.into_iter().map(Profile::read).collect()),
        };
        self.settle("profiles", read, |facts, profiles| facts.profiles = profiles);
    }

    /// Finds out why a watch has not read everything yet; it tells only its log.
    async fn probe(&self, what: &'static str, path: &str, is_whole: impl Fn(&Facts) -> bool) {
        if is_whole(&facts(&self.shared)) {
            facts(&self.shared).troubles.remove(what);
            return;
        }
        let list = kube::core::Request::new(path).list(&ListParams::default().limit(1));
        let read = match list.map_err(kube::Error::BuildRequest) {
            Ok(list) => self.client.request::<Value>(list).await,
            Err(error) => Err(error),
        };
        let read = read.map_err(|error| Fault::of("list", what, &error));
        self.settle(what, read.map(drop), |_, ()| {});
    }

    /// Scrapes the leader.
    async fn metrics(&mut self, home: String) {
        if Instant::now() < self.not_before {
            return;
        }
        let scraped = timeout(SCRAPED_WITHIN, self.scrape(&home)).await;
        let scraped = scraped.unwrap_or_else(|_| Err(anyhow!("no answer within {} s", SCRAPED_WITHIN.as_secs())));
        let at = self.origin.elapsed();
        let mut facts = facts(&self.shared);
        match scraped {
            Ok(scrape) => facts.scraped(at, scrape),
            Err(error) => {
                facts.not_scraped(error.to_string());
                self.not_before = Instant::now() + REFUSED_FOR;
            }
        }
    }

    async fn scrape(&mut self, home: &str) -> anyhow::Result<Scrape> {
        let (client, path) = if let Some(direct) = &self.direct {
            (direct.client.clone(), direct.path.clone())
        } else {
            let pod = self.leading_pod()?;
            if !is_name(home) {
                bail!("{home} is no namespace: give --namespace");
            }
            let port = self.port_of(home, &pod).await;
            (self.client.clone(), format!("/api/v1/namespaces/{home}/pods/{pod}:{port}/proxy/metrics"))
        };
        let request = Request::get(path).body(Vec::new())?;
        let body = client.request_stream(request).await.map_err(|error| self.refused(home, &error))?;
        Ok(Scrape::read(body).await?)
    }

    /// The pod whose name begins the holder of the Lease.
    fn leading_pod(&self) -> anyhow::Result<String> {
        let facts = facts(&self.shared);
        let Some(Leader::Leads { holder, .. }) = &facts.leader else { bail!("no operator is known to lead") };
        let pod = holder.rsplit_once('_').map_or(&**holder, |(pod, _)| pod);
        if !is_name(pod) {
            bail!("the leader {holder} is no pod: give --metrics-url");
        }
        Ok(pod.to_owned())
    }

    /// The pod's port with the name that the chart gives it, if the pod may be read.
    async fn port_of(&mut self, home: &str, pod: &str) -> i32 {
        if let Some((_, port)) = self.port.as_ref().filter(|(of, _)| of == pod) {
            return *port;
        }
        let read = Api::<Pod>::namespaced(self.client.clone(), home).get_opt(pod).await;
        let spec = read.ok().flatten().and_then(|pod| pod.spec);
        let ports =
            spec.iter().flat_map(|spec| &spec.containers).flat_map(|container| container.ports.iter().flatten());
        let named = ports.into_iter().find(|port| port.name.as_deref() == Some("http"));
        let port = named.map_or(PORT, |port| port.container_port);
        self.port = Some((pod.to_owned(), port));
        port
    }

    /// What a refused scrape means, and what to do about it.
    fn refused(&self, home: &str, error: &kube::Error) -> anyhow::Error {
        let code = match error {
            kube::Error::Api(status) => status.code,
            _ => 0,
        };
        match (code, &self.direct) {
            (401, None) => anyhow!(
                "the operator asks for a token (metrics.authorization), which the API server's proxy does not pass on: give \
                 --metrics-url and --metrics-token"
            ),
            (403, None) => anyhow!(
                "may not get pods/proxy in namespace {home}, a strong right: give --metrics-url, or see docs/rbac.md"
            ),
            (404, None) => anyhow!("namespace {home} has no such pod as the leader: give --namespace or --metrics-url"),
            (401, Some(_)) => anyhow!("the operator asks for a token: give --metrics-token"),
            (403, Some(_)) => {
                anyhow!("the token's owner may not get /metrics: bind it to the ClusterRole berth-metrics-reader")
            }
            _ => anyhow!("{}", client::root_cause(error)),
        }
    }
}

/// Whether the text may be the name of an object: it becomes part of a path, of which `..` would be a step up.
fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(is_plain) && label.ends_with(is_plain) && label.chars().all(|c| is_plain(c) || c == '-')
    };
    text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_testing::{Asked, Reply, Scripted};
    use serde_json::json;

    /// A cluster with a pod, a node and a profile, in which metrics answer with `code`.
    async fn cluster(code: u16, holder: &'static str) -> Scripted {
        Scripted::start(move |asked: Asked| async move {
            let items = |items: Value| Reply::json(200, json!({"metadata": {"resourceVersion": "7"}, "items": items}));
            match &*asked.path {
                _ if asked.query.contains("watch=") => Reply::hang().await,
                "/api/v1/pods" => items(json!([{"metadata": {"name": "p", "namespace": "a", "uid": "p"},
                    "spec": {"schedulerName": "batch", "containers": [{"name": "c"}]}}])),
                "/api/v1/nodes" => items(json!([{"metadata": {"name": "n", "uid": "n"}}])),
                path if path.ends_with("/schedulerprofiles") => {
                    items(json!([{"metadata": {"name": "batch"}, "spec": {}}]))
                }
                path if path.contains("/leases/") => Reply::json(
                    200,
                    json!({"metadata": {"annotations": {"scheduling.berth.dev/installation": "home/berth"}},
                        "spec": {"holderIdentity": holder, "renewTime": "2999-01-01T00:00:00.000000Z"}}),
                ),
                "/api/v1/namespaces/home/pods/berth-0" => Reply::json(
                    200,
                    json!({"metadata": {"name": "berth-0"}, "spec": {"containers": [{"name": "berth",
                        "ports": [{"name": "http", "containerPort": 9000}]}]}}),
                ),
                "/api/v1/namespaces/home/pods/berth-0:9000/proxy/metrics" if code == 200 => Reply::json(200, json!({})),
                "/api/v1/namespaces/home/pods/berth-0:9000/proxy/metrics" => Reply::status(code, "no"),
                _ => Reply::status(404, "not there"),
            }
        })
        .await
    }

    async fn read(server: &Scripted) -> (Reader, Shared) {
        let places = Places { home: None, lease_namespace: "kube-system".to_owned() };
        let mut reader = Reader::new(server.client(), "https://x".to_owned(), places, None);
        let shared = reader.shared();
        for _ in 0..200 {
            reader.look().await;
            let is_whole = |facts: MutexGuard<'_, Facts>| facts.pods.is_whole && facts.nodes.is_whole;
            if is_whole(facts(&shared)) {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
        reader.look().await;
        (reader, shared)
    }

    #[tokio::test]
    async fn a_cluster_is_read_and_the_leaders_metrics_at_its_port() {
        let server = cluster(200, "berth-0_3f2a9c1e-77ab01cd").await;
        let (_reader, shared) = read(&server).await;
        let facts = facts(&shared);
        assert_eq!((facts.pods.waiting().count(), facts.nodes.len(), facts.profiles.len()), (1, 1, 1));
        assert!(facts.scrape.is_some() && facts.troubles.is_empty(), "{:?}", facts.troubles);
    }

    #[tokio::test]
    async fn metrics_that_are_refused_are_not_asked_for_again_at_once_and_it_is_said_why() {
        for (code, said) in [(401, "does not pass on"), (403, "pods/proxy in namespace home"), (404, "no such pod")] {
            let server = cluster(code, "berth-0_3f2a9c1e-77ab01cd").await;
            let (mut reader, shared) = read(&server).await;
            reader.look().await;
            let why = facts(&shared).troubles["metrics"].clone();
            assert!(why.contains(said), "{why}");
            assert_eq!(server.count("GET", "/proxy/metrics"), 1);
        }
    }

    #[tokio::test]
    async fn a_holder_that_is_no_name_of_a_pod_never_becomes_a_path() {
        let names = ["berth-7c9f-x2", "a", "node.example.com"].map(is_name);
        let others = ["", ".", "..", "a..b", "-a", "a/b", "a?b", "a%2e", "é", "A"].map(is_name);
        assert_eq!((names, others), ([true; 3], [false; 10]));
        let server = cluster(200, "../secrets/x_1").await;
        let (_reader, shared) = read(&server).await;
        assert!(facts(&shared).troubles["metrics"].contains("is no pod"));
        assert!(server.requests().iter().all(|asked| !asked.path.contains("secrets")));
    }

    #[tokio::test]
    async fn nor_does_what_is_no_name_of_a_namespace() {
        let (mut reader, _shared) = read(&cluster(200, "berth-0_3f2a9c1e-77ab01cd").await).await;
        let refused = reader.scrape("home/../secrets").await.err().unwrap().to_string();
        assert_eq!(refused, "home/../secrets is no namespace: give --namespace");
    }

    #[tokio::test]
    async fn a_token_goes_over_https_or_stays_on_this_machine() {
        let file = std::env::temp_dir().join(format!("berth-top-token-{}", std::process::id()));
        std::fs::write(&file, "secret\n").unwrap();
        let taken = |url: &str| Direct::new(&url.parse().unwrap(), Some(file.as_path())).map(|direct| direct.path);
        let refused = taken("http://10.0.0.1:8080/metrics").unwrap_err().to_string();
        let local = taken("http://127.0.0.1:8080").unwrap();
        let no_url = taken("/metrics").unwrap_err().to_string();
        std::fs::remove_file(&file).unwrap();
        assert!(refused.contains("over https only"), "{refused}");
        assert_eq!(local, "/metrics");
        assert!(no_url.contains("write a whole URL"), "{no_url}");
    }
}
