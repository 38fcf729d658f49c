use super::testing::{read, read_text};
use super::*;
use berth_api::{AllowUnsafe, FilterName, PluginState, Preset, ScoreName, SpreadDefaulting};

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

fn import(body: &str) -> Import {
    read_text(&format!("{HEAD}{body}")).unwrap_or_else(|error| panic!("{body}: {error}"))
}

/// The one profile of `body`, and what was lost.
fn alone(body: &str) -> (ImportedProfile, Vec<String>) {
    let import = import(body);
    assert_eq!(import.profiles.len(), 1, "{body}");
    (import.profiles[0].clone(), import.losses.iter().map(ToString::to_string).collect())
}

fn plugins(plugins: &str) -> (ImportedProfile, Vec<String>) {
    alone(&format!("profiles: [{{plugins: {plugins}}}]"))
}

fn scores(profile: &ImportedProfile) -> Vec<(&str, i64)> {
    profile.compiled.scores.iter().map(|(score, weight)| (score.name(), *weight)).collect()
}

fn filters(profile: &ImportedProfile) -> Vec<&str> {
    profile.compiled.filters.iter().map(berth_core::plugins::Plugin::name).collect()
}

const DEFAULT_SCORES: [(&str, i64); 8] = [
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodeResourcesFit", 1),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
];

const DEFAULT_FILTERS: [&str; 14] = [
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeDeclaredFeatures",
];

#[test]
fn an_empty_configuration_is_the_default_profile() {
    for body in ["", "profiles: []", "profiles: [{}]", "profiles: [{schedulerName: default-scheduler, plugins: {}}]"] {
        let (profile, losses) = alone(body);
        assert_eq!(profile.compiled, CompiledProfile::default_preset("default-scheduler"), "{body}");
        assert_eq!(profile.scheduler_name, "default-scheduler");
        assert_eq!(losses, Vec::<String>::new());
        assert_eq!((scores(&profile), filters(&profile)), (DEFAULT_SCORES.to_vec(), DEFAULT_FILTERS.to_vec()));
    }
}

#[test]
fn shared_settings_reach_every_profile() {
    let import = import(
        "percentageOfNodesToScore: 40\npodInitialBackoffSeconds: 2\npodMaxBackoffSeconds: 20\n\
         profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 0}]",
    );
    let [a, b] = &import.profiles[..] else { panic!("{import:?}") };
    assert_eq!((a.compiled.sampling.percentage, b.compiled.sampling.percentage), (40, 0));
    assert_eq!(b.compiled.queue.initial_backoff.as_secs(), 2);
    assert_eq!(b.compiled.queue.max_backoff.as_secs(), 20);
    assert_eq!(b.compiled.scheduler_names, ["b".into()]);
}

/// Weights as the framework looks them up: the score point first, then all points; absent and 0 are 1.
#[test]
fn weights_follow_the_merge_rules() {
    let table: [(&str, &str, i64); 6] = [
        ("{score: {enabled: [{name: NodeAffinity, weight: 7}]}}", "NodeAffinity", 7),
        ("{multiPoint: {enabled: [{name: NodeAffinity, weight: 7}]}}", "NodeAffinity", 7),
        (
            "{multiPoint: {enabled: [{name: NodeAffinity, weight: 7}]}, score: {enabled: [{name: NodeAffinity, weight: 9}]}}",
            "NodeAffinity",
            9,
        ),
        ("{score: {enabled: [{name: TaintToleration}]}}", "TaintToleration", 1),
        ("{multiPoint: {enabled: [{name: TaintToleration}]}}", "TaintToleration", 1),
        ("{score: {enabled: [{name: TaintToleration, weight: 0}]}}", "TaintToleration", 1),
    ];
    for (text, name, weight) in table {
        let (profile, losses) = plugins(text);
        let mut want = DEFAULT_SCORES.to_vec();
        want.iter_mut().filter(|(n, _)| *n == name).for_each(|(_, w)| *w = weight);
        assert_eq!(scores(&profile), want, "{text}");
        assert_eq!((losses, filters(&profile)), (Vec::new(), DEFAULT_FILTERS.to_vec()), "{text}");
    }
}

#[test]
fn a_plugin_may_run_at_some_of_its_points() {
    let without = |name: &str| DEFAULT_FILTERS.into_iter().filter(|n| *n != name).collect::<Vec<_>>();
    let (profile, losses) =
        plugins("{filter: {disabled: [{name: TaintToleration}]}, score: {disabled: [{name: ImageLocality}]}}");
    assert_eq!(filters(&profile), without("TaintToleration"));
    assert_eq!(scores(&profile), DEFAULT_SCORES[..7]);
    assert_eq!(losses, Vec::<String>::new());

    let (profile, losses) =
        plugins("{score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit, weight: 5}]}}");
    assert_eq!(scores(&profile), [("NodeResourcesFit", 5)]);
    assert_eq!((filters(&profile), losses), (DEFAULT_FILTERS.to_vec(), Vec::new()));

    let (profile, _) = plugins("{score: {disabled: [{name: '*'}]}}");
    assert_eq!((scores(&profile), profile.spec.preset), (Vec::new(), Preset::NoScoring));

    let (profile, losses) = plugins("{multiPoint: {disabled: [{name: NodePorts}]}}");
    assert_eq!((filters(&profile), losses), (without("NodePorts"), Vec::new()));

    let (profile, losses) =
        plugins("{multiPoint: {disabled: [{name: InterPodAffinity}]}, filter: {enabled: [{name: InterPodAffinity}]}}");
    assert_eq!(filters(&profile), DEFAULT_FILTERS);
    assert!(!scores(&profile).iter().any(|(name, _)| *name == "InterPodAffinity"));
    // Enabled at one point alone it comes last there, and without its PreFilter.
    assert_eq!(losses.len(), 2, "{losses:#?}");
    assert!(losses[0].starts_with("profiles[0].plugins.filter: the order "), "{losses:#?}");
    assert!(losses[1].starts_with("profiles[0].plugins.preFilter: the PreFilter of InterPodAffinity"), "{losses:#?}");
}

#[test]
fn only_listed_plugins_run_where_all_are_disabled() {
    let (profile, losses) = plugins(
        "{multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}, \
          {name: SchedulingGates}, {name: DynamicResources}, {name: NodeResourcesFit, weight: 4}, {name: NodeName}]}}",
    );
    assert_eq!(scores(&profile), [("NodeResourcesFit", 4), ("DynamicResources", 1)]);
    assert_eq!(filters(&profile), ["NodeName", "NodeResourcesFit", "DynamicResources"]);
    assert_eq!(profile.spec.allow_unsafe, AllowUnsafe::Acknowledged, "NodeUnschedulable is disabled");
    assert!(profile.spec.filters.iter().all(|f| f.state == PluginState::Disabled));
    assert!(losses.iter().any(|l| l.contains("NodeUnschedulable is disabled")), "{losses:#?}");
    assert!(
        losses.iter().any(|l| l.contains("the order DynamicResources, NodeResourcesFit, NodeName becomes")),
        "{losses:#?}"
    );
}

#[test]
fn arguments_are_taken_over() {
    let (profile, losses) = alone(
        "profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      ignoredResources: [example.com/license, cpu]
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: nvidia.com/gpu, weight: 5}, {name: gpus}, {name: cpu}, {name: nvidia.com/gpu, weight: 2}]
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
  - {name: NodeResourcesBalancedAllocation, args: {resources: [{name: memory, weight: 1}]}}
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [a]}]}]
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 0, preference: {matchExpressions: [{key: ssd, operator: Exists}]}}
        - {weight: 3, preference: {matchFields: [{key: metadata.name, operator: In, values: [n1]}]}}
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 9, ignorePreferredTermsOfExistingPods: true}}
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 3, nodeTaintsPolicy: Honor}
  - {name: VolumeBinding, args: {bindTimeoutSeconds: 0}}
  - {name: DynamicResources, args: {filterTimeout: 1.5s}}
  - {name: DefaultPreemption, args: {minCandidateNodesAbsolute: 5}}
  - {name: NodeName, args: {strict: true}}
  - {name: Mine, args: {strict: true}}
",
    );
    let args = &profile.spec.plugin_args;
    assert_eq!(profile.spec.allow_unsafe, AllowUnsafe::Acknowledged);
    assert_eq!(profile.compiled.fit.ignored_resources, ["example.com/license".into()]);
    let weights: Vec<_> = profile.compiled.fit.resources.iter().map(|r| (&*r.name, r.weight)).collect();
    assert_eq!(weights, [("nvidia.com/gpu", 7), ("cpu", 1)]);
    assert_eq!(profile.compiled.balanced, ["memory".into()]);
    assert_eq!(profile.compiled.added_affinity.preferred.len(), 1);
    assert_eq!(args.inter_pod_affinity.as_ref().unwrap().hard_pod_affinity_weight, 9);
    let spread = args.pod_topology_spread.as_ref().unwrap();
    assert_eq!(
        (spread.defaulting_type, spread.default_constraints[0].min_domains),
        (Some(SpreadDefaulting::List), Some(3))
    );
    assert_eq!(args.volume_binding.as_ref().unwrap().bind_timeout.get().as_secs(), 0);
    assert_eq!(args.dynamic_resources.as_ref().unwrap().filter_timeout.get().as_millis(), 1_500);
    assert_eq!(profile.compiled.preemption.candidates_absolute, 5);
    let fields: Vec<&str> = losses.iter().map(|l| l.split(": ").next().unwrap()).collect();
    let config = |i: usize, rest: &str| format!("profiles[0].pluginConfig[{i}].{rest}");
    assert_eq!(
        fields,
        [
            config(0, "args.ignoredResources[1]"),
            config(0, "args"),
            config(0, "args.scoringStrategy.resources[1]"),
            config(6, "args.filterTimeout"),
            config(8, "args"),
            config(9, "name"),
        ]
    );
}

#[test]
fn settings_without_counterpart_are_reported() {
    let table: [(&str, &str); 13] = [
        ("parallelism: 8", "parallelism: without effect"),
        ("leaderElection: {leaderElect: true}", "leaderElection: without effect"),
        ("clientConnection: {qps: 5}", "clientConnection: without effect"),
        ("podMaxBackoffSeconds: 7200", "podMaxBackoffSeconds: 7200 becomes 3600"),
        ("extenders: [{urlPrefix: 'http://x', filterVerb: f}]", "extenders[0].urlPrefix: plain http"),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: NodeResourcesFit}]}}}]",
            "profiles[0].plugins.filter: the order NodeResourcesFit, NodeUnschedulable,",
        ),
        (
            "profiles: [{plugins: {filter: {disabled: [{name: VolumeZone}]}}}]",
            "profiles[0].plugins.preFilter: the PreFilter of VolumeZone, which refuses pods",
        ),
        (
            "profiles: [{plugins: {preFilter: {disabled: [{name: NodePorts}]}}}]",
            "profiles[0].plugins.preFilter: the PreFilter of NodePorts is disabled",
        ),
        (
            "profiles: [{plugins: {preScore: {disabled: [{name: TaintToleration}]}}}]",
            "profiles[0].plugins.preScore: the PreScore of TaintToleration is disabled",
        ),
        (
            "profiles: [{plugins: {preBind: {disabled: [{name: VolumeBinding}]}}}]",
            "profiles[0].plugins.preBind: VolumeBinding is disabled here",
        ),
        (
            "profiles: [{plugins: {preEnqueue: {disabled: [{name: SchedulingGates}]}}}]",
            "profiles[0].plugins.preEnqueue: SchedulingGates is disabled",
        ),
        (
            "profiles: [{plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}}]",
            "profiles[0].plugins.multiPoint.enabled[0]: GangScheduling has no effect",
        ),
        (
            "profiles: [{plugins: {filter: {disabled: [{name: EBSLimits}]}}}]",
            "profiles[0].plugins.filter.disabled[0].name: no plugin is named EBSLimits",
        ),
    ];
    for (body, want) in table {
        let (_, losses) = alone(body);
        assert!(losses.len() == 1 && losses[0].starts_with(want), "{body}: {losses:#?}");
    }
}

#[test]
fn preparations_that_change_nothing_are_not_losses() {
    for text in [
        "{preScore: {disabled: [{name: '*'}]}, score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}}",
        "{filter: {disabled: [{name: NodePorts}]}}",
        "{score: {disabled: [{name: VolumeBinding}, {name: DynamicResources}]}}",
        "{postFilter: {disabled: [{name: '*'}]}}",
    ] {
        assert_eq!(plugins(text).1, Vec::<String>::new(), "{text}");
    }
}

/// Each bad document with the field named and a word of the message or the fix.
#[rustfmt::skip] // One row per document: the table is read down.
const REFUSED: &[(&str, &str, &str)] = &[
    ("prcentageOfNodesToScore: 5", "prcentageOfNodesToScore", "unknown field"),
    ("percentageOfNodesToScore: 101", "percentageOfNodesToScore", "0 to 100"),
    ("percentageOfNodesToScore: half", "percentageOfNodesToScore", "whole number"),
    ("parallelism: 0", "parallelism", "1 or more"),
    ("podInitialBackoffSeconds: 0", "podInitialBackoffSeconds", "1 or more"),
    ("podMaxBackoffSeconds: 5\npodInitialBackoffSeconds: 6", "podMaxBackoffSeconds", "less than podInitialBackoffSeconds"),
    ("leaderElection: {leaderElect: true, resourceLock: endpoints}", "leaderElection.resourceLock", "leases"),
    ("extenders: [{urlPrefix: 'http://x', prioritizeVerb: p}]", "extenders[0].weight", "not positive"),
    ("extenders: [{urlPrefix: 'http://x', bindVerb: b}, {urlPrefix: 'http://y', bindVerb: b}]", "extenders[1].bindVerb", "one extender"),
    ("extenders: [{url: x}]", "extenders[0].url", "unknown field"),
    ("profiles: {}", "profiles", "a list"),
    ("profiles: [{schedulerName: a}, {}]", "profiles[1].schedulerName", "missing"),
    ("profiles: [{schedulerName: ''}]", "profiles[0].schedulerName", "missing"),
    ("profiles: [{schedulerName: a}, {schedulerName: a}]", "profiles[1].schedulerName", "another profile"),
    ("profiles: [{schedulerName: A}]", "profiles[0].schedulerName", "DNS-1123"),
    ("profiles: [{percentageOfNodesToScore: -1}]", "profiles[0].percentageOfNodesToScore", "0 to 100"),
    ("profiles: [{plugins: {filters: {}}}]", "profiles[0].plugins.filters", "unknown field"),
    ("profiles: [{plugins: {filter: {enabled: [{name: NodeAffinty}]}}}]", "profiles[0].plugins.filter.enabled[0].name", "not a plugin"),
    ("profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]", "profiles[0].plugins.filter.enabled[0].name", "NodeVolumeLimits"),
    ("profiles: [{plugins: {filter: {enabled: [{}]}}}]", "profiles[0].plugins.filter.enabled[0].name", "missing"),
    ("profiles: [{plugins: {filter: {enabled: [{name: ImageLocality}]}}}]", "profiles[0].plugins.filter.enabled[0]", "has no filter"),
    ("profiles: [{plugins: {score: {enabled: [{name: ImageLocality}, {name: ImageLocality}]}}}]", "profiles[0].plugins.score.enabled[1]", "twice"),
    ("profiles: [{plugins: {multiPoint: {enabled: [{name: ImageLocality}, {name: ImageLocality}]}}}]", "profiles[0].plugins.multiPoint.enabled[0]", "twice"),
    ("profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}]}}}]", "profiles[0].plugins.queueSort", "PrioritySort"),
    ("profiles: [{plugins: {bind: {disabled: [{name: DefaultBinder}]}}}]", "profiles[0].plugins.bind", "DefaultBinder"),
    ("profiles: [{schedulerName: a}, {schedulerName: b, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}]", "profiles[1].plugins.queueSort", "every profile"),
    ("profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: -1}]}}}]", "profiles[0].plugins.score.enabled[0].weight", "1 to 1,000,000"),
    ("profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 1000001}]}}}]", "profiles[0].plugins.multiPoint.enabled[0].weight", "1 to 1,000,000"),
    ("profiles: [{pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]}]", "profiles[0].pluginConfig[1].name", "twice"),
    ("profiles: [{pluginConfig: [{name: GCEPDLimits}]}]", "profiles[0].pluginConfig[0].name", "removed"),
    ("profiles: [{pluginConfig: [{name: InterPodAffinity, args: {kind: NodeAffinityArgs}}]}]", "profiles[0].pluginConfig[0].args.kind", "InterPodAffinityArgs"),
    ("profiles: [{pluginConfig: [{name: InterPodAffinity, args: {apiVersion: kubescheduler.config.k8s.io/v1beta3}}]}]", "profiles[0].pluginConfig[0].args.apiVersion", "kubescheduler.config.k8s.io/v1"),
    ("profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]", "profiles[0].pluginConfig[0].args.hardPodAffinityWeight", "0 to 100"),
    ("profiles: [{pluginConfig: [{name: InterPodAffinity, args: {weight: 1}}]}]", "profiles[0].pluginConfig[0].args.weight", "unknown field"),
    ("profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {}}}]}]", "args.scoringStrategy.type", "missing"),
    ("profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Least}}}]}]", "args.scoringStrategy.type", "LeastAllocated"),
    ("profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {}}}}]}]", "args.scoringStrategy.requestedToCapacityRatio", "RequestedToCapacityRatio only"),
    ("profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio}}}]}]", "args.scoringStrategy.requestedToCapacityRatio.shape", "needs one"),
    ("profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 0, score: 11}]}}}}]}]", "args.scoringStrategy.requestedToCapacityRatio.shape[0].score", "0 to 10"),
    ("profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: tpu}, {name: cpu, weight: 101}]}}}]}]", "args.scoringStrategy.resources[1].weight", "1 to 100"),
    ("profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResourceGroups: [a/b]}}]}]", "args.ignoredResourceGroups[0]", "before the /"),
    ("profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu}, {name: cpu}]}}]}]", "args.resources[1].name", "twice"),
    ("profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: 2}]}}]}]", "args.resources[0].weight", "set it to 1"),
    ("profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {required: {}}}}]}]", "args.addedAffinity.required", "unknown field"),
    ("profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Equals}]}]}}}}]}]", "matchExpressions[0].operator", "DoesNotExist"),
    ("profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: [x]}]}]}}}}]}]", "profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values[0]", "whole number"),
    ("profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: Lists}}]}]", "args.defaultingType", "System, List"),
    ("profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}]}]", "args.defaultingType", "List"),
    ("profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}]}]", "args.defaultConstraints[0].maxSkew", "1 or more"),
    ("profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: 'a b', whenUnsatisfiable: ScheduleAnyway}]}}]}]", "args.defaultConstraints[0].topologyKey", "label key"),
    ("profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Maybe}]}}]}]", "args.defaultConstraints[0].whenUnsatisfiable", "DoNotSchedule"),
    ("profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]}}]}]", "args.defaultConstraints[0].labelSelector", "remove it"),
    ("profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}]}]", "args.defaultConstraints[1]", "twice"),
    ("profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: -1}}]}]", "args.bindTimeoutSeconds", "out of range"),
    ("profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: []}}]}]", "args.shape", "StorageCapacityScoring"),
    ("profiles: [{pluginConfig: [{name: DynamicResources, args: {filterTimeout: -1s}}]}]", "args.filterTimeout", "negative"),
    ("profiles: [{pluginConfig: [{name: DynamicResources, args: {bindingTimeout: 999ms}}]}]", "args.bindingTimeout", "1s"),
    ("profiles: [{pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}}]}]", "args.minCandidateNodesPercentage", "raise one"),
];

#[test]
fn bad_documents_are_refused_with_the_field_named() {
    let mut wrong = Vec::new();
    for (body, field, word) in REFUSED {
        match read_text(&format!("{HEAD}{body}")) {
            Ok(import) => wrong.push(format!("accepted: {body}: {:?}", import.losses)),
            Err(e) if e.field.ends_with(field) && e.to_string().contains(word) => {}
            Err(e) => wrong.push(format!("{body}\n  wanted {field}: … {word}\n  got    {e}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn other_documents_are_refused() {
    let table = [
        (
            "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration",
            "apiVersion: \"kubescheduler.config.k8s.io/v1beta3\" is not read",
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: NodeAffinityArgs",
            "kind: \"NodeAffinityArgs\" is not read",
        ),
        ("kind: KubeSchedulerConfiguration", "apiVersion: is required"),
        ("[1]", "document: [1] is of the wrong type"),
        ("a: [", "document: "),
    ];
    for (text, want) in table {
        let error = read_text(text).unwrap_err().to_string();
        assert!(error.starts_with(want), "{text}: {error}");
    }
}

#[test]
fn json_reads_like_yaml() {
    let json = r#"{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [{"schedulerName": "a"}]}"#;
    assert_eq!(read_text(json).unwrap(), read(&serde_json::from_str(json).unwrap()).unwrap());
}

#[test]
fn the_catalogue_names_existing_filters_and_scores() {
    for plugin in &catalogue::PLUGINS {
        assert!(plugin.filter.is_none_or(|f| f.as_str() == plugin.name), "{}", plugin.name);
        assert!(plugin.score.is_none_or(|s| s.as_str() == plugin.name), "{}", plugin.name);
    }
    let filters: Vec<FilterName> = catalogue::PLUGINS.iter().filter_map(|p| p.filter).collect();
    assert_eq!(filters, FilterName::ALL[..filters.len()], "in the order in which they run");
    let scores: Vec<ScoreName> = catalogue::PLUGINS.iter().filter_map(|p| p.score).collect();
    assert_eq!(scores, ScoreName::ALL[..scores.len()]);
}
