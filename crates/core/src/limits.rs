//! Every bound of the engine, each with its reason.

use std::time::Duration;

/// Entries the change log keeps. A worker that lags by more rebuilds; at 2,000 changes a second this is half a minute.
pub const CHANGE_LOG_ENTRIES: usize = 65_536;

/// Bytes of pods that the change log keeps alive: 64 KiB for each of 512 changes, where 65,536 changes of usual pods are some
/// 20 MB. A pod may be a megabyte, and its owner may change its labels as often as he likes.
pub const CHANGE_LOG_BYTES: usize = 32 << 20;

/// Conflicts in a row before an attempt goes to backoff: one retry is common under contention, four in a row are not.
pub const COMMIT_RETRIES: u32 = 3;

/// Decisions in one step before inputs are looked at again: a few milliseconds of work at most.
pub const DECISIONS_PER_STEP: usize = 64;

/// How long a bind, or a write before a bind, may be unanswered before those of its namespace are late and a full window opens for other
/// namespaces. A window of 128 is answered in this time where 128 binds a second are carried out; where fewer are, something hangs or has
/// too much to do.
pub const LATE_ANSWER: Duration = Duration::from_secs(1);

/// What one look at the ledger computes from nothing before it gives the lock back, in rows judged for a plain pod. A row takes
/// some 50 ns: 8,192 are 0.4 ms. Beside them a look walks over the rows that it knows already, 0.1 ms for 20,000. Writers wait for
/// the longest look, and every profile and watch waits with them. Below 5,000 nodes hardly any look is divided. A piece of work is
/// begun while any is left, and is not divided. Most are far smaller than this. Two are not, and have no bound of their own: a row for
/// a pod with 128 disks beside pods that others placed with far more (110 with 128 each are 7,000 units, with 512 each 28,000), and one
/// judgement of a dry run, which compares each of the pod's terms with each match class taken away, up to 1,150 a class.
pub const WORK_PER_HOLD: usize = 8_192;

/// Holds of the lock for one look, after which the attempt is given up, and made again after a pause: no pod may stop its worker. 4,096
/// are two seconds, or 33 million rows of a plain pod. Of pods within the limits below, only those with a thousand host ports, or with
/// a hundred disks or claims beside hundreds of others, need more, on thousands of nodes.
pub const HOLDS_PER_LOOK: usize = 4_096;

/// Parked pods that a snapshot asks the ledger about under one hold of its lock: some 100 ns each, 0.4 ms.
pub const PARKED_PODS_PER_HOLD: usize = 4_096;

/// Pods of the ledger that are looked at under one hold of its lock by whoever looks at all: some 100 ns each, 0.4 ms.
pub const PODS_PER_HOLD: usize = 4_096;

/// Nominations that are ended under one hold of the lock: some 1.5 µs each, 0.4 ms.
pub const NOMINATIONS_PER_HOLD: usize = 256;

/// Changes of the log, or pods of a worker that begins, that are taken up under one hold of the lock: some 200 ns each, 0.4 ms. A pod
/// counts once more for each of its claims. The log has up to [`CHANGE_LOG_ENTRIES`].
pub const CHANGES_PER_HOLD: usize = 2_048;

/// How often all pods that wait for their volumes or devices are looked at where something was seen of volumes or their drivers that may
/// concern some of them, and does not say which: 10,000 of them take 1.4 ms.
pub const ALL_WAITS_EVERY: Duration = Duration::from_secs(1);

/// Comparisons of labels, names, taints or ports that take as long as the rest of judging a row: a few nanoseconds each.
pub const COMPARISONS_PER_WORK: usize = 16;

/// A look at a claim that is being bound, in rows judged for a plain pod: the claim and its volume are looked up, and the volume's
/// affinity is compared with a node. As much is what begins the search for the volumes that a claim may get.
pub const WORK_PER_CLAIM: usize = 4;

/// How long the search for devices for a pod's claims may last on one node, in steps of some 20 ns: 20 ms, where upstream gives it 10 s. It
/// is divided among holds of the lock. The usual search takes some hundreds of steps; only one in which many devices almost fit, and no
/// combination does, takes more, and then exponentially more.
pub const DEVICE_STEPS: i64 = 1_000_000;

/// Solutions that took longer are kept and not searched again: a tenth of a millisecond is not much beside a bind.
pub const DEVICE_STEPS_REPEATED: i64 = 4_096;

/// How many such solutions are kept of a kind of claims, and how large one may be: some 16 MB with all kinds.
pub const DEVICE_SOLUTIONS_KEPT: usize = 128;
pub const DEVICE_SOLUTION_BYTES: usize = 16 << 10;

/// Steps of that search that take as long as judging a row.
pub const DEVICE_STEPS_PER_WORK: i64 = 2;

/// Kinds of claims whose answers of nodes are kept, and of how many nodes in all before the oldest kind goes: some 7 MB.
pub const DEVICE_QUESTIONS_KEPT: usize = 8;
pub const DEVICE_ROWS_KEPT: usize = 100_000;

/// The recent mix of a profile's pods, for the score Fragmentation: the kinds that are compared with each row, those that are counted (some
/// 100 bytes each, a kilobyte where a pod names dozens of resources, 20 where it asks for devices with dozens of capacities), and after how
/// many pods the shares are told anew, and all rows judged.
pub const FRAGMENTATION_KINDS: usize = 32;
pub const FRAGMENTATION_KINDS_COUNTED: usize = 512;
pub const FRAGMENTATION_PODS: u64 = 1_024;

/// Requests for devices that a pod may have and be seen with them, and different ones of all kinds that are kept, for each row with two bytes a
/// device and request.
pub const FRAGMENTATION_REQUESTS: usize = 8;
pub const FRAGMENTATION_WANTED: usize = 48;

/// How long the score looks for devices that a pod would take on a node, in steps as above; beyond it the pod takes none.
pub const FRAGMENTATION_DEVICE_STEPS: i64 = 16_384;

/// Extended resources that the score counts, and rows of which it keeps what was found, over all kinds of pods that are scored: 24 bytes
/// each, 3 MiB. At least so many kinds are kept, whatever the number of rows, and at most so many.
pub const FRAGMENTATION_RESOURCES: usize = 16;
pub const FRAGMENTATION_ROWS_KEPT: usize = 131_072;
pub const FRAGMENTATION_ASKS_KEPT: [usize; 2] = [4, 96];

/// What one selector may do for one device, as upstream's cost limit: what an API server takes stays far below it.
pub const SELECTOR_STEPS: u64 = 1_000_000;

/// Selectors that a worker keeps compiled: one of the greatest length takes some 200 KiB. Upstream keeps ten.
pub const SELECTORS_KEPT: usize = 128;

/// What selectors said of devices, in bytes: one each, and some 230 for each slice and selector. 4 MiB a worker: two selectors on 8,000
/// nodes.
pub const SELECTOR_ANSWERS_KEPT: usize = 4 << 20;

/// Scalar resources that one pod may name: the bits of a verdict.
pub const SCALARS_PER_POD: usize = 40;

/// Topology spread constraints of one pod. Each is a pass over the nodes, and a check of each node. Pods have one to
/// three.
pub const SPREAD_CONSTRAINTS_PER_POD: usize = 32;

/// Terms in one of the four lists of pod affinity and anti-affinity. Each may need a count over all nodes; a placed pod's
/// anti-affinity terms are checked for every pod that they match. Pods have one to five.
pub const POD_AFFINITY_TERMS_PER_POD: usize = 64;

/// Terms in one of the two lists of node affinity. Each may be compared with every node's labels.
pub const NODE_AFFINITY_TERMS_PER_POD: usize = 256;

/// Keys and values in all selectors of one pod. A node's name may be compared with each; lists of a few hundred host names are
/// seen in clusters.
pub const SELECTOR_VALUES_PER_POD: usize = 4_096;

/// Keys and values in the selector of an object that is no pod, counted as for a pod: a label with its value as one. Beyond it the object
/// is not read. An API server takes 1.4 MB, 230,000 short values, which are 11 MB here: 90 ReplicaSets of 0 replicas fill the memory
/// of both replicas. So many short values are 0.2 MB; long ones take little more here than they do there.
pub const SELECTOR_VALUES: usize = 4_096;

/// Pods that the status of a PodDisruptionBudget may list as disrupted, beyond which it is not read. An API server evicts no more pods of
/// a budget that lists over 2,000 (`MaxDisruptedPodSize` in `pkg/registry/core/pod/storage/eviction.go`); this is twice as many.
pub const DISRUPTED_PODS: usize = 4_096;

/// Tolerations of one pod. Each may be compared with every taint of every node.
pub const TOLERATIONS_PER_POD: usize = 256;

/// Host ports of one pod. Media servers take some hundreds; each is compared with those in use on a node.
pub const HOST_PORTS_PER_POD: usize = 1_024;

/// Containers of one pod, init containers included. Each image is looked up on every node.
pub const CONTAINERS_PER_POD: usize = 512;

/// Volumes of one pod, and monitors of its RBD images. Most volumes cost a scheduler nothing; each monitor is sorted and looked for among
/// those of other pods on a node.
pub const VOLUMES_PER_POD: usize = 512;

/// Claims, ephemeral volumes and disks of one pod. A claim that waits is matched with every free volume of its class, and one row is not
/// divided: each claim asks about each volume that the claims before it got, 8,000 questions, and a disk is looked for among those of
/// all pods of a node. Drivers attach up to 128 volumes to a node (GCE; 127 with AWS), and most pods have one to three.
pub const STORAGE_PER_POD: usize = 128;

/// ResourceClaims of one pod. Each is looked up, and one that is not allocated asks for up to 32 devices. Pods have one to four.
pub const RESOURCE_CLAIMS_PER_POD: usize = 128;

/// Capacities that one request of a ResourceClaim may name; a claim with more is not read. A device has 32 attributes and capacities at most,
/// and an API server takes as many names as fit into an object.
pub const CAPACITIES_PER_DEVICE_REQUEST: usize = 32;

/// Distinct scalar resources that the nodes of the whole cluster offer: each is a column over all nodes, 80 KB on 5,000.
pub const SCALAR_COLUMNS: usize = 512;

/// Scalar resources that one node may offer, so that no few nodes take all columns. Nodes with several kinds of accelerators
/// and network cards offer ten to thirty; a pod may request [`SCALARS_PER_POD`].
pub const SCALARS_PER_NODE: usize = 64;

/// Where the sum of what the pods of a node take stops, and the most that a node offers of anything: half of what an i64
/// holds, so that one sum and what an overlay adds to it or takes from it never overflow. 4 EiB are far beyond any node.
pub const LARGEST_SUM: i64 = i64::MAX / 2;

/// Bytes of class results that one worker keeps, with the shapes they are for: a thousand shapes on 5,000 nodes, a hundred on 100,000.
pub const CLASS_CACHE_BYTES: usize = 24 << 20;

/// Changes of rows after which all that is kept for a class of pods is forgotten, or as many as there are rows: the rows are remembered.
pub const TOUCHED_ROWS: usize = 4_096;

/// Shapes and priorities of which a worker knows that they fit nowhere as things are.
pub const KNOWN_REFUSALS: usize = 1_024;

/// Bytes of these shapes, which may be of pods that are gone.
pub const KNOWN_REFUSALS_BYTES: usize = 4 << 20;

/// Shapes remembered that have no table of their own, and no more than have room: one that comes back within so many others gets one.
pub const SHAPES_REMEMBERED: usize = 4_096;

/// Reasons listed in a profile's status.
pub const TOP_REASONS: usize = 10;

/// Profiles that run at once: each has a thread, a queue and class results.
pub const PROFILES: usize = 64;

/// How long a worker has decided nothing when it gives its caches back, up to some 80 MiB: filling them again takes a decision or two
/// some milliseconds longer. While it decides, it gives back once in so long what it has not used since the last time: shapes of pods
/// go out of use with their Job, and a cache would fill with them.
pub const IDLE_AFTER: Duration = Duration::from_mins(1);

/// How often pods that stay unschedulable too long are looked for. After `pkg/scheduler/backend/queue`.
pub const UNSCHEDULABLE_SWEEP: Duration = Duration::from_secs(30);

/// An attempt that takes longer is noted for the log with its parts. After the trace in `pkg/scheduler/schedule_one.go`.
pub const SLOW_ATTEMPT: Duration = Duration::from_millis(100);

/// The best nodes that the log names for each decision, where it is asked for: more are not read.
pub const BEST_NODES_NOTED: usize = 3;

/// Unknown fields listed in a profile's status; a longer list would tell no more.
pub const UNKNOWN_FIELDS_NAMED: usize = 32;

/// Bytes of layouts of nodes by topology key and node policies that one worker keeps: 4 bytes a node each, and as many for each
/// domain, and what is only theirs of a pod's node affinity. Most pods share a few; on 5,000 nodes these are four hundred.
pub const LAYOUT_BYTES: usize = 16 << 20;

/// Bytes of counters of matching pods by node that one worker keeps, selectors included: about 800 workloads on 5,000 nodes where a
/// score reads each node, and more where pods are counted by zone.
pub const COUNTER_BYTES: usize = 16 << 20;

/// Sums by domain that one counter keeps: a workload spreads by hostname and zone, with one set of tolerations.
pub const SUMS_PER_COUNTER: usize = 8;

/// Match classes for which one worker remembers the counters they change: as many as log entries between two attempts.
pub const MATCH_CLASSES_REMEMBERED: usize = 1024;

/// Pod shapes for which one worker keeps what a plugin resolved: a few hundred bytes each.
pub const SHAPES_RESOLVED: usize = 1024;

/// Bytes of what a plugin resolved for pod shapes: twenty of the largest pods that are not held.
pub const SHAPES_RESOLVED_BYTES: usize = 8 << 20;

/// Bytes of columns of topology keys: 4 bytes a node each, and some more for each value. Clusters use a handful of keys; on 5,000
/// nodes this is enough for eight hundred. Beyond it the key that no pod has named for longest loses its column.
pub const TOPOLOGY_BYTES: usize = 16 << 20;

/// Labels of nodes read for new columns in one write of the ledger: some 20 ns each, 0.3 ms. At least one column is made.
pub const TOPOLOGY_READS_PER_WRITE: usize = 16_384;

/// Topology keys remembered that pods name and that have no column: most are on no node, and get one with the first node that has
/// them.
pub const TOPOLOGY_KEYS_WANTED: usize = 1_024;

/// Nodes that do not exist, or not yet, whose pods have a row each: pods may be seen before their nodes, and stay after them.
/// Pods on more such nodes are set aside until their node is seen: each row costs every cache that has an entry for each row.
pub const GHOST_ROWS: usize = 1_024;

/// Bytes of interned values of one kind that nobody uses any more: a few thousand shapes of pods.
pub const INTERNED_BYTES: usize = 8 << 20;

/// Bytes of InterPodAffinity's counts that one worker keeps: three hundred term queries over hostnames on 5,000 nodes.
pub const AFFINITY_TABLES_BYTES: usize = 16 << 20;

/// Preemptions for one pod that were in vain each time (another scheduler took the capacity, an extender refused the node), before it may not
/// preempt for a while.
pub const STORM_PREEMPTIONS: u32 = 2;

/// How long such a pod may not preempt; then it may once more. Two preemptions an hour at most, where others had thousands.
pub const STORM_PAUSE: Duration = Duration::from_mins(30);

/// The time over which a profile's evictions are counted against its limit.
pub const VICTIMS_WINDOW: Duration = Duration::from_mins(1);

/// Match classes of placed and freed pods, in one scan of the log, that are matched against each waiting pod; above it every
/// waiting pod is retried.
pub const HINT_MATCH_CLASSES: usize = 128;

/// Drivers of devices, in one scan of the log, that are compared with what each waiting pod wants; above it every pod that waits for devices
/// is retried.
pub const HINT_DRIVERS: usize = 16;

/// Nodes, in one scan of the log, that are asked whether a waiting pod fits them now; above it every waiting pod is retried.
pub const HINT_ROWS: usize = 256;

/// What comparing these classes with waiting pods may take in one scan of the log, in rows judged for a plain pod: their terms and
/// selectors, and those of the pods that wait. Above it the remaining waiting pods are retried. Most terms are short and end at the
/// first label: then this takes no longer than the work of two holds.
pub const HINT_WORK: usize = 4 * WORK_PER_HOLD;

/// Holds of the lock for one comparison of a shadow, the preemption that it would ask for included; one that needs more is skipped.
/// What waits for it is the watch of pods: 64 holds are some 25 ms.
pub const HOLDS_PER_COMPARISON: usize = 64;

/// Comparisons that a shadow keeps, the newest ones: some 600 bytes each.
pub const COMPARISONS_KEPT: usize = 10_000;

/// Bytes that a comparison keeps of a text: reasons of filters, which name what tenants chose.
pub const COMPARISON_TEXT_BYTES: usize = 256;

/// Unanswered questions to one extender, above which a worker starts no more pods that it is interested in. Twice what it is
/// sent at once by default: one is answered while the next waits. At 10 ms a call these are 6,400 calls a second.
pub const EXTENDER_QUESTIONS: usize = 64;

/// How often a pod is tried while its extender's circuit is open: the breaker decides whether the call goes through. Without
/// this a recovery would be noticed only when a backoff ends, after ten seconds and more.
pub const EXTENDER_LOOK: Duration = Duration::from_secs(1);

/// Attempts of one worker that wait for extenders: each keeps the names of its nodes, some 20 KiB on 5,000 nodes.
pub const PARKED_ATTEMPTS: usize = 256;

/// Bytes that are kept of an extender's message: it ends up in conditions and events.
pub const EXTENDER_MESSAGE_BYTES: usize = 256;

/// Different extender messages that a refusal lists; some extenders write the node's name into each.
pub const EXTENDER_MESSAGES: usize = 32;
