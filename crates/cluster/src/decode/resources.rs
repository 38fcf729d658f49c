//! What a pod asks for: containers, init containers, sidecars, pod level, overhead and resizes.
//! After `PodRequests` in `staging/src/k8s.io/component-helpers/resource/helpers.go`.
//!
//! Amounts stay exact until the very end, as upstream sums before it rounds.

use super::{Decoder, bad};
use crate::slim::{Amount, Container, ContainerStatus, FieldError, Pairs, Parts, PodSpec, PodStatus, Resources};
use berth_core::model::{Quantity, Requests, Usage, is_scalar_resource};
use smallvec::SmallVec;

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

#[derive(Debug, Clone, Default)]
pub(super) struct Amounts<'s>(SmallVec<[(&'s str, Quantity); 4]>);

impl<'s> Amounts<'s> {
    /// The amounts of a map that stands at `field`.
    pub(super) fn read(pairs: &'s Pairs<'_, Amount>, field: &str, sign: Sign) -> Result<Self, FieldError> {
        let mut amounts = Self::default();
        for (name, Amount(amount)) in pairs.iter() {
            let at = || format!("{field}[{}]", &**name);
            let amount = amount.as_ref().map_err(|error| bad(at(), error.to_string()))?;
            if amount.is_negative() && sign == Sign::Positive {
                return Err(bad(at(), format!("{amount} is negative: write an amount of 0 or more")));
            }
            amounts.set(name, *amount);
        }
        Ok(amounts)
    }

    fn find(&self, name: &str) -> Option<Quantity> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, amount)| *amount)
    }

    /// The amount of `name`, nothing if it is not named.
    pub(super) fn get(&self, name: &str) -> Quantity {
        self.find(name).unwrap_or(Quantity::ZERO)
    }

    fn set(&mut self, name: &'s str, amount: Quantity) {
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some((_, known)) => *known = amount,
            None => self.0.push((name, amount)),
        }
    }

    fn merge(&mut self, other: &Self, combine: impl Fn(Quantity, Quantity) -> Quantity) {
        for (name, amount) in &other.0 {
            let amount = self.find(name).map_or(*amount, |own| combine(own, *amount));
            self.set(name, amount);
        }
    }

    fn add(&mut self, other: &Self) {
        self.merge(other, |a, b| a + b);
    }

    fn raise_to(&mut self, other: &Self) {
        self.merge(other, Ord::max);
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

    fn complete<'s>(self, amounts: &Amounts<'s>) -> Amounts<'s> {
        let mut complete = amounts.clone();
        for (name, amount) in [(CPU, self.cpu), (MEMORY, self.memory)] {
            if let Some(amount) = amount
                && amounts.find(name).is_none()
            {
                complete.set(name, amount);
            }
        }
        complete
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

/// The resources of a pod, by container and as a whole.
pub(super) struct PodAmounts<'s> {
    init: SmallVec<[Asked<'s>; 1]>,
    containers: SmallVec<[Asked<'s>; 2]>,
    /// Supported resources of the pod level; `None` where none is set.
    level: Option<Amounts<'s>>,
    level_actual: Option<Amounts<'s>>,
    overhead: Amounts<'s>,
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
        Ok(Self {
            init: init.collect::<Result<_, FieldError>>()?,
            containers: containers.collect::<Result<_, FieldError>>()?,
            level,
            level_actual,
            overhead: Amounts::read(&spec.overhead, "spec.overhead", Sign::Positive)?,
        })
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
        let of = |asked: &Asked<'s>| {
            let amounts = asked.actual.as_ref().filter(|_| variant.actual).unwrap_or(&asked.spec);
            variant.defaults.complete(amounts)
        };
        let mut sum = Amounts::default();
        for container in &self.containers {
            sum.add(&of(container));
        }
        let (mut running, mut peak) = (Amounts::default(), Amounts::default());
        for container in &self.init {
            let mut amounts = of(container);
            if container.sidecar {
                sum.add(&amounts);
                running.add(&amounts);
                peak.raise_to(&running);
            } else {
                amounts.add(&running);
                peak.raise_to(&amounts);
            }
        }
        sum.raise_to(&peak);
        if let Some(level) = self.level.as_ref().filter(|_| variant.pod_level) {
            let actual = self.level_actual.as_ref().filter(|_| variant.actual);
            for (name, amount) in &level.0 {
                sum.set(name, actual.map_or(*amount, |actual| actual.get(name)));
            }
        }
        sum.add(&self.overhead);
        sum
    }
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
