//! Turns the arguments of kube-scheduler's plugins into those of a profile.

use super::affinity;
use super::catalogue::{REMOVED, find};
use super::duration;
use super::node::{Fields, ImportError, Node};
use super::{Loss, Origins};
use berth_api::{self as api, SchedulerProfileSpec};
use berth_core::model::is_scalar_resource;
use berth_profile::{is_dns1123_subdomain, is_qualified_name};

/// The most candidate nodes that a profile can ask for.
const MAX_CANDIDATES: i32 = 100_000;

/// What the readers of arguments fill in.
pub(super) struct Out<'a> {
    pub(super) spec: &'a mut SchedulerProfileSpec,
    pub(super) origins: &'a mut Origins,
    pub(super) losses: &'a mut Vec<Loss>,
    /// Whether kube-scheduler puts the resources that extenders manage in the place of `ignoredResources`.
    pub(super) ignored_elsewhere: bool,
}

/// Reads the list `pluginConfig` of a profile.
pub(super) fn read(configs: Vec<Node<'_>>, out: &mut Out<'_>) -> Result<(), ImportError> {
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

fn plugin(name: &str, at: &Node<'_>, args: &Node<'_>, out: &mut Out<'_>) -> Result<(), ImportError> {
    match name {
        "NodeResourcesFit" => {
            out.spec.plugin_args.node_resources_fit = Some(fit(args, out)?);
        }
        "NodeResourcesBalancedAllocation" => {
            let fields = typed(args, name, &["resources"])?;
            let field = "spec.pluginArgs.nodeResourcesBalancedAllocation";
            let resources = resources(&fields, &format!("{field}.resources"), out)?;
            out.origins.add(field, args.path());
            out.spec.plugin_args.node_resources_balanced_allocation = Some(api::BalancedAllocationArgs { resources });
        }
        "NodeAffinity" => {
            let fields = typed(args, name, &["addedAffinity"])?;
            let added_affinity = fields.get("addedAffinity").map(|a| affinity::read(&a)).transpose()?;
            out.origins.add("spec.pluginArgs.nodeAffinity", args.path());
            out.spec.plugin_args.node_affinity = Some(api::NodeAffinityArgs { added_affinity });
        }
        "InterPodAffinity" => {
            let read = inter_pod_affinity(args)?;
            out.origins.add("spec.pluginArgs.interPodAffinity", args.path());
            out.spec.plugin_args.inter_pod_affinity = Some(read);
        }
        "PodTopologySpread" => {
            let read = spread(args, out.losses)?;
            out.origins.add("spec.pluginArgs.podTopologySpread", args.path());
            out.spec.plugin_args.pod_topology_spread = Some(read);
        }
        "VolumeBinding" => {
            let read = volume_binding(args)?;
            out.origins.add("spec.pluginArgs.volumeBinding.bindTimeout", format!("{}.bindTimeoutSeconds", args.path()));
            out.spec.plugin_args.volume_binding = Some(read);
        }
        "DynamicResources" => {
            let read = dynamic_resources(args)?;
            out.origins.add("spec.pluginArgs.dynamicResources", args.path());
            out.spec.plugin_args.dynamic_resources = Some(read);
            out.losses.push(Loss::lost(args.path(), "checked, and not used yet: a pod with resource claims is held"));
        }
        "DefaultPreemption" => preemption(args, out)?,
        _ if find(name).is_some() => {
            out.losses.push(Loss::note(args.path(), format!("{name} takes no arguments: they have no effect")));
        }
        _ => out.losses.push(Loss::note(at.path(), format!("no plugin is named {name}: its arguments have no effect"))),
    }
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

fn fit(args: &Node<'_>, out: &mut Out<'_>) -> Result<api::NodeResourcesFitArgs, ImportError> {
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
        out.losses.push(Loss::note(fields.at("ignoredResources"), what));
    }
    if !(read.ignored_resources.is_empty() && read.ignored_resource_groups.is_empty()) {
        out.spec.allow_unsafe = api::AllowUnsafe::Acknowledged;
        let what = "ignored resources can be overbooked: taken over with allowUnsafe: Acknowledged";
        out.losses.push(Loss::note(args.path(), what));
    }
    if let Some(strategy) = fields.get("scoringStrategy") {
        let known = strategy.fields(&["type", "resources", "requestedToCapacityRatio"])?;
        let kinds = [
            ("LeastAllocated", api::ScoringStrategyType::LeastAllocated),
            ("MostAllocated", api::ScoringStrategyType::MostAllocated),
            ("RequestedToCapacityRatio", api::ScoringStrategyType::RequestedToCapacityRatio),
        ];
        let kind = known.need("type", "write LeastAllocated, MostAllocated or RequestedToCapacityRatio")?;
        let ratio = known.get("requestedToCapacityRatio");
        let kind = kind.choice(&kinds)?;
        if let Some(ratio) = ratio.as_ref().filter(|_| kind != api::ScoringStrategyType::RequestedToCapacityRatio) {
            let message = "is read by type RequestedToCapacityRatio only";
            return Err(ratio.bad(message, "remove it, or change type"));
        }
        let resources = resources(&known, &format!("{FIELD}.strategy.resources"), out)?;
        let shape = ratio.map(|r| shape(&r)).transpose()?.unwrap_or_default();
        read.strategy = Some(api::ScoringStrategy { kind, resources, shape });
        let shape_field = format!("{}.requestedToCapacityRatio.shape", strategy.path());
        out.origins.add_silently(format!("{FIELD}.strategy.shape"), shape_field);
        out.origins.add_silently(format!("{FIELD}.strategy"), strategy.path());
    }
    out.origins.add(FIELD, args.path());
    Ok(read)
}

/// The extended resources, or groups of them, in a list; other names never had an effect.
fn ignored(fields: &Fields<'_>, list: &str, out: &mut Out<'_>) -> Result<Vec<String>, ImportError> {
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
            out.losses.push(Loss::note(item.path(), format!("{name} names no extended resource: it has no effect")));
        }
    }
    Ok(names)
}

/// The resources that a score looks at. Names that no node can have are left out: they never counted.
fn resources(fields: &Fields<'_>, field: &str, out: &mut Out<'_>) -> Result<Vec<api::ResourceWeight>, ImportError> {
    let items = fields.list("resources")?;
    let mut read: Vec<api::ResourceWeight> = Vec::new();
    for item in &items {
        let resource = item.fields(&["name", "weight"])?;
        let name = resource.need("name", "name a resource, such as cpu")?.text()?;
        let weight = match resource.get("weight").map(|w| w.int()).transpose()? {
            None | Some(0) => 1,
            Some(weight) => weight,
        };
        let native = matches!(name, "cpu" | "memory" | "ephemeral-storage");
        if !(native || (is_qualified_name(name) && is_scalar_resource(name))) {
            out.losses.push(Loss::note(item.path(), format!("{name} is no resource that nodes have: it never counts")));
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

fn shape(ratio: &Node<'_>) -> Result<Vec<api::ShapePoint>, ImportError> {
    let points = ratio.fields(&["shape"])?.list("shape")?;
    let point = |node: &Node<'_>| {
        let fields = node.fields(&["utilization", "score"])?;
        let number = |name| fields.get(name).map_or(Ok(0), |n| n.int());
        Ok(api::ShapePoint { utilization: number("utilization")?, score: number("score")? })
    };
    points.iter().map(point).collect()
}

fn inter_pod_affinity(args: &Node<'_>) -> Result<api::InterPodAffinityArgs, ImportError> {
    let known = ["hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"];
    let fields = typed(args, "InterPodAffinity", &known)?;
    let mut read = api::InterPodAffinityArgs::default();
    if let Some(weight) = fields.get("hardPodAffinityWeight") {
        read.hard_pod_affinity_weight = weight.int()?;
    }
    if let Some(ignore) = fields.get("ignorePreferredTermsOfExistingPods") {
        read.ignore_preferred_terms_of_existing_pods = ignore.flag()?;
    }
    Ok(read)
}

fn spread(args: &Node<'_>, losses: &mut Vec<Loss>) -> Result<api::PodTopologySpreadArgs, ImportError> {
    let fields = typed(args, "PodTopologySpread", &["defaultingType", "defaultConstraints"])?;
    let types = [("System", api::SpreadDefaulting::System), ("List", api::SpreadDefaulting::List)];
    let kind = fields.get("defaultingType").filter(|kind| kind.text() != Ok(""));
    let kind = kind.map_or(Ok(api::SpreadDefaulting::System), |kind| kind.choice(&types))?;
    let constraints =
        fields.list("defaultConstraints")?.iter().map(|c| constraint(c, losses)).collect::<Result<_, _>>()?;
    Ok(api::PodTopologySpreadArgs { defaulting_type: Some(kind), default_constraints: constraints })
}

fn constraint(node: &Node<'_>, losses: &mut Vec<Loss>) -> Result<api::SpreadConstraint, ImportError> {
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
        losses.push(Loss::note(keys.path(), "has no effect in a default constraint"));
    }
    let actions = [
        ("DoNotSchedule", api::WhenUnsatisfiable::DoNotSchedule),
        ("ScheduleAnyway", api::WhenUnsatisfiable::ScheduleAnyway),
    ];
    let policies = [("Honor", api::NodeInclusionPolicy::Honor), ("Ignore", api::NodeInclusionPolicy::Ignore)];
    let policy = |name| fields.get(name).map(|p| p.choice(&policies)).transpose();
    let when = fields.need("whenUnsatisfiable", "write DoNotSchedule or ScheduleAnyway")?.choice(&actions)?;
    let min_domains = fields.get("minDomains").map(|n| n.int()).transpose()?;
    Ok(api::SpreadConstraint {
        max_skew: fields.need("maxSkew", "write 1 or more")?.int()?,
        topology_key: fields.need("topologyKey", "name a node label")?.text()?.to_owned(),
        when_unsatisfiable: when,
        // Scores never read minDomains.
        min_domains: min_domains.filter(|_| when == api::WhenUnsatisfiable::DoNotSchedule),
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

fn dynamic_resources(args: &Node<'_>) -> Result<api::DynamicResourcesArgs, ImportError> {
    let fields = typed(args, "DynamicResources", &["filterTimeout", "bindingTimeout"])?;
    let mut read = api::DynamicResourcesArgs::default();
    if let Some(timeout) = fields.get("filterTimeout") {
        read.filter_timeout = duration::read(&timeout)?;
    }
    if let Some(timeout) = fields.get("bindingTimeout") {
        read.binding_timeout = duration::read(&timeout)?;
    }
    Ok(read)
}

fn preemption(args: &Node<'_>, out: &mut Out<'_>) -> Result<(), ImportError> {
    let names = ["minCandidateNodesPercentage", "minCandidateNodesAbsolute"];
    let fields = typed(args, "DefaultPreemption", &names)?;
    let number = |name: &str, default| fields.get(name).map_or(Ok(default), |n| n.int());
    let (percentage, absolute) = (number(names[0], 10)?, number(names[1], 100)?);
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
