//! Why the claims of a pod get no devices: what keeps each request from each device, and who has it.

use super::words::{counted, some_of};
use berth_cel::LookedUp;
use berth_core::ledger::Ledger;
use berth_core::model::{ClaimKey, Pod, ResourceClaim, Str};
use berth_core::plugins::{ClaimSurvey, SurveyedAsk};
use berth_core::profile::CompiledProfile;
use berth_devices::model::{AllocationMode, DeviceTaint, TaintEffect};
use berth_devices::{Obstacle, PublishedDevice, Survey, SurveyedDevice};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

/// Devices, values and names that one sentence gives before it only counts.
const SHOWN: usize = 3;

/// A request that gets too few devices, or a claim whose devices are elsewhere; and why, if that is not said with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    pub what: String,
    pub why: Vec<String>,
}

impl Clause {
    const fn of(what: String) -> Self {
        Self { what, why: Vec::new() }
    }
}

/// `WHAT: WHY; WHY`.
impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if self.why.is_empty() { Ok(()) } else { write!(f, ": {}", self.why.join("; ")) }
    }
}

/// What is the matter with the pod's claims on the nodes: of each request that finds too few devices on every one of them, and of each claim
/// whose devices are elsewhere. O(nodes · devices that each sees · requests).
pub(super) fn clauses(profile: &CompiledProfile, ledger: &Ledger, pod: &Pod, nodes: &[&str]) -> Vec<Clause> {
    let mut survey = ClaimSurvey::new(profile, ledger, pod);
    let mut found: Vec<Found> = Vec::new();
    let mut has_each_on_one_node = false;
    let mut elsewhere: BTreeMap<&ClaimKey, &ResourceClaim> = BTreeMap::new();
    for node in nodes {
        elsewhere.extend(survey.unavailable_on(node).into_iter().map(|claim| (&claim.key, &**claim)));
        let here: Vec<Found> = survey.on(node).into_iter().map(|(ask, survey)| Found::on_node(ask, survey)).collect();
        has_each_on_one_node |= !here.is_empty() && lacking(&here).next().is_none();
        for one in here {
            match found.iter_mut().find(|known| known.is_of(&one.ask)) {
                Some(known) => known.add(one),
                None => found.push(one),
            }
        }
    }
    let holders = Holders::of(ledger);
    let of_requests = lacking(&found).map(|one| one.clause(ledger, &holders));
    let mut clauses: Vec<Clause> = of_requests.chain(elsewhere.values().map(|claim| allocated(claim))).collect();
    if clauses.is_empty() && !found.is_empty() {
        let what = if has_each_on_one_node {
            "each request finds devices by itself, but not all of them together"
        } else {
            "each request finds devices on some node, but no node has enough for all of them"
        };
        clauses.push(Clause::of(what.to_owned()));
    }
    clauses
}

/// The requests that get too few devices, whichever alternative is taken.
fn lacking(found: &[Found]) -> impl Iterator<Item = &Found> {
    let lacks = |one: &&Found| found.iter().filter(|other| other.is_in_place_of(one)).all(Found::lacks_devices);
    found.iter().filter(lacks)
}

fn allocated(claim: &ResourceClaim) -> Clause {
    let results = claim.allocation.iter().flat_map(|allocation| &allocation.result.results);
    let devices: Vec<String> = results.map(|result| named(&result.device, &result.pool)).collect();
    Clause::of(format!("claim {} has devices that cannot be used there: {}", claim.key, some_of(&devices, SHOWN)))
}

fn named(device: &str, pool: &str) -> String {
    format!("device {device} of pool {pool}")
}

/// A driver, a pool of it, and a device in that.
type DeviceName = (Str, Str, Str);

fn name_of(published: PublishedDevice<'_>) -> DeviceName {
    let id = &published.slice.id;
    (id.driver.clone(), id.pool.clone(), published.device().name.clone())
}

/// A request, and what keeps it from each device that some of the nodes see.
struct Found {
    ask: SurveyedAsk,
    /// The most devices that one node has for it.
    most: i64,
    /// Whether one node has all that it means, where it means all.
    has_all: bool,
    devices: BTreeMap<DeviceName, SurveyedDevice>,
    unusable: BTreeSet<String>,
}

impl Found {
    fn on_node(ask: SurveyedAsk, Survey { devices, unusable }: Survey) -> Self {
        let usable = devices.iter().filter(|device| device.obstacle.is_none()).count();
        let is_had_or_not_meant = |device: &SurveyedDevice| !device.obstacle.as_ref().is_some_and(is_in_the_way_of_all);
        Self {
            ask,
            most: usable as i64,
            has_all: usable > 0 && unusable.is_empty() && devices.iter().all(is_had_or_not_meant),
            devices: devices.into_iter().map(|device| (name_of(device.published()), device)).collect(),
            unusable: unusable.into_iter().collect(),
        }
    }

    fn is_of(&self, ask: &SurveyedAsk) -> bool {
        (&self.ask.claim, &self.ask.request) == (&ask.claim, &ask.request)
    }

    /// Whether it is this request, or another alternative of the same one.
    fn is_in_place_of(&self, other: &Self) -> bool {
        let is_alternative = self.ask.alternative_of.is_some() && self.ask.alternative_of == other.ask.alternative_of;
        self.is_of(&other.ask) || is_alternative && self.ask.claim == other.ask.claim
    }

    /// What one more node has for the same request.
    fn add(&mut self, other: Self) {
        self.most = self.most.max(other.most);
        self.has_all |= other.has_all;
        self.unusable.extend(other.unusable);
        for (name, device) in other.devices {
            let known = self.devices.entry(name).or_insert_with(|| device.clone());
            // Another node may have it, or be the one that it is for.
            if device.obstacle.is_none() || known.obstacle == Some(Obstacle::OtherNode) {
                *known = device;
            }
        }
    }

    fn lacks_devices(&self) -> bool {
        match self.ask.details.allocation_mode {
            AllocationMode::All => !self.has_all,
            _ => self.most < self.ask.details.count,
        }
    }

    fn clause(&self, ledger: &Ledger, holders: &Holders<'_>) -> Clause {
        let SurveyedAsk { claim, request, details, .. } = &self.ask;
        let wanted = match (&details.allocation_mode, details.count) {
            (AllocationMode::All, _) => "all devices".to_owned(),
            (_, 1) => "1 device".to_owned(),
            (_, count) => format!("{count} devices"),
        };
        let mut by_obstacle: BTreeMap<&Obstacle, Vec<PublishedDevice<'_>>> = BTreeMap::new();
        for device in self.devices.values() {
            if let Some(obstacle) = &device.obstacle {
                by_obstacle.entry(obstacle).or_default().push(device.published());
            }
        }
        let mut why: Vec<String> = Vec::new();
        if self.devices.is_empty() {
            why.push("there is none".to_owned());
        }
        why.extend(by_obstacle.iter().map(|(obstacle, devices)| self.part(obstacle, devices, ledger, holders)));
        if self.most > 0 {
            why.push(format!("at most {} can be had on one node", self.most));
        }
        why.extend(self.unusable.iter().map(|pool| format!("pool {pool} is incomplete or invalid")));
        let class = &details.device_class_name;
        Clause { what: format!("request {request} of claim {claim} wants {wanted} of class {class}"), why }
    }

    /// What keeps it from these devices.
    fn part(
        &self,
        obstacle: &Obstacle,
        devices: &[PublishedDevice<'_>],
        ledger: &Ledger,
        holders: &Holders<'_>,
    ) -> String {
        let details = &self.ask.details;
        let are =
            || format!("{} of {} {}", devices.len(), self.counted(), if devices.len() == 1 { "is" } else { "are" });
        match obstacle {
            Obstacle::ClassSelector(index) => {
                let class = ledger.devices().classes().get(&details.device_class_name);
                let selector = class.and_then(|class| class.selectors.get(*index));
                let expression = selector.and_then(|selector| selector.cel.as_deref());
                self.unselected(&format!("selectors[{index}] of the class"), expression, devices)
            }
            Obstacle::RequestSelector(index) => {
                let expression = details.selectors.get(*index).and_then(|selector| selector.cel.as_deref());
                self.unselected(&format!("selectors[{index}]"), expression, devices)
            }
            Obstacle::OtherNode => format!("{} for other nodes", are()),
            Obstacle::Taken => holders.sentence(devices, &are()),
            Obstacle::Taint(taint) => format!("{} tainted {}", are(), spelled(taint)),
            Obstacle::Capacity => {
                let asked = details.capacity.iter().map(|(name, amount)| format!("{} {}", name.id, amount.canonical()));
                let asked: Vec<String> = asked.collect();
                let what = if asked.is_empty() { "capacity".to_owned() } else { some_of(&asked, SHOWN) };
                format!("{} short of {what}", are())
            }
            Obstacle::Counters => format!("{} cut from counters of which too little is left", are()),
        }
    }

    fn counted(&self) -> String {
        counted(self.devices.len(), "device")
    }

    /// That a selector does not select these devices, and what they have of what it names.
    fn unselected(&self, selector: &str, expression: Option<&str>, devices: &[PublishedDevice<'_>]) -> String {
        let mut text = if devices.len() == self.devices.len() {
            format!("{selector} matches none of {}", self.counted())
        } else {
            format!("{selector} does not match {} of {}", devices.len(), self.counted())
        };
        let looked_up = expression.map(LookedUp::in_expression).unwrap_or_default();
        for (index, one) in looked_up.iter().take(SHOWN).enumerate() {
            let joint = if index == 0 { ": " } else { ", " };
            let _ = write!(text, "{joint}{one} is {}", values(one, devices));
        }
        text
    }
}

/// Whether a request for all means a device with this obstacle.
const fn is_in_the_way_of_all(obstacle: &Obstacle) -> bool {
    matches!(obstacle, Obstacle::Taken | Obstacle::Taint(_) | Obstacle::Counters)
}

/// What the devices have there, the most frequent first: `"A100"`, or `"A100" (5), nothing (1)`.
fn values(of: &LookedUp, devices: &[PublishedDevice<'_>]) -> String {
    let mut counts: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for device in devices {
        *counts.entry(of.value(&device.view())).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "not there".to_owned());
    match &counts[..] {
        [(value, _)] => word(value),
        several => some_of(
            &several.iter().map(|(value, count)| format!("{} ({count})", word(value))).collect::<Vec<_>>(),
            SHOWN,
        ),
    }
}

/// As `key=value:Effect`.
pub(super) fn spelled(taint: &DeviceTaint) -> String {
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    let effect = match &taint.effect {
        TaintEffect::Other(effect) => effect.to_string(),
        known => format!("{known:?}"),
    };
    format!("{}{value}:{effect}", taint.key)
}

/// Which claims have which devices for themselves.
pub(super) struct Holders<'a> {
    ledger: &'a Ledger,
    claims: BTreeMap<DeviceName, &'a ResourceClaim>,
}

impl<'a> Holders<'a> {
    /// O(devices that are taken).
    pub(super) fn of(ledger: &'a Ledger) -> Self {
        let mut claims = BTreeMap::new();
        for claim in ledger.devices().allocated_claims() {
            let results = claim.allocation.iter().flat_map(|allocation| &allocation.result.results);
            for result in results.filter(|result| !result.admin_access && result.share_id.is_none()) {
                claims.insert((result.driver.clone(), result.pool.clone(), result.device.clone()), &**claim);
            }
        }
        Self { ledger, claims }
    }

    pub(super) fn claim(&self, device: PublishedDevice<'_>) -> Option<&'a ResourceClaim> {
        self.claims.get(&name_of(device)).copied()
    }

    /// Who uses the claim; `None` for nobody.
    pub(super) fn users(&self, claim: &ResourceClaim) -> Option<String> {
        let known = claim.reserved_for.iter().filter_map(|uid| Some(self.ledger.pod(uid)?.key().to_string()));
        let known: Vec<String> = known.collect();
        let unknown = claim.reserved_for.len() - known.len();
        let unknown = (unknown > 0).then(|| format!("{unknown} that are not among the pods"));
        let users = Some(some_of(&known, SHOWN)).filter(|_| !known.is_empty()).into_iter().chain(unknown);
        let users = users.collect::<Vec<_>>().join(" and ");
        (!users.is_empty()).then_some(users)
    }

    fn sentence(&self, devices: &[PublishedDevice<'_>], are: &str) -> String {
        let taken = devices.iter().map(|device| {
            let (_, pool, name) = name_of(*device);
            format!("{} by {}", named(&name, &pool), self.holder(*device))
        });
        format!("{are} taken: {}", some_of(&taken.collect::<Vec<_>>(), SHOWN))
    }

    /// Who uses a device, or else the claim that has it.
    fn holder(&self, device: PublishedDevice<'_>) -> String {
        let Some(claim) = self.claim(device) else { return "a claim that is being written".to_owned() };
        self.users(claim).unwrap_or_else(|| format!("claim {}", claim.key))
    }
}
