//! Turns the arguments of kube-scheduler's plugins into those of a profile.

use super::catalogue::{REMOVED, find};
use super::duration;
use super::loss::{Draft, Report};
use super::node::{Fields, ImportError, Node};
use berth_api::{
    self as api, AddedAffinity, FieldSelectorRequirement, NodeSelector, NodeSelectorOperator, NodeSelectorRequirement,
    NodeSelectorTerm, PreferredNodeSelectorTerm,
};
use berth_core::model::is_scalar_resource;
use berth_profile::{is_dns1123_subdomain, is_qualified_name};

/// The most candidate nodes that a profile can ask for.
const MAX_CANDIDATES: i32 = 100_000;

/// Reads the list `pluginConfig` of a profile.
pub(super) fn read(configs: Vec<Node<'_>>, out: &mut Draft) -> Result<(), ImportError> {
    let mut seen: Vec<&str> = Vec::new();
    for config in configs {
        let fields = config.fields(&["name", "args"])?;
        let name = fields.need("name", "name the plugin that the args are for")?;
        let text = name.text()?;
        if seen.contains(&text) {
            return Err(name.bad(format!("{text:?} is there twice"), "keep one entry for each plugin"));
        }
        seen.push(text);
        if REMOVED.contains(&text) {
            return Err(name.bad(format!("{text:?} was removed from kube-scheduler"), "remove the entry"));
        }
        if let Some(args) = fields.get("args") {
            plugin(text, &name, &args, out)?;
        }
    }
    Ok(())
}

fn plugin(name: &str, at: &Node<'_>, args: &Node<'_>, out: &mut Draft) -> Result<(), ImportError> {
    let field = match name {
        "NodeResourcesFit" => {
            out.spec.plugin_args.node_resources_fit = Some(fit(args, out)?);
            "nodeResourcesFit"
        }
        "NodeResourcesBalancedAllocation" => {
            let fields = typed(args, name, &["resources"])?;
            let resources = resources(&fields, "spec.pluginArgs.nodeResourcesBalancedAllocation.resources", out)?;
            out.spec.plugin_args.node_resources_balanced_allocation = Some(api::BalancedAllocationArgs { resources });
            "nodeResourcesBalancedAllocation"
        }
        "NodeAffinity" => {
            let fields = typed(args, name, &["addedAffinity"])?;
            let added_affinity = fields.get("addedAffinity").map(|a| added_affinity(&a)).transpose()?;
            out.spec.plugin_args.node_affinity = Some(api::NodeAffinityArgs { added_affinity });
            "nodeAffinity"
        }
        "InterPodAffinity" => {
            out.spec.plugin_args.inter_pod_affinity = Some(inter_pod_affinity(args)?);
            "interPodAffinity"
        }
        "PodTopologySpread" => {
            out.spec.plugin_args.pod_topology_spread = Some(spread(args, &mut out.report)?);
            "podTopologySpread"
        }
        "VolumeBinding" => {
            out.spec.plugin_args.volume_binding = Some(volume_binding(args)?);
            let source = format!("{}.bindTimeoutSeconds", args.path());
            out.origins.add("spec.pluginArgs.volumeBinding.bindTimeout", source);
            return Ok(());
        }
        "DynamicResources" => {
            out.spec.plugin_args.dynamic_resources = Some(dynamic_resources(args, &mut out.report)?);
            "dynamicResources"
        }
        "DefaultPreemption" => return preemption(args, out),
        _ => {
            let (at, what) = match find(name) {
                Some(_) => (args, format!("{name} takes no arguments: they have no effect")),
                None => (at, format!("no plugin is named {name}: its arguments have no effect")),
            };
            out.report.note(at.path(), what);
            return Ok(());
        }
    };
    out.origins.add(format!("spec.pluginArgs.{field}"), args.path());
    Ok(())
}

/// The fields of the arguments of `plugin`; `apiVersion` and `kind` may be written too.
fn typed<'a>(args: &Node<'a>, plugin: &str, known: &[&str]) -> Result<Fields<'a>, ImportError> {
    let known: Vec<&str> = known.iter().copied().chain(["apiVersion", "kind"]).collect();
    let fields = args.fields(&known)?;
    for (field, wanted) in [("apiVersion", super::API_VERSION), ("kind", &format!("{plugin}Args"))] {
        if let Some(written) = fields.get(field)
            && written.text()? != wanted
        {
            let message = format!("{:?} is not the type of the arguments of {plugin}", written.text()?);
            return Err(written.bad(message, format!("write {wanted}, or remove the field")));
        }
    }
    Ok(fields)
}

fn fit(args: &Node<'_>, out: &mut Draft) -> Result<api::NodeResourcesFitArgs, ImportError> {
    use api::ScoringStrategyType::{LeastAllocated, MostAllocated, RequestedToCapacityRatio};
    const FIELD: &str = "spec.pluginArgs.nodeResourcesFit";
    let fields = typed(args, "NodeResourcesFit", &["ignoredResources", "ignoredResourceGroups", "scoringStrategy"])?;
    let mut read = api::NodeResourcesFitArgs {
        ignored_resources: ignored(&fields, "ignoredResources", out)?,
        ignored_resource_groups: ignored(&fields, "ignoredResourceGroups", out)?,
        strategy: None,
    };
    if out.ignored_elsewhere && !read.ignored_resources.is_empty() {
        read.ignored_resources.clear();
        let what = "kube-scheduler puts the resources that extenders have it ignore in the place of these: left out";
        out.report.note(fields.at("ignoredResources"), what);
    }
    if !(read.ignored_resources.is_empty() && read.ignored_resource_groups.is_empty()) {
        out.spec.allow_unsafe = api::AllowUnsafe::Acknowledged;
        let what = "ignored resources can be overbooked: taken over with allowUnsafe: Acknowledged";
        out.report.note(args.path(), what);
    }
    if let Some(strategy) = fields.get("scoringStrategy") {
        let known = strategy.fields(&["type", "resources", "requestedToCapacityRatio"])?;
        let kind = known.need("type", "write LeastAllocated, MostAllocated or RequestedToCapacityRatio")?;
        let ratio = known.get("requestedToCapacityRatio");
        let kind = kind.choice(&[LeastAllocated, MostAllocated, RequestedToCapacityRatio])?;
        if let Some(ratio) = ratio.as_ref().filter(|_| kind != RequestedToCapacityRatio) {
            let message = "is read by type RequestedToCapacityRatio only";
            return Err(ratio.bad(message, "remove it, or change type"));
        }
        let resources = resources(&known, &format!("{FIELD}.strategy.resources"), out)?;
        let shape = match ratio {
            Some(ratio) => shape(&ratio.fields(&["shape"])?.list("shape")?)?,
            None => Vec::new(),
        };
        read.strategy = Some(api::ScoringStrategy { kind, resources, scalar_weight: None, shape });
        let shape_field = format!("{}.requestedToCapacityRatio.shape", strategy.path());
        out.origins.add_silently(format!("{FIELD}.strategy.shape"), shape_field);
        out.origins.add_silently(format!("{FIELD}.strategy"), strategy.path());
    }
    Ok(read)
}

/// The extended resources, or groups of them, in a list; other names never had an effect.
fn ignored(fields: &Fields<'_>, list: &str, out: &mut Draft) -> Result<Vec<String>, ImportError> {
    let mut names: Vec<String> = Vec::new();
    for item in fields.list(list)? {
        let name = item.text()?;
        let group = list == "ignoredResourceGroups";
        if !is_qualified_name(name) || (group && name.contains('/')) {
            let fix =
                if group { "write what stands before the /, such as example.com" } else { "write a resource's name" };
            return Err(item.bad(format!("{name:?} is not a valid name"), fix));
        }
        let extended = name.contains('/') && !name.contains("kubernetes.io/") && is_scalar_resource(name);
        if if group { is_dns1123_subdomain(name) } else { extended } {
            if !names.iter().any(|n| n == name) {
                names.push(name.to_owned());
            }
        } else {
            out.report.note(item.path(), format!("{name} names no extended resource: it has no effect"));
        }
    }
    Ok(names)
}

/// The resources that a score looks at. Names that no node can have are left out: they never counted.
fn resources(fields: &Fields<'_>, field: &str, out: &mut Draft) -> Result<Vec<api::ResourceWeight>, ImportError> {
    let items = fields.list("resources")?;
    let mut read: Vec<api::ResourceWeight> = Vec::new();
    for item in &items {
        let resource = item.fields(&["name", "weight"])?;
        let name = resource.need("name", "name a resource, such as cpu")?.text()?;
        let weight = resource.int_or("weight", 1)?;
        let weight = if weight == 0 { 1 } else { weight };
        let native = matches!(name, "cpu" | "memory" | "ephemeral-storage");
        if !(native || (is_qualified_name(name) && is_scalar_resource(name))) {
            out.report.note(item.path(), format!("{name} is no resource that nodes have: it never counts"));
            continue;
        }
        // NodeResourcesFit counts a resource that is listed twice with both weights.
        if let Some(twin) = read.iter_mut().find(|r| r.name == name && field.ends_with("strategy.resources")) {
            twin.weight = twin.weight.saturating_add(weight);
            continue;
        }
        out.origins.add_silently(format!("{field}[{}]", read.len()), item.path());
        read.push(api::ResourceWeight { name: name.to_owned(), weight });
    }
    if read.is_empty() && !items.is_empty() {
        let message = "names no resource that nodes have";
        return Err(ImportError::new(fields.at("resources"), message, "name some, such as cpu, or remove the list"));
    }
    Ok(read)
}

pub(super) fn shape(points: &[Node<'_>]) -> Result<Vec<api::ShapePoint>, ImportError> {
    let point = |node: &Node<'_>| {
        let fields = node.fields(&["utilization", "score"])?;
        Ok(api::ShapePoint { utilization: fields.int_or("utilization", 0)?, score: fields.int_or("score", 0)? })
    };
    points.iter().map(point).collect()
}

fn inter_pod_affinity(args: &Node<'_>) -> Result<api::InterPodAffinityArgs, ImportError> {
    let known = ["hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"];
    let fields = typed(args, "InterPodAffinity", &known)?;
    let default_weight = api::InterPodAffinityArgs::default().hard_pod_affinity_weight;
    Ok(api::InterPodAffinityArgs {
        hard_pod_affinity_weight: fields.int_or("hardPodAffinityWeight", default_weight)?,
        ignore_preferred_terms_of_existing_pods: fields.flag("ignorePreferredTermsOfExistingPods")?,
    })
}

fn spread(args: &Node<'_>, report: &mut Report) -> Result<api::PodTopologySpreadArgs, ImportError> {
    use api::SpreadDefaulting::{List, System};
    let fields = typed(args, "PodTopologySpread", &["defaultingType", "defaultConstraints"])?;
    let kind = fields.get("defaultingType").filter(|kind| kind.text() != Ok(""));
    let kind = kind.map_or(Ok(System), |kind| kind.choice(&[System, List]))?;
    let constraints = fields.list("defaultConstraints")?;
    let constraints = constraints.iter().map(|c| constraint(c, report)).collect::<Result<_, _>>()?;
    Ok(api::PodTopologySpreadArgs { defaulting_type: Some(kind), default_constraints: constraints })
}

fn constraint(node: &Node<'_>, report: &mut Report) -> Result<api::SpreadConstraint, ImportError> {
    use api::NodeInclusionPolicy::{Honor, Ignore};
    use api::WhenUnsatisfiable::{DoNotSchedule, ScheduleAnyway};
    let fields = node.fields(&[
        "maxSkew",
        "topologyKey",
        "whenUnsatisfiable",
        "labelSelector",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "matchLabelKeys",
    ])?;
    if let Some(selector) = fields.get("labelSelector") {
        let message = "is not for default constraints, whose selector is derived for each pod";
        return Err(selector.bad(message, "remove it"));
    }
    if let Some(keys) = fields.get("matchLabelKeys") {
        report.note(keys.path(), "has no effect in a default constraint");
    }
    let policy = |name| fields.get(name).map(|p| p.choice(&[Honor, Ignore])).transpose();
    let when = fields.need("whenUnsatisfiable", "write DoNotSchedule or ScheduleAnyway")?;
    let when = when.choice(&[DoNotSchedule, ScheduleAnyway])?;
    let min_domains = fields.get("minDomains").map(|n| n.int()).transpose()?;
    Ok(api::SpreadConstraint {
        max_skew: fields.need("maxSkew", "write 1 or more")?.int()?,
        topology_key: fields.need("topologyKey", "name a node label")?.text()?.to_owned(),
        when_unsatisfiable: when,
        // Scores never read minDomains.
        min_domains: min_domains.filter(|_| when == DoNotSchedule),
        node_affinity_policy: policy("nodeAffinityPolicy")?,
        node_taints_policy: policy("nodeTaintsPolicy")?,
    })
}

fn volume_binding(args: &Node<'_>) -> Result<api::VolumeBindingArgs, ImportError> {
    let fields = typed(args, "VolumeBinding", &["bindTimeoutSeconds", "shape"])?;
    if let Some(shape) = fields.get("shape") {
        let message = "is read by the feature StorageCapacityScoring only, which is off as in kube-scheduler";
        return Err(shape.bad(message, "remove it"));
    }
    let mut read = api::VolumeBindingArgs::default();
    if let Some(timeout) = fields.get("bindTimeoutSeconds") {
        // A profile can write six digits of hours.
        let longest = 999_999 * 3_600;
        let seconds = u64::try_from(timeout.long()?).ok().filter(|s| *s <= longest);
        let seconds =
            seconds.ok_or_else(|| timeout.bad("is out of range", format!("write 0 to {longest}, such as 600")))?;
        read.bind_timeout = api::Duration::from_secs(seconds);
    }
    Ok(read)
}

fn dynamic_resources(args: &Node<'_>, report: &mut Report) -> Result<api::DynamicResourcesArgs, ImportError> {
    let fields = typed(args, "DynamicResources", &["filterTimeout", "bindingTimeout"])?;
    let default = api::DynamicResourcesArgs::default();
    let timeout = |name, default| fields.get(name).map_or(Ok(default), |timeout| duration::read(&timeout));
    let read = api::DynamicResourcesArgs {
        filter_timeout: timeout("filterTimeout", default.filter_timeout)?,
        binding_timeout: timeout("bindingTimeout", default.binding_timeout)?,
    };
    if read.filter_timeout != default.filter_timeout {
        let what = "checked, and not used: the search for devices on a node ends after a million steps, some 20 ms";
        report.lost(fields.at("filterTimeout"), what);
    }
    Ok(read)
}

fn preemption(args: &Node<'_>, out: &mut Draft) -> Result<(), ImportError> {
    let names = ["minCandidateNodesPercentage", "minCandidateNodesAbsolute"];
    let fields = typed(args, "DefaultPreemption", &names)?;
    let (percentage, absolute) = (fields.int_or(names[0], 10)?, fields.int_or(names[1], 100)?);
    let bad = |name: &str, message: &str, fix: &str| Err(ImportError::new(fields.at(name), message, fix));
    if !(0..=100).contains(&percentage) {
        return bad(names[0], &format!("{percentage} is not a percentage"), "write 0 to 100");
    }
    if absolute < 0 {
        return bad(names[1], &format!("{absolute} is out of range"), "write 0 or more");
    }
    if percentage == 0 && absolute == 0 {
        return bad(names[0], "is 0, and so is minCandidateNodesAbsolute", "raise one of them");
    }
    // No cluster has more nodes than that, so that none is left out.
    let absolute = absolute.min(MAX_CANDIDATES);
    let read = api::CandidateNodes { percentage, absolute };
    if read != api::CandidateNodes::default() {
        out.origins.add("spec.preemption.candidateNodes", args.path());
    }
    out.spec.preemption.candidate_nodes = read;
    Ok(())
}

/// `addedAffinity` of NodeAffinity, which is written as a pod's node affinity.
fn added_affinity(node: &Node<'_>) -> Result<AddedAffinity, ImportError> {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let fields = node.fields(&[required, preferred])?;
    Ok(AddedAffinity {
        required_during_scheduling_ignored_during_execution: fields.get(required).map(|s| selector(&s)).transpose()?,
        preferred_during_scheduling_ignored_during_execution: preferences(&fields.list(preferred)?)?,
    })
}

fn selector(node: &Node<'_>) -> Result<NodeSelector, ImportError> {
    let terms = node.fields(&["nodeSelectorTerms"])?.list("nodeSelectorTerms")?;
    Ok(NodeSelector { node_selector_terms: terms.iter().map(term).collect::<Result<_, _>>()? })
}

/// Preferred terms. Those of weight 0 can never count and are left out. An empty term matches nothing, but makes the
/// score run for every pod, so it stays.
fn preferences(nodes: &[Node<'_>]) -> Result<Vec<PreferredNodeSelectorTerm>, ImportError> {
    let mut read = Vec::new();
    for node in nodes {
        let fields = node.fields(&["weight", "preference"])?;
        let weight = fields.need("weight", "write 1 to 100")?.int()?;
        let preference = term(&fields.need("preference", "write the term that weight is for")?)?;
        if weight != 0 {
            read.push(PreferredNodeSelectorTerm { weight, preference });
        }
    }
    Ok(read)
}

fn term(node: &Node<'_>) -> Result<NodeSelectorTerm, ImportError> {
    let fields = node.fields(&["matchExpressions", "matchFields"])?;
    let expressions = fields.list("matchExpressions")?;
    let names = fields.list("matchFields")?;
    Ok(NodeSelectorTerm {
        match_expressions: expressions.iter().map(expression).collect::<Result<_, _>>()?,
        match_fields: names.iter().map(field).collect::<Result<_, _>>()?,
    })
}

fn expression(node: &Node<'_>) -> Result<NodeSelectorRequirement, ImportError> {
    let (key, operator, values) = requirement(&node.fields(&["key", "operator", "values"])?)?;
    Ok(NodeSelectorRequirement { key, operator, values })
}

fn field(node: &Node<'_>) -> Result<FieldSelectorRequirement, ImportError> {
    let (key, operator, values) = requirement(&node.fields(&["key", "operator", "values"])?)?;
    Ok(FieldSelectorRequirement { key, operator, values })
}

fn requirement(fields: &Fields<'_>) -> Result<(String, NodeSelectorOperator, Vec<String>), ImportError> {
    use NodeSelectorOperator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    let operators = [In, NotIn, Exists, DoesNotExist, Gt, Lt];
    let key = fields.need("key", "name a label")?.text()?.to_owned();
    let operator = fields.need("operator", "write one, such as In")?.choice(&operators)?;
    let values = fields.get("values").map_or_else(|| Ok(Vec::new()), |values| values.texts())?;
    Ok((key, operator, values))
}
