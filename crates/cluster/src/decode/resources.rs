//! What a pod asks for: containers, init containers, sidecars, pod level, overhead and resizes.
//! After `PodRequests` in `staging/src/k8s.io/component-helpers/resource/helpers.go`.
//!
//! Amounts stay exact until the very end, as upstream sums before it rounds.

use super::{Decoder, bad};
use crate::slim::{Amount, Container, ContainerStatus, FieldError, Pairs, Parts, PodSpec, PodStatus, Resources};
use berth_core::model::{Quantity, Requests, Usage, is_scalar_resource};
use smallvec::SmallVec;
use std::cmp::Ordering;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
/// What a container that names no CPU counts for. After `pkg/scheduler/util/pod_resources.go`.
const DEFAULT_CPU: Quantity = Quantity::from_milli(100);
/// What a container that names no memory counts for.
const DEFAULT_MEMORY: Quantity = Quantity::from_units(200 * 1024 * 1024);

/// Whether amounts below zero are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// They are an error.
    Positive,
    /// They are taken; rounding to [`Requests`] makes them 0.
    Any,
}

/// Sorted by name, each name once. A pod may name twenty thousand resources, so that no list is searched from its start.
#[derive(Debug, Clone, Default)]
pub(super) struct Amounts<'s>(SmallVec<[(&'s str, Quantity); 4]>);

impl<'s> Amounts<'s> {
    /// The amounts of a map that stands at `field`.
    pub(super) fn read(pairs: &'s Pairs<'_, Amount>, field: &str, sign: Sign) -> Result<Self, FieldError> {
        let mut amounts: SmallVec<[(&str, Quantity); 4]> = SmallVec::with_capacity(pairs.len());
        for (name, Amount(amount)) in pairs.iter() {
            let at = || format!("{field}[{}]", &**name);
            let amount = amount.as_ref().map_err(|error| bad(at(), error.to_string()))?;
            if amount.is_negative() && sign == Sign::Positive {
                return Err(bad(at(), format!("{amount} is negative: write an amount of 0 or more")));
            }
            amounts.push((&**name, *amount));
        }
        // If a name stands twice, the last one counts.
        Ok(Self::sorted(amounts, |_, later| later))
    }

    /// Those of a name are `combined` to one, in the order given. API servers write maps sorted by key: then this is one pass.
    fn sorted(
        mut amounts: SmallVec<[(&'s str, Quantity); 4]>,
        combined: impl Fn(Quantity, Quantity) -> Quantity,
    ) -> Self {
        amounts.sort_by(|(a, _), (b, _)| by_name(a, b));
        amounts.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = combined(kept.1, later.1);
            }
            same
        });
        Self(amounts)
    }

    fn find(&self, name: &str) -> Option<Quantity> {
        self.0.binary_search_by(|(known, _)| by_name(known, name)).ok().map(|at| self.0[at].1)
    }

    /// The amount of `name`, nothing if it is not named.
    pub(super) fn get(&self, name: &str) -> Quantity {
        self.find(name).unwrap_or(Quantity::ZERO)
    }

    /// O(both): the sort finds the two runs.
    fn raise_to(&mut self, other: &Self) {
        let mut both = std::mem::take(&mut self.0);
        both.extend_from_slice(&other.0);
        *self = Self::sorted(both, Ord::max);
    }

    /// These amounts rounded up to what the core counts.
    pub(super) fn requests(&self, decoder: &mut Decoder) -> Requests {
        let mut requests = Requests {
            milli_cpu: self.get(CPU).milli().max(0),
            memory: self.get(MEMORY).value().max(0),
            ephemeral_storage: self.get("ephemeral-storage").value().max(0),
            ..Requests::default()
        };
        for (name, amount) in self.0.iter().filter(|(name, _)| is_scalar_resource(name)) {
            requests.set_scalar(decoder.text(name), amount.value().max(0));
        }
        requests
    }
}

/// What containers that name no CPU or no memory count for.
#[derive(Clone, Copy, Default)]
struct Defaults {
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
}

impl Defaults {
    const ALL: Self = Self { cpu: Some(DEFAULT_CPU), memory: Some(DEFAULT_MEMORY) };

    /// Those of what `amounts` does not name.
    fn missing<'s>(self, amounts: &Amounts<'s>) -> impl Iterator<Item = (&'s str, Quantity)> {
        let is_missing = |(name, amount): (&'s str, Option<Quantity>)| match amounts.find(name) {
            None => amount.map(|amount| (name, amount)),
            Some(_) => None,
        };
        [(CPU, self.cpu), (MEMORY, self.memory)].into_iter().filter_map(is_missing)
    }
}

/// A sum of amounts while it is made: each stands at the place of its name in a sorted list.
struct Sum<'a, 's> {
    names: &'a [&'s str],
    /// `None`: not named.
    amounts: SmallVec<[Option<Quantity>; 4]>,
}

impl<'a, 's> Sum<'a, 's> {
    /// Of none so far; `names` has all that will be added.
    fn of(names: &'a [&'s str]) -> Self {
        Self { names, amounts: SmallVec::from_elem(None, names.len()) }
    }

    fn at(&mut self, name: &str) -> Option<&mut Option<Quantity>> {
        let at = self.names.binary_search_by(|known| by_name(known, name)).ok()?;
        self.amounts.get_mut(at)
    }

    /// Returns the amount of `name` now.
    fn add(&mut self, name: &str, amount: Quantity) -> Quantity {
        let Some(sum) = self.at(name) else { return amount };
        let now = sum.map_or(amount, |sum| sum + amount);
        *sum = Some(now);
        now
    }

    fn raise(&mut self, name: &str, amount: Quantity) {
        if let Some(sum) = self.at(name) {
            *sum = (*sum).max(Some(amount));
        }
    }

    fn raise_to(&mut self, other: &Self) {
        self.amounts.iter_mut().zip(&other.amounts).for_each(|(sum, other)| *sum = (*sum).max(*other));
    }

    fn finish(self) -> Amounts<'s> {
        let named = self.names.iter().zip(self.amounts).filter_map(|(name, amount)| Some((*name, amount?)));
        Amounts(named.collect())
    }
}

struct Asked<'s> {
    spec: Amounts<'s>,
    /// What counts instead of the spec once the node has reported what the container has.
    actual: Option<Amounts<'s>>,
    sidecar: bool,
}

/// Which of the sums upstream makes: with what the node reports or as specified, with or without the pod level's requests.
#[derive(Clone, Copy)]
struct Variant {
    actual: bool,
    pod_level: bool,
    defaults: Defaults,
}

impl Variant {
    fn of<'s>(self, asked: &Asked<'s>) -> impl Iterator<Item = (&'s str, Quantity)> {
        let amounts = asked.actual.as_ref().filter(|_| self.actual).unwrap_or(&asked.spec);
        amounts.0.iter().copied().chain(self.defaults.missing(amounts))
    }
}

/// The resources of a pod, by container and as a whole.
pub(super) struct PodAmounts<'s> {
    init: SmallVec<[Asked<'s>; 1]>,
    containers: SmallVec<[Asked<'s>; 2]>,
    /// Supported resources of the pod level; `None` where none is set.
    level: Option<Amounts<'s>>,
    level_actual: Option<Amounts<'s>>,
    overhead: Amounts<'s>,
    /// All names above, and those that have defaults; sorted, each once.
    names: SmallVec<[&'s str; 4]>,
}

impl<'s> PodAmounts<'s> {
    pub(super) fn read(parts: &'s Parts<'_, PodSpec<'_>, PodStatus<'_>>) -> Result<Self, FieldError> {
        let Parts { spec, status, .. } = parts;
        let infeasible = resize_is_infeasible(status);
        let asked = |list: &'static str, index: usize, container: &'s Container<'_>| {
            let field = format!("spec.{list}[{index}].resources.requests");
            let own = Amounts::read(&container.resources.requests, &field, Sign::Positive)?;
            let sidecar = is_sidecar(container);
            let actual =
                if list == "containers" || sidecar { actual(container, &own, status, infeasible)? } else { None };
            Ok(Asked { spec: own, actual, sidecar })
        };
        let init = spec.init_containers.iter().enumerate().map(|(i, c)| asked("initContainers", i, c));
        let containers = spec.containers.iter().enumerate().map(|(i, c)| asked("containers", i, c));
        let level = pod_level(spec)?;
        let level_actual = level.as_ref().map(|level| {
            let at = || "status".to_owned();
            reported(level, status.resources.as_ref(), &status.allocated_resources, at, infeasible)
        });
        let level_actual = level_actual.transpose()?.flatten();
        let mut amounts = Self {
            init: init.collect::<Result<_, FieldError>>()?,
            containers: containers.collect::<Result<_, FieldError>>()?,
            level,
            level_actual,
            overhead: Amounts::read(&spec.overhead, "spec.overhead", Sign::Positive)?,
            names: SmallVec::from_slice(&[CPU, MEMORY]),
        };
        amounts.collect_names();
        Ok(amounts)
    }

    fn collect_names(&mut self) {
        let Self { init, containers, level, overhead, names, .. } = self;
        let asked = init.iter().chain(&*containers).flat_map(|asked| [Some(&asked.spec), asked.actual.as_ref()]);
        for amounts in asked.chain([level.as_ref(), Some(&*overhead)]).flatten() {
            names.extend(amounts.0.iter().map(|(name, _)| *name));
        }
        // It finds the runs that are sorted.
        names.sort_by(|a, b| by_name(a, b));
        names.dedup();
    }

    /// What the pod takes from its node: resizes and pod level included.
    pub(super) fn usage(&self, decoder: &mut Decoder) -> Usage {
        let real = Variant { actual: true, pod_level: true, defaults: Defaults::default() };
        let requests = self.total(real);
        let defaults = if self.level.is_some() {
            Defaults {
                cpu: requests.find(CPU).is_none().then_some(DEFAULT_CPU),
                memory: requests.find(MEMORY).is_none().then_some(DEFAULT_MEMORY),
            }
        } else {
            Defaults::ALL
        };
        let complete = self.total(Variant { defaults, ..real });
        Usage {
            requests: requests.requests(decoder),
            non_zero_milli_cpu: complete.get(CPU).milli(),
            non_zero_memory: complete.get(MEMORY).value(),
            ports: Vec::new(),
        }
    }

    /// What a pending pod asks NodeResourcesFit for.
    pub(super) fn fit(&self, decoder: &mut Decoder) -> Requests {
        self.total(Variant { actual: false, pod_level: true, defaults: Defaults::default() }).requests(decoder)
    }

    /// What the NodeResourcesFit score counts of a pending pod.
    pub(super) fn score(&self, decoder: &mut Decoder) -> Requests {
        self.total(Variant { actual: false, pod_level: false, defaults: Defaults::ALL }).requests(decoder)
    }

    fn total(&self, variant: Variant) -> Amounts<'s> {
        let mut sum = Sum::of(&self.names);
        for (name, amount) in self.containers.iter().flat_map(|container| variant.of(container)) {
            sum.add(name, amount);
        }
        let (mut running, mut peak) = (Sum::of(&self.names), Sum::of(&self.names));
        for container in &self.init {
            for (name, amount) in variant.of(container) {
                // What runs already of other names has been counted in the peak.
                let together = if container.sidecar {
                    sum.add(name, amount);
                    running.add(name, amount)
                } else {
                    running.at(name).and_then(|running| *running).map_or(amount, |running| running + amount)
                };
                peak.raise(name, together);
            }
        }
        sum.raise_to(&peak);
        if let Some(level) = self.level.as_ref().filter(|_| variant.pod_level) {
            let actual = self.level_actual.as_ref().filter(|_| variant.actual);
            for (name, amount) in &level.0 {
                if let Some(sum) = sum.at(name) {
                    *sum = Some(actual.map_or(*amount, |actual| actual.get(name)));
                }
            }
        }
        for (name, amount) in &self.overhead.0 {
            sum.add(name, *amount);
        }
        sum.finish()
    }
}

/// The order of names, in which all lists here stand.
fn by_name(a: &str, b: &str) -> Ordering {
    #[cfg(test)]
    tests::COMPARED.set(tests::COMPARED.get() + 1);
    a.cmp(b)
}

/// Whether an init container runs beside the containers.
pub(super) fn is_sidecar(container: &Container<'_>) -> bool {
    &*container.restart_policy == "Always"
}

fn pod_level<'s>(spec: &'s PodSpec<'_>) -> Result<Option<Amounts<'s>>, FieldError> {
    let Some(resources) = &spec.resources else { return Ok(None) };
    let mut level = Amounts::read(&resources.requests, "spec.resources.requests", Sign::Positive)?;
    level.0.retain(|(name, _)| matches!(*name, CPU | MEMORY) || name.starts_with("hugepages-"));
    Ok(Some(level).filter(|level| !level.0.is_empty()))
}

fn resize_is_infeasible(status: &PodStatus<'_>) -> bool {
    let pending = status.conditions.iter().find(|c| &*c.kind == "PodResizePending");
    pending.is_some_and(|c| &*c.reason == "Infeasible")
}

/// What a container counts for once its status reports its resources; `None` before.
fn actual<'s>(
    container: &Container<'_>,
    own: &Amounts<'s>,
    status: &'s PodStatus<'_>,
    infeasible: bool,
) -> Result<Option<Amounts<'s>>, FieldError> {
    let named = |s: &&ContainerStatus<'_>| s.name == container.name;
    let Some(state) = status.container_statuses.iter().chain(&status.init_container_statuses).find(named) else {
        return Ok(None);
    };
    let at = || format!("status.containerStatuses[{}]", &*state.name);
    reported(own, state.resources.as_ref(), &state.allocated_resources, at, infeasible)
}

/// What counts instead of `spec` once a status, which stands `at` its path, reports resources.
fn reported<'s>(
    spec: &Amounts<'s>,
    had: Option<&'s Resources<'_>>,
    set_aside: &'s Pairs<'_, Amount>,
    at: impl FnOnce() -> String,
    infeasible: bool,
) -> Result<Option<Amounts<'s>>, FieldError> {
    let Some(had) = had else { return Ok(None) };
    let at = at();
    let mut most = Amounts::read(&had.requests, &format!("{at}.resources.requests"), Sign::Positive)?;
    most.raise_to(&Amounts::read(set_aside, &format!("{at}.allocatedResources"), Sign::Positive)?);
    if !infeasible {
        most.raise_to(spec);
    }
    Ok(Some(most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slim::SlimPod;
    use serde_json::{Map, Value, json};
    use std::cell::Cell;

    thread_local! {
        pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    /// A bound pod of three containers, each with so many invented resources; returns the comparisons of names and what it takes.
    fn decoded(names: usize) -> (usize, Usage) {
        let requests = |from: usize| -> Map<String, Value> {
            // Backwards: no API server writes them so.
            (from..from + names).rev().map(|i| (format!("example.com/{i:06}"), json!("1"))).collect()
        };
        let container = |from| json!({"name": format!("c{from}"), "resources": {"requests": requests(from)}});
        let sidecar = json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": requests(7)}});
        let pod = json!({"metadata": {"name": "p", "namespace": "d", "uid": "u"},
            "spec": {"nodeName": "n", "containers": [container(0), container(2)], "initContainers": [sidecar]}});
        COMPARED.set(0);
        let pod = Decoder::small().pod(&SlimPod::read(pod.to_string().as_bytes())).unwrap();
        (COMPARED.get(), (*pod.usage).clone())
    }

    #[test]
    fn names_of_resources_are_compared_in_linear_time() {
        let (few, usage) = decoded(4_000);
        assert_eq!((usage.requests.scalars.len(), usage.requests.scalar("example.com/000008")), (4_007, Some(3)));
        let (many, _) = decoded(40_000);
        // Ten times as many, and searches by halves that are longer by a third.
        assert!(many <= few * 15 && few < 4_000 * 300, "{few} and {many} comparisons");
    }
}
