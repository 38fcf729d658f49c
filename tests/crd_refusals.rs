//! What the real API server makes of profiles: bad ones are refused with the field named, good ones stay as they were written.
//!
//! Every profile goes through `kubectl apply` with its usual strict validation, as users send them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails where it stands")]

use berth_api as api;
use berth_lab::{ControlPlane, Options};
use serde_json::{Value, json};

/// A spec that must be refused.
struct Bad {
    /// The spec, as YAML in one line.
    spec: &'static str,
    /// What the message must contain, the field first.
    says: &'static [&'static str],
}

const fn bad(spec: &'static str, says: &'static [&'static str]) -> Bad {
    Bad { spec, says }
}

#[rustfmt::skip] // One row per profile: the table is read down, not across.
const BAD_SPECS: &[Bad] = &[
    // Unknown fields and wrong types.
    bad("{plugins: []}", &["unknown field \"spec.plugins\""]),
    bad("{nodes: {partition: Shared}}", &["unknown field \"spec.nodes.partition\""]),
    bad("{scores: [{name: ImageLocality, wieght: 2}]}", &["unknown field \"spec.scores[0].wieght\""]),
    bad("{pluginArgs: {defaultPreemption: {}}}", &["unknown field \"spec.pluginArgs.defaultPreemption\""]),
    bad("{pluginArgs: {nodeResourcesFit: {leastAllocated: {}, mostAllocated: {}}}}", &["unknown field \"spec.pluginArgs.nodeResourcesFit.leastAllocated\"", "unknown field \"spec.pluginArgs.nodeResourcesFit.mostAllocated\""]),
    bad("{mode: true}", &["spec.mode", "boolean"]),
    bad("{schedulerNames: batch}", &["spec.schedulerNames", "must be of type array"]),
    bad("{filters: {NodePorts: Disabled}}", &["unknown field \"spec.filters.NodePorts\""]),
    bad("{nodes: {percentageToScore: half}}", &["spec.nodes.percentageToScore", "must be of type integer"]),
    bad("{nodes: {percentageToScore: 12.5}}", &["spec.nodes.percentageToScore", "must be of type integer"]),
    bad("{queue: {initialBackoff: 1}}", &["spec.queue.initialBackoff", "must be of type string"]),
    // Enums.
    bad("{mode: Asleep}", &["spec.mode", "\"Active\", \"Paused\", \"DryRun\""]),
    // Modes and other schedulers' pods.
    bad("{mode: DryRun}", &["spec.shadow", "set both"]),
    bad("{shadow: {schedulerNames: [default-scheduler]}}", &["spec.shadow", "or neither"]),
    bad("{mode: DryRun, shadow: {}}", &["spec.shadow.schedulerNames", "Required value"]),
    bad("{mode: DryRun, shadow: {schedulerNames: []}}", &["spec.shadow.schedulerNames", "at least 1 items"]),
    bad("{mode: DryRun, shadow: {schedulerNames: [Other]}}", &["spec.shadow.schedulerNames[0]", "should match"]),
    bad("{mode: DryRun, schedulerNames: [a, b], shadow: {schedulerNames: [b]}}", &["spec.shadow.schedulerNames", "remove it from one of the two"]),
    bad("{mode: DryRun, shadow: {schedulerNames: [other]}, namespaces: {route: {selector: {}}}}", &["spec.namespaces.route", "would wait"]),
    // Rollouts.
    bad("{rollout: {percent: 100}}", &["spec.rollout.percent", "less than or equal to 99"]),
    bad("{rollout: {by: Node}}", &["spec.rollout.by", "\"Pod\", \"Namespace\""]),
    bad("{rollout: {duration: 169h}}", &["spec.rollout.duration", "between 1s and 168h"]),
    bad("{rollout: {window: 0s}}", &["spec.rollout.window", "between 1s and 24h"]),
    bad("{rollout: {minPods: 0}}", &["spec.rollout.minPods", "greater than or equal to 1"]),
    bad("{rollout: {abort: {unschedulablePercentOver: -1}}}", &["spec.rollout.abort.unschedulablePercentOver", "greater than or equal to 0"]),
    bad("{rollout: {abort: {pendingOver: 25h}}}", &["spec.rollout.abort.pendingOver", "between 0s and 24h"]),
    bad("{preset: HighDensityGPU}", &["spec.preset", "\"Default\", \"BinPack\", \"Spread\", \"NoScoring\""]),
    bad("{unknownFields: Ignore}", &["spec.unknownFields", "\"Warn\", \"Hold\""]),
    bad("{allowUnsafe: Yes please}", &["spec.allowUnsafe", "\"None\", \"Acknowledged\""]),
    bad("{namespaces: {access: Some}}", &["spec.namespaces.access", "\"All\", \"Restricted\""]),
    // Scheduler names.
    bad("{schedulerNames: []}", &["spec.schedulerNames", "at least 1 items"]),
    bad("{schedulerNames: [a, b, c, d, e, f, g, h, i]}", &["spec.schedulerNames", "at most 8 items"]),
    bad("{schedulerNames: [a, b, a]}", &["spec.schedulerNames[2]", "Duplicate value"]),
    bad("{schedulerNames: [Batch]}", &["spec.schedulerNames[0]", "should match"]),
    bad("{schedulerNames: ['']}", &["spec.schedulerNames[0]", "at least 1 chars"]),
    // Filters and scores.
    bad("{filters: [{name: EBSLimits, state: Disabled}]}", &["spec.filters[0].name", "Unsupported value"]),
    bad("{filters: [{name: SchedulingGates}]}", &["spec.filters[0].name", "Unsupported value"]),
    bad("{filters: [{state: Disabled}]}", &["spec.filters[0].name", "Required value"]),
    bad("{filters: [{name: NodePorts}, {name: NodePorts}]}", &["spec.filters[1]", "Duplicate value"]),
    bad("{filters: [{name: NodePorts, state: Off}]}", &["spec.filters[0].state", "\"Enabled\", \"Disabled\""]),
    bad("{filters: [{name: NodeName, state: Disabled}]}", &["spec.filters", "set spec.allowUnsafe: Acknowledged"]),
    bad("{filters: [{name: NodeUnschedulable, state: Disabled}]}", &["spec.filters", "set spec.allowUnsafe: Acknowledged"]),
    bad("{allowUnsafe: None, filters: [{name: NodeResourcesFit, state: Disabled}]}", &["spec.filters", "set spec.allowUnsafe: Acknowledged"]),
    bad("{scores: [{name: VolumeBinding, weight: 2}]}", &["spec.scores[0].name", "Unsupported value"]),
    bad("{scores: [{name: NodePorts}]}", &["spec.scores[0].name", "Unsupported value"]),
    bad("{scores: [{name: ImageLocality, weight: 0}]}", &["spec.scores[0].weight", "greater than or equal to 1"]),
    bad("{scores: [{name: ImageLocality, weight: -3}]}", &["spec.scores[0].weight", "greater than or equal to 1"]),
    bad("{scores: [{name: ImageLocality, weight: 1000001}]}", &["spec.scores[0].weight", "less than or equal to 1000000"]),
    bad("{scores: [{name: ImageLocality, weight: 1.5}]}", &["spec.scores[0].weight", "must be of type integer"]),
    bad("{scores: [{name: ImageLocality, weight: 2, state: Disabled}]}", &["spec.scores[0].weight", "remove weight, or set state: Enabled"]),
    bad("{scores: [{name: ImageLocality}, {name: ImageLocality, state: Disabled}]}", &["spec.scores[1]", "Duplicate value"]),
    // NodeResourcesFit.
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {}}}}", &["spec.pluginArgs.nodeResourcesFit.strategy.type", "Required value"]),
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {type: PerResource}}}}", &["spec.pluginArgs.nodeResourcesFit.strategy.type", "Unsupported value"]),
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {type: [LeastAllocated, MostAllocated]}}}}", &["spec.pluginArgs.nodeResourcesFit.strategy.type", "must be of type string"]),
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {type: MostAllocated, shape: [{utilization: 0, score: 0}]}}}}", &["spec.pluginArgs.nodeResourcesFit.strategy.shape", "only type RequestedToCapacityRatio reads a shape"]),
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {type: RequestedToCapacityRatio}}}}", &["spec.pluginArgs.nodeResourcesFit.strategy.shape", "needs a shape"]),
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {type: RequestedToCapacityRatio, shape: []}}}}", &["spec.pluginArgs.nodeResourcesFit.strategy.shape", "needs a shape"]),
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {type: RequestedToCapacityRatio, shape: [{utilization: 100, score: 10}, {utilization: 0, score: 0}]}}}}", &["spec.pluginArgs.nodeResourcesFit.strategy.shape", "rise strictly"]),
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {type: RequestedToCapacityRatio, shape: [{utilization: 5, score: 1}, {utilization: 5, score: 2}]}}}}", &["spec.pluginArgs.nodeResourcesFit.strategy.shape", "rise strictly"]),
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {type: RequestedToCapacityRatio, shape: [{utilization: 101, score: 1}]}}}}", &["strategy.shape[0].utilization", "less than or equal to 100"]),
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {type: RequestedToCapacityRatio, shape: [{utilization: 50, score: 11}]}}}}", &["strategy.shape[0].score", "less than or equal to 10"]),
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {type: RequestedToCapacityRatio, shape: [{utilization: 50}]}}}}", &["strategy.shape[0].score", "Required value"]),
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {type: LeastAllocated, resources: [{name: cpu, weight: 0}]}}}}", &["strategy.resources[0].weight", "greater than or equal to 1"]),
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {type: LeastAllocated, resources: [{name: cpu, weight: 101}]}}}}", &["strategy.resources[0].weight", "less than or equal to 100"]),
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {type: LeastAllocated, resources: [{name: cpus}]}}}}", &["strategy.resources[0].name", "not a resource that nodes have"]),
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {type: LeastAllocated, resources: [{name: a b}]}}}}", &["strategy.resources[0].name", "should match"]),
    bad("{pluginArgs: {nodeResourcesFit: {strategy: {type: LeastAllocated, resources: [{name: cpu}, {name: cpu}]}}}}", &["strategy.resources[1]", "Duplicate value"]),
    bad("{pluginArgs: {nodeResourcesFit: {ignoredResources: [example.com/license]}}}", &["spec.pluginArgs.nodeResourcesFit.ignoredResources", "set spec.allowUnsafe: Acknowledged"]),
    bad("{pluginArgs: {nodeResourcesFit: {ignoredResourceGroups: [example.com]}}}", &["spec.pluginArgs.nodeResourcesFit.ignoredResourceGroups", "set spec.allowUnsafe: Acknowledged"]),
    bad("{allowUnsafe: Acknowledged, pluginArgs: {nodeResourcesFit: {ignoredResources: [cpu]}}}", &["nodeResourcesFit.ignoredResources[0]", "should match"]),
    bad("{allowUnsafe: Acknowledged, pluginArgs: {nodeResourcesFit: {ignoredResourceGroups: [example.com/license]}}}", &["nodeResourcesFit.ignoredResourceGroups[0]", "should match"]),
    // Other plugins' arguments.
    bad("{pluginArgs: {nodeResourcesBalancedAllocation: {resources: [{name: cpu}, {name: memory, weight: 2}]}}}", &["spec.pluginArgs.nodeResourcesBalancedAllocation.resources", "remove weight, or set it to 1"]),
    bad("{pluginArgs: {nodeAffinity: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}}}", &["nodeSelectorTerms", "at least 1 items"]),
    bad("{pluginArgs: {nodeAffinity: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: Equals, values: [a]}]}]}}}}}", &["matchExpressions[0].operator", "Unsupported value"]),
    bad("{pluginArgs: {nodeAffinity: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: cores, operator: Gt, values: [many]}]}]}}}}}", &["matchExpressions[0].values", "exactly one value, a whole number"]),
    bad("{pluginArgs: {nodeAffinity: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.uid, operator: In, values: [a]}]}]}}}}}", &["matchFields[0].key", "metadata.name is the only field"]),
    bad("{pluginArgs: {nodeAffinity: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: Exists, values: [a]}]}]}}}}}", &["matchFields[0].operator", "In or NotIn"]),
    bad("{pluginArgs: {nodeAffinity: {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {matchExpressions: [{key: pool, operator: Exists}]}}]}}}}", &["preferredDuringSchedulingIgnoredDuringExecution[0].weight", "greater than or equal to 1"]),
    bad("{pluginArgs: {nodeAffinity: {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}}}", &["preferredDuringSchedulingIgnoredDuringExecution[0].preference", "Required value"]),
    // Plugins that look at placed pods.
    bad("{pluginArgs: {interPodAffinity: {hardPodAffinityWeight: -1}}}", &["spec.pluginArgs.interPodAffinity.hardPodAffinityWeight", "greater than or equal to 0"]),
    bad("{pluginArgs: {interPodAffinity: {hardPodAffinityWeight: 101}}}", &["spec.pluginArgs.interPodAffinity.hardPodAffinityWeight", "less than or equal to 100"]),
    bad("{pluginArgs: {interPodAffinity: {ignorePreferredTermsOfExistingPods: maybe}}}", &["interPodAffinity.ignorePreferredTermsOfExistingPods", "must be of type boolean"]),
    bad("{pluginArgs: {podTopologySpread: {defaultingType: Lists}}}", &["spec.pluginArgs.podTopologySpread.defaultingType", "\"System\", \"List\""]),
    bad("{pluginArgs: {podTopologySpread: {defaultingType: System, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}}", &["spec.pluginArgs.podTopologySpread.defaultingType", "only List reads defaultConstraints"]),
    bad("{pluginArgs: {podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}}", &["spec.pluginArgs.podTopologySpread.defaultingType", "set defaultingType: List"]),
    bad("{pluginArgs: {podTopologySpread: {defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}}", &["defaultConstraints[0].maxSkew", "greater than or equal to 1"]),
    bad("{pluginArgs: {podTopologySpread: {defaultingType: List, defaultConstraints: [{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}}", &["defaultConstraints[0].maxSkew", "Required value"]),
    bad("{pluginArgs: {podTopologySpread: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: '', whenUnsatisfiable: ScheduleAnyway}]}}}", &["defaultConstraints[0].topologyKey", "at least 1 chars"]),
    bad("{pluginArgs: {podTopologySpread: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: 'a b', whenUnsatisfiable: ScheduleAnyway}]}}}", &["defaultConstraints[0].topologyKey", "should match"]),
    bad("{pluginArgs: {podTopologySpread: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Perhaps}]}}}", &["defaultConstraints[0].whenUnsatisfiable", "\"DoNotSchedule\", \"ScheduleAnyway\""]),
    bad("{pluginArgs: {podTopologySpread: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}}", &["defaultConstraints[1]", "Duplicate value"]),
    bad("{pluginArgs: {podTopologySpread: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}]}}}", &["defaultConstraints[0].minDomains", "only whenUnsatisfiable DoNotSchedule reads it"]),
    bad("{pluginArgs: {podTopologySpread: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 0}]}}}", &["defaultConstraints[0].minDomains", "greater than or equal to 1"]),
    bad("{pluginArgs: {podTopologySpread: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, nodeTaintsPolicy: Obey}]}}}", &["defaultConstraints[0].nodeTaintsPolicy", "\"Honor\", \"Ignore\""]),
    bad("{pluginArgs: {podTopologySpread: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]}}}", &["unknown field \"spec.pluginArgs.podTopologySpread.defaultConstraints[0].labelSelector\""]),
    // Plugins that write before binding.
    bad("{pluginArgs: {volumeBinding: {bindTimeout: 600}}}", &["spec.pluginArgs.volumeBinding.bindTimeout", "must be of type string"]),
    bad("{pluginArgs: {volumeBinding: {bindTimeout: '-1s'}}}", &["spec.pluginArgs.volumeBinding.bindTimeout", "should match"]),
    bad("{pluginArgs: {volumeBinding: {shape: [{utilization: 0, score: 0}]}}}", &["spec.pluginArgs.volumeBinding.shape", "StorageCapacityScoring"]),
    bad("{pluginArgs: {dynamicResources: {bindingTimeout: 999ms}}}", &["spec.pluginArgs.dynamicResources.bindingTimeout", "at least 1s"]),
    bad("{pluginArgs: {dynamicResources: {filterTimeout: never}}}", &["spec.pluginArgs.dynamicResources.filterTimeout", "should match"]),
    // Plugins of scheduler Policies.
    bad("{filters: [{name: CheckNodeLabelPresence}]}", &["spec.filters", "add it, or remove the entry"]),
    bad("{filters: [{name: CheckServiceAffinity, state: Enabled}]}", &["spec.filters", "pluginArgs.checkServiceAffinity"]),
    bad("{scores: [{name: LabelPreference}]}", &["spec.scores", "pluginArgs.labelPreference"]),
    bad("{scores: [{name: LabelPreference}], pluginArgs: {labelPreference: []}}", &["spec.scores", "add some, or remove the entry"]),
    bad("{pluginArgs: {labelPreference: [{present: true}]}}", &["spec.pluginArgs.labelPreference[0].label", "Required value"]),
    bad("{pluginArgs: {labelPreference: [{label: ssd, present: 1}]}}", &["spec.pluginArgs.labelPreference[0].present", "must be of type boolean"]),
    bad("{pluginArgs: {labelPreference: [{label: ssd}, {label: ssd, present: false}]}}", &["spec.pluginArgs.labelPreference[1]", "Duplicate value"]),
    bad("{pluginArgs: {selectorSpread: {workloads: ReplicaSets}}}", &["spec.pluginArgs.selectorSpread.workloads", "\"All\", \"Services\""]),
    bad("{pluginArgs: {selectorSpread: {matching: Some}}}", &["spec.pluginArgs.selectorSpread.matching", "\"All\", \"Any\""]),
    bad("{pluginArgs: {selectorSpread: {match: Any}}}", &["unknown field \"spec.pluginArgs.selectorSpread.match\""]),
    bad("{pluginArgs: {checkNodeLabelPresence: {}}}", &["spec.pluginArgs.checkNodeLabelPresence.presentLabels", "checks nothing"]),
    bad("{pluginArgs: {checkNodeLabelPresence: {presentLabels: [a, b], absentLabels: [b]}}}", &["spec.pluginArgs.checkNodeLabelPresence.absentLabels", "both present and absent"]),
    bad("{pluginArgs: {checkServiceAffinity: {}}}", &["spec.pluginArgs.checkServiceAffinity.affinityLabels", "Required value"]),
    bad("{pluginArgs: {checkServiceAffinity: {affinityLabels: []}}}", &["spec.pluginArgs.checkServiceAffinity.affinityLabels", "at least 1 items"]),
    bad("{pluginArgs: {maxVolumeCounts: {ebs: 0}}}", &["spec.pluginArgs.maxVolumeCounts.ebs", "greater than or equal to 1"]),
    bad("{pluginArgs: {maxVolumeCounts: {gcepd: 3}}}", &["unknown field \"spec.pluginArgs.maxVolumeCounts.gcepd\""]),
    // Extenders.
    bad("{extenders: [{name: x, endpoint: {}, verbs: {bind: {path: b}}}]}", &["spec.extenders[0].endpoint", "give either url or service"]),
    bad("{extenders: [{name: x, endpoint: {url: 'https://x', service: {name: a, namespace: b, port: 1}}, verbs: {bind: {path: b}}}]}", &["endpoint: give either url or service"]),
    bad("{extenders: [{name: x, endpoint: {url: 'ftp://example'}, verbs: {bind: {path: b}}}]}", &["spec.extenders[0].endpoint.url", "should match"]),
    bad("{extenders: [{name: x, endpoint: {url: 'https://u:p@x'}, verbs: {bind: {path: b}}}]}", &["spec.extenders[0].endpoint.url", "should match"]),
    bad("{extenders: [{name: x, endpoint: {url: 'https://x'}, verbs: {}}]}", &["give at least one of filter, prioritize, preempt and bind"]),
    bad("{extenders: [{name: x, endpoint: {url: 'https://x'}, verbs: {filter: {path: f, timeout: 10ms}}}]}", &["timeout: must be between 50ms and 60s"]),
    bad("{extenders: [{name: x, endpoint: {url: 'https://x'}, verbs: {bind: {path: b, timeout: 2m}}}]}", &["timeout: must be between 50ms and 60s"]),
    bad("{extenders: [{name: x, endpoint: {url: 'https://x'}, verbs: {filter: {path: f, failurePolicy: Ignored}}}]}", &["failurePolicy", "supported values"]),
    bad("{extenders: [{name: x, endpoint: {url: 'http://x'}, tls: {}, verbs: {bind: {path: b}}}]}", &["a plain http:// URL takes neither"]),
    bad("{extenders: [{name: x, endpoint: {service: {name: a, namespace: b, port: 1, scheme: Http}}, auth: {bearerTokenRef: {name: t, key: k}}, verbs: {bind: {path: b}}}]}", &["a plain-text service takes neither"]),
    bad("{extenders: [{name: x, endpoint: {service: {name: a, namespace: b, port: 70000}}, verbs: {bind: {path: b}}}]}", &["endpoint.service.port", "65535"]),
    bad("{extenders: [{name: x, endpoint: {url: 'https://x'}, weight: 0, verbs: {bind: {path: b}}}]}", &["spec.extenders[0].weight", "greater than or equal to 1"]),
    bad("{extenders: [{name: x, endpoint: {url: 'https://x'}, circuitBreaker: {openFor: 500ms}, verbs: {bind: {path: b}}}]}", &["openFor: must be between 1s and 10m"]),
    bad("{extenders: [{name: X, endpoint: {url: 'https://x'}, verbs: {bind: {path: b}}}]}", &["spec.extenders[0].name", "should match"]),
    bad("{extenders: [{name: x, endpoint: {url: 'https://x'}, verbs: {bind: {path: b}}}, {name: x, endpoint: {url: 'https://x'}, verbs: {bind: {path: b}}}]}", &["spec.extenders[1]", "Duplicate value"]),
    bad("{extenders: [{name: x, endpoint: {url: 'https://x'}, tls: {mode: InsecureSkipVerify}, auth: {bearerTokenRef: {name: t, key: k}}, verbs: {bind: {path: b}}}]}", &["spec.extenders[0].auth", "anybody may answer and be told the token"]),
    bad("{extenders: [{name: x, endpoint: {url: 'https://x'}, managedResources: [{name: a.com/b, fitCheck: Skip}], verbs: {bind: {path: b}}}]}", &["spec.extenders", "add verbs.filter, or set spec.allowUnsafe: Acknowledged"]),
    // Preemption.
    bad("{preemption: {policy: Maybe}}", &["spec.preemption.policy", "supported values"]),
    bad("{preemption: {victimScope: Mine}}", &["spec.preemption.victimScope", "supported values"]),
    bad("{preemption: {maxVictimsPerPod: -1}}", &["spec.preemption.maxVictimsPerPod", "greater than or equal to 0"]),
    bad("{preemption: {minVictimRuntime: 200h}}", &["minVictimRuntime: must be between 0s and 168h"]),
    bad("{preemption: {candidateNodes: {percentage: 0, absolute: 0}}}", &["candidateNodes: with percentage and absolute both 0"]),
    bad("{preemption: {candidateNodes: {percentage: 101}}}", &["spec.preemption.candidateNodes.percentage", "less than or equal to 100"]),
    bad("{preemption: {protectedNamespaces: [Kube_System]}}", &["spec.preemption.protectedNamespaces[0]", "should match"]),
    // Nodes.
    bad("{nodes: {selector: {matchExpressions: [{key: pool, operator: Gt, values: ['1']}]}}}", &["spec.nodes.selector.matchExpressions[0].operator", "Unsupported value"]),
    bad("{nodes: {selector: {matchExpressions: [{key: pool, operator: In}]}}}", &["spec.nodes.selector.matchExpressions[0].values", "need at least one value"]),
    bad("{nodes: {selector: {matchExpressions: [{key: pool, operator: Exists, values: [a]}]}}}", &["spec.nodes.selector.matchExpressions[0].values", "take no values"]),
    bad("{nodes: {selector: {matchExpressions: [{key: -pool-, operator: Exists}]}}}", &["spec.nodes.selector.matchExpressions[0].key", "should match"]),
    bad("{nodes: {selector: {matchExpressions: [{operator: Exists}]}}}", &["spec.nodes.selector.matchExpressions[0].key", "Required value"]),
    bad("{nodes: {selector: {matchLabels: {'a b': c}}}}", &["spec.nodes.selector.matchLabels", "not a valid label key"]),
    bad("{nodes: {selector: {matchLabels: {pool: 'a b'}}}}", &["spec.nodes.selector.matchLabels.pool", "should match"]),
    bad("{nodes: {percentageToScore: 101}}", &["spec.nodes.percentageToScore", "less than or equal to 100"]),
    bad("{nodes: {percentageToScore: -1}}", &["spec.nodes.percentageToScore", "greater than or equal to 0"]),
    bad("{nodes: {minFeasible: 0}}", &["spec.nodes.minFeasible", "greater than or equal to 1"]),
    bad("{nodes: {minFeasible: 100001}}", &["spec.nodes.minFeasible", "less than or equal to 100000"]),
    // Namespaces.
    bad("{namespaces: {access: Restricted}}", &["spec.namespaces.access", "needs names or matchLabels"]),
    bad("{namespaces: {access: Restricted, names: []}}", &["spec.namespaces.names", "at least 1 items"]),
    bad("{namespaces: {access: Restricted, matchLabels: {}}}", &["spec.namespaces.matchLabels", "at least 1 properties"]),
    bad("{namespaces: {names: [ci]}}", &["spec.namespaces.access", "remove them, or set access: Restricted"]),
    bad("{namespaces: {access: Restricted, names: [CI]}}", &["spec.namespaces.names[0]", "should match"]),
    bad("{namespaces: {route: {}}}", &["spec.namespaces.route.selector", "Required value"]),
    bad("{namespaces: {route: {selector: {matchLabels: {_tier: x}}}}}", &["spec.namespaces.route.selector.matchLabels", "not a valid label key"]),
    bad("{namespaces: {route: {selector: {matchExpressions: [{key: tier, operator: In}]}}}}", &["matchExpressions[0].values", "need at least one value"]),
    bad("{schedulerNames: [default-scheduler], namespaces: {route: {selector: {}}}}", &["spec.namespaces.route", "add a name to spec.schedulerNames"]),
    // Queue.
    bad("{queue: {initialBackoff: soon}}", &["spec.queue.initialBackoff", "should match"]),
    bad("{queue: {initialBackoff: '-1s'}}", &["spec.queue.initialBackoff", "should match"]),
    bad("{queue: {maxBackoff: 1d}}", &["spec.queue.maxBackoff", "should match"]),
    bad("{queue: {initialBackoff: 0s}}", &["spec.queue.initialBackoff", "longer than 0s"]),
    bad("{queue: {initialBackoff: 1m}}", &["spec.queue.maxBackoff", "not be shorter than initialBackoff"]),
    bad("{queue: {maxBackoff: 500ms}}", &["spec.queue.maxBackoff", "not be shorter than initialBackoff"]),
    bad("{queue: {initialBackoff: 11s}}", &["spec.queue.maxBackoff", "not be shorter than initialBackoff"]),
    bad("{queue: {maxBackoff: 61m}}", &["spec.queue.maxBackoff", "at most 1h"]),
    bad("{queue: {maxUnschedulableDuration: 29s}}", &["spec.queue.maxUnschedulableDuration", "between 30s and 24h"]),
    bad("{queue: {maxUnschedulableDuration: 25h}}", &["spec.queue.maxUnschedulableDuration", "between 30s and 24h"]),
];

/// Whole objects that must be refused for what lies outside the spec.
fn bad_objects() -> Vec<(Value, &'static [&'static str])> {
    let object = |metadata: Value, spec: Value| {
        let mut object =
            json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile", "metadata": metadata});
        if !spec.is_null() {
            object["spec"] = spec;
        }
        object
    };
    let named = |name: &str, spec: Value| object(json!({"name": name}), spec);
    let mut future = named("future", json!({}));
    future["apiVersion"] = json!("scheduling.berth.dev/v2");
    vec![
        (named("no-spec", Value::Null), &["spec: Required value"]),
        (named("spec-is-text", json!("Active")), &["spec", "must be of type object"]),
        (named(&"n".repeat(64), json!({})), &["metadata.name", "at most 63 characters"]),
        (named(&"n".repeat(254), json!({})), &["metadata.name"]),
        (named("Upper", json!({})), &["metadata.name"]),
        (named("default-scheduler", json!({})), &["metadata.name", "list other names in spec.schedulerNames"]),
        (
            named("default-scheduler", json!({"schedulerNames": ["a", "default-scheduler"]})),
            &["metadata.name", "list other names in spec.schedulerNames"],
        ),
        (named("long-name", json!({"schedulerNames": ["n".repeat(254)]})), &["spec.schedulerNames[0]", "253"]),
        (
            named(
                "many-names",
                json!({"namespaces": {"access": "Restricted", "names": (0..65).map(|i| format!("n{i}")).collect::<Vec<_>>()}}),
            ),
            &["spec.namespaces.names", "at most 64 items"],
        ),
        (object(json!({"name": "labelled", "lables": {}}), json!({})), &["unknown field \"metadata.lables\""]),
        (future, &["no matches for kind \"SchedulerProfile\" in version \"scheduling.berth.dev/v2\""]),
    ]
}

/// Specs that must be accepted, in YAML.
const GOOD_SPECS: &[&str] = &[
    "{}",
    "{mode: Paused, preset: NoScoring, unknownFields: Hold}",
    "{mode: DryRun, shadow: {schedulerNames: [default-scheduler]}}",
    "{mode: DryRun, schedulerNames: [trial], shadow: {schedulerNames: [default-scheduler, legacy.example.com]}}",
    "{rollout: {}}",
    "{mode: Paused, rollout: {percent: 99, by: Namespace, duration: 1s, window: 24h, minPods: 100000, abort: {unschedulablePercentOver: 100, pendingOver: 0s}}}",
    "{schedulerNames: [batch, legacy.example.com]}",
    "{schedulerNames: [default-scheduler]}",
    "{filters: [{name: NodePorts, state: Disabled}, {name: TaintToleration, state: Disabled}, {name: NodeAffinity}]}",
    "{allowUnsafe: Acknowledged, filters: [{name: NodeName, state: Disabled}, {name: NodeResourcesFit, state: Disabled}]}",
    "{filters: [{name: NodeName, state: Enabled}]}",
    "{preset: BinPack, scores: [{name: NodeResourcesFit, weight: 5}, {name: ImageLocality, state: Disabled}, {name: TaintToleration, weight: 1000000}, {name: NodeAffinity, weight: 1}]}",
    "{pluginArgs: {nodeResourcesFit: {strategy: {type: MostAllocated, resources: [{name: cpu, weight: 100}, {name: nvidia.com/gpu}, {name: hugepages-2Mi, weight: 3}]}}}}",
    "{pluginArgs: {nodeResourcesFit: {strategy: {type: RequestedToCapacityRatio, shape: [{utilization: 0, score: 0}, {utilization: 50, score: 7}, {utilization: 100, score: 10}]}}}}",
    "{allowUnsafe: Acknowledged, pluginArgs: {nodeResourcesFit: {ignoredResources: [example.com/license], ignoredResourceGroups: [example.org]}}}",
    "{pluginArgs: {nodeResourcesFit: {ignoredResources: []}}}",
    "{pluginArgs: {nodeResourcesBalancedAllocation: {resources: [{name: cpu}, {name: memory, weight: 1}, {name: ephemeral-storage}]}}}",
    "{pluginArgs: {nodeAffinity: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: cores, operator: Gt, values: ['4']}, {key: example.com/pool, operator: NotIn, values: [a, '']}], matchFields: [{key: metadata.name, operator: NotIn, values: [node-1]}]}]}, preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, preference: {matchExpressions: [{key: ssd, operator: Exists}]}}]}}}}",
    "{nodes: {selector: {matchLabels: {pool: batch, example.com/tier: ''}, matchExpressions: [{key: arch, operator: In, values: [amd64]}]}, percentageToScore: 100, minFeasible: 100000}}",
    "{nodes: {selector: {}}}",
    "{namespaces: {access: Restricted, names: [ci], matchLabels: {team: batch}}}",
    "{namespaces: {access: Restricted, matchLabels: {example.com/team: batch}}}",
    "{namespaces: {access: Restricted, names: [ci], route: {selector: {}}}}",
    "{schedulerNames: [default-scheduler, gold], namespaces: {route: {selector: {matchLabels: {tier: gold}, matchExpressions: [{key: env, operator: NotIn, values: [test]}]}}}}",
    "{queue: {initialBackoff: 500ms, maxBackoff: 1m30s, maxUnschedulableDuration: 24h}}",
    "{queue: {initialBackoff: 1ms, maxBackoff: 1h, maxUnschedulableDuration: 30s}}",
    "{filters: [{name: VolumeRestrictions}, {name: NodeVolumeLimits, state: Disabled}, {name: VolumeBinding, state: Disabled}, {name: VolumeZone}, {name: PodTopologySpread}, {name: InterPodAffinity}, {name: NodeDeclaredFeatures}]}",
    "{preset: Spread, scores: [{name: PodTopologySpread, weight: 9}, {name: InterPodAffinity}, {name: SelectorSpread, weight: 1}, {name: NodePreferAvoidPodsPriority}, {name: EqualPriority}, {name: MostRequestedPriority}, {name: LeastRequestedPriority}, {name: BalancedResourceAllocationPriority}]}",
    "{pluginArgs: {interPodAffinity: {}, podTopologySpread: {}, volumeBinding: {}, dynamicResources: {}, maxVolumeCounts: {}}}",
    "{pluginArgs: {interPodAffinity: {hardPodAffinityWeight: 0, ignorePreferredTermsOfExistingPods: true}, volumeBinding: {bindTimeout: 0s}, dynamicResources: {filterTimeout: 0s, bindingTimeout: 1s}, maxVolumeCounts: {ebs: 25, gcePd: 16, azureDisk: 16, cinder: 10000}}}",
    "{pluginArgs: {selectorSpread: {}}}",
    "{pluginArgs: {selectorSpread: {workloads: Services, matching: Any}}}",
    "{pluginArgs: {podTopologySpread: {defaultingType: System}}}",
    "{pluginArgs: {podTopologySpread: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 3, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 2, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor}]}}}",
    "{filters: [{name: CheckNodeLabelPresence}, {name: CheckServiceAffinity}, {name: MaxEBSVolumeCount}, {name: MaxGCEPDVolumeCount}, {name: MaxAzureDiskVolumeCount}, {name: MaxCinderVolumeCount}, {name: CheckNodeMemoryPressure}, {name: CheckNodeDiskPressure}, {name: CheckNodePIDPressure}], scores: [{name: LabelPreference}], pluginArgs: {labelPreference: [{label: ssd}, {label: example.com/old, present: false}], checkNodeLabelPresence: {presentLabels: [a], absentLabels: [b]}, checkServiceAffinity: {affinityLabels: [region]}}}",
];

fn manifest(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: scheduling.berth.dev/v1alpha1\nkind: SchedulerProfile\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

fn start() -> ControlPlane {
    let plane = ControlPlane::start(&Options::default()).unwrap();
    plane.apply(&api::crd_yaml().unwrap()).unwrap();
    let wait = ["wait", "--for=condition=Established", "--timeout=60s", "crd", api::CRD_NAME];
    plane.kubectl_ok(&wait).unwrap();
    plane
}

/// Applies every bad profile and returns what was wrong about the answers.
fn refusals(plane: &ControlPlane) -> Vec<String> {
    let specs = BAD_SPECS.iter().map(|bad| (manifest("bad", bad.spec), bad.says));
    let objects = bad_objects().into_iter().map(|(object, says)| (object.to_string(), says));
    let mut wrong = Vec::new();
    for (yaml, says) in specs.chain(objects) {
        let outcome = plane.try_apply(&yaml).unwrap();
        if outcome.success {
            wrong.push(format!("accepted:\n{yaml}"));
            plane.kubectl_ok(&["delete", "sprof", "--all"]).unwrap();
        }
        for text in says.iter().filter(|text| !outcome.stderr.contains(**text)) {
            wrong.push(format!("message without {text:?}:\n{yaml}\n{}", outcome.stderr));
        }
    }
    wrong
}

fn accepted(plane: &ControlPlane) -> Vec<String> {
    let mut wrong = Vec::new();
    for (index, spec) in GOOD_SPECS.iter().enumerate() {
        let yaml = manifest(&format!("good-{index}"), spec);
        let outcome = plane.try_apply(&yaml).unwrap();
        if !outcome.success {
            wrong.push(format!("refused:\n{yaml}{}", outcome.stderr));
            continue;
        }
        let name = format!("good-{index}");
        let served = plane.kubectl_ok(&["get", "sprof", &name, "-o", "json"]).unwrap();
        let served: Value = serde_json::from_str(&served).unwrap();
        let written: Value = serde_saphyr::from_str(&yaml).unwrap();
        if served["spec"] != written["spec"] {
            wrong.push(format!("served spec of {yaml}\n{:#}", served["spec"]));
        }
    }
    wrong
}

/// A profile that no operator has seen says so: no spec is filled in, and the status has its default.
fn unseen(plane: &ControlPlane) {
    plane.apply(&manifest("bare", "{}")).unwrap();
    let bare = plane.kubectl_ok(&["get", "sprof", "bare", "-o", "json"]).unwrap();
    let bare: Value = serde_json::from_str(&bare).unwrap();
    let pending = |kind: &str| {
        json!({
            "type": kind,
            "status": "Unknown",
            "reason": "Pending",
            "message": "no operator has seen this profile",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        })
    };
    assert_eq!(bare["spec"], json!({}));
    assert_eq!(bare["status"], json!({"conditions": [pending("Ready"), pending("Accepted")]}));
}

/// A profile named `default-scheduler` may serve other names.
fn reserved_name_with_other_scheduler_names(plane: &ControlPlane) {
    plane.apply(&manifest("default-scheduler", "{schedulerNames: [other]}")).unwrap();
}

/// Clients that do not ask for strict validation get unknown fields dropped without an error.
fn lax_clients_lose_unknown_fields(plane: &ControlPlane) {
    let yaml = manifest("lax", "{plugins: [], mode: Paused}");
    let file = plane.dir().join("lax.yaml");
    std::fs::write(&file, yaml).unwrap();
    plane.kubectl_ok(&["apply", "--validate=ignore", "-f", file.to_str().unwrap()]).unwrap();
    let spec = plane.kubectl_ok(&["get", "sprof", "lax", "-o", "jsonpath={.spec}"]).unwrap();
    assert!(spec.contains("Paused") && !spec.contains("plugins"), "{spec}");
}

/// The served definition lacks nothing of ours; one that is older is found out, and drops the field.
fn served_definition_compares(plane: &ControlPlane) {
    let own = api::crd_json().unwrap();
    assert_eq!(api::missing_fields(&served_definition(plane), &own), Vec::<String>::new());

    let mut older = own.clone();
    let spec = older.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties").unwrap();
    spec.as_object_mut().unwrap().remove("unknownFields");
    plane.apply(&older.to_string()).unwrap();
    assert_eq!(api::missing_fields(&served_definition(plane), &own), ["spec.unknownFields"]);
}

fn served_definition(plane: &ControlPlane) -> Value {
    let served = plane.kubectl_ok(&["get", "crd", api::CRD_NAME, "-o", "json"]).unwrap();
    serde_json::from_str(&served).unwrap()
}

/// The example with every field in the documentation is one that the API server takes.
fn documented_profile_is_accepted(plane: &ControlPlane) {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/profile.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```yaml\nspec:\n").unwrap();
    let (spec, _) = rest.split_once("```").unwrap();
    plane.apply(&manifest("documented", &format!("\n{spec}"))).unwrap();
}

/// The columns of `kubectl get sprof`, with a status as the operator writes it.
fn columns(plane: &ControlPlane) {
    let status = json!({"status": {
        "conditions": [{"type": "Ready", "status": "True", "reason": "Serving", "message": "serving 3 nodes", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "nodes": {"matched": 3, "schedulable": 2}, "pods": {"pending": 18, "unschedulable": 12, "oldestPendingSince": "2026-01-01T00:00:00Z"},
        "totals": {"scheduled": 10422}, "mode": "Active", "effective": {"preset": "Default"},
    }});
    let patch = ["patch", "sprof", "bare", "--subresource=status", "--type=merge", "-p", &status.to_string()];
    plane.kubectl_ok(&patch).unwrap();
    let table = plane.kubectl_ok(&["get", "sprof", "bare"]).unwrap();
    let rows: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "MODE", "READY", "NODES", "PENDING", "UNSCHED", "OLDEST", "AGE"]);
    assert_eq!(rows[1][..6], ["bare", "Active", "True", "3", "18", "12"]);
    let wide = plane.kubectl_ok(&["get", "sprof", "bare", "-o", "wide"]).unwrap();
    for text in ["REASON", "PRESET", "SCHEDULED", "MESSAGE", "Serving", "Default", "10422", "serving 3 nodes"] {
        assert!(wide.contains(text), "{text}: {wide}");
    }
    plane.kubectl_ok(&["wait", "--for=condition=Ready", "--timeout=10s", "sprof/bare"]).unwrap();
}

/// What kubectl makes of the definition: texts, the category, and the fields that can be selected by.
fn kubectl_knows_it(plane: &ControlPlane) {
    for path in ["tls.caBundleRef", "tls.clientCertRef", "auth.bearerTokenRef"] {
        let text = plane.kubectl_ok(&["explain", &format!("sprof.spec.extenders.{path}")]).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("in the operator's namespace"), "{path}: {text}");
    }
    plane.apply(&manifest("waits", "{mode: Paused, preset: BinPack}")).unwrap();
    assert!(plane.kubectl_ok(&["get", "berth", "-o", "name"]).unwrap().contains("schedulerprofile"));
    for field in ["spec.mode=Paused,spec.preset=BinPack", "spec.mode=Paused"] {
        let found = plane.kubectl_ok(&["get", "sprof", "--field-selector", field, "-o", "name"]).unwrap();
        assert!(found.contains("/waits\n") && !found.contains("/bare\n"), "{field}: {found}");
    }
}

#[test]
fn the_api_server_refuses_bad_profiles_and_keeps_good_ones_as_they_are() {
    let plane = start();
    let mut wrong = refusals(&plane);
    wrong.extend(accepted(&plane));
    assert!(wrong.is_empty(), "{}", wrong.join("\n----\n"));
    unseen(&plane);
    reserved_name_with_other_scheduler_names(&plane);
    lax_clients_lose_unknown_fields(&plane);
    documented_profile_is_accepted(&plane);
    columns(&plane);
    kubectl_knows_it(&plane);
    served_definition_compares(&plane);
}

#[test]
fn the_table_is_long_enough() {
    assert!(BAD_SPECS.len() >= 40);
}
