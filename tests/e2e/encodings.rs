//! The same cluster read in both encodings, from an API server that has both.

use berth_cluster::client;
use berth_cluster::proto::Encoding;
use berth_cluster::watch::{self, KindVisitor, Orders, Tracked, WatchEvent, WatchOptions};
use berth_lab::NodeSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cluster::{namespace, shared};
use crate::objects::{pod, pod_path};

/// What was read of each kind, in words.
type Seen = Arc<Mutex<BTreeMap<&'static str, Vec<String>>>>;

/// Reads each kind once and ends.
struct Reads {
    client: kube::Client,
    encoding: Encoding,
    seen: Seen,
    tasks: JoinSet<()>,
}

impl KindVisitor for Reads {
    fn visit<K: Tracked>(&mut self) {
        let (cancel, seen) = (CancellationToken::new(), self.seen.clone());
        let over = cancel.clone();
        let sink = move |event: WatchEvent<K::Object>| {
            let mut seen = seen.lock().unwrap();
            let objects = seen.entry(K::RESOURCE).or_default();
            match event {
                WatchEvent::Begin => objects.clear(),
                WatchEvent::Item(object) => objects.push(format!("{:?}", object.into())),
                WatchEvent::Bad(bad) => objects.push(format!("{bad:?}")),
                WatchEvent::Synced => over.cancel(),
                WatchEvent::Apply(_) | WatchEvent::Delete(_) => {}
            }
        };
        let options = WatchOptions { encoding: self.encoding, ..WatchOptions::default() };
        let client = self.client.clone();
        self.tasks.spawn(watch::run::<K>(client, options, Arc::default(), Orders::default(), cancel, sink, None));
    }
}

/// The objects of this test in each kind, and all kinds that were read.
fn read(encoding: Encoding) -> (Vec<String>, BTreeSet<&'static str>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let seen = runtime.block_on(async {
        let config = client::configure_for(Some(&shared().plane.kubeconfig), None).await.unwrap();
        let (client, _) = client::reader(config).await.unwrap();
        let mut reads = Reads { client, encoding, seen: Seen::default(), tasks: JoinSet::new() };
        watch::visit_kinds(&mut reads);
        while reads.tasks.join_next().await.is_some() {}
        reads.seen
    });
    let seen = seen.lock().unwrap();
    // Other tests share the cluster.
    let ours = seen.values().flatten().filter(|object| object.contains("both-encodings")).cloned().collect();
    (ours, seen.keys().copied().collect())
}

#[test]
fn the_real_api_server_has_each_kind_in_protobuf_and_it_reads_as_in_json() {
    let plane = &shared().plane;
    namespace(plane, "both-encodings");
    plane.create_nodes(1, |_| NodeSpec::new("both-encodings", "zone-e", "8", "32Gi")).unwrap();
    plane.api.post(&pod_path("both-encodings", ""), &pod("both-encodings", "p", "nobody-serves-this", "100m")).unwrap();
    // A node's conditions may change between two reads, but not time and again.
    let mut pairs = (0..20).map(|_| [Encoding::Json, Encoding::Protobuf].map(read));
    let same = pairs.find(|[(json, _), (protobuf, _)]| json == protobuf);
    let [(objects, kinds), _] = same.expect("both encodings show the same, at least once");
    assert!(objects.len() >= 3, "a namespace, a node and a pod: {objects:?}");
    assert_eq!(kinds.len(), watch::KINDS.len());
    // What the client asks for is answered in protobuf, lists and watches alike.
    for path in ["/api/v1/pods?limit=1", "/api/v1/nodes?watch=1&timeoutSeconds=1"] {
        let accepted = Encoding::Protobuf.accept();
        let mut begins = [0; 4];
        plane.api.stream(path, accepted.to_str().unwrap()).unwrap().read_exact(&mut begins).unwrap();
        let is_list = begins == *b"k8s\0";
        assert!(is_list || path.contains("watch") && begins[0] == 0, "{path}: {begins:?}");
    }
}
