use super::arms::{ArmHolds, Arms};
use super::attempt::{HeaviestLook, look_on};
use super::{ForeignBind, Step, Worker};
use crate::cycle::{Hold, waits_for_claims};
use crate::io::{Effect, NominatedNode, Refusal};
use crate::ledger::{Change, DeviceChange, Kinds, Ledger, LedgerAccess, NodeAspects, NodeId, PodState, oldest_first};
use crate::limits::{CHANGES_PER_HOLD, PARKED_PODS_PER_HOLD, UNKNOWN_FIELDS_NAMED};
use crate::model::{ClaimKey, Plugin, Pod, QueueEvent, Str, Time};
use crate::plugins::hints::{Helped, Hints, Judge, Reach};
use crate::plugins::{HELPED_BY_PLACED, PluginSet, claim_matters_to, dynamic_resources};
use crate::profile::{CompiledProfile, Mode, NamespaceAccess};
use crate::queue::{Entry, Group, GroupKey, Parked, Queue, Wake};
use rustc_hash::FxHashSet;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Tells the owner of a pod why it is held.
pub(super) fn held(pod: &Arc<Pod>, reason: String) -> Refusal {
    Refusal { attempted: false, nomination: NominatedNode::Keep, ..Refusal::failed(pod.clone(), reason) }
}

/// The names of claims by namespace, both sorted.
fn by_namespace(claims: &BTreeSet<ClaimKey>) -> BTreeMap<&str, Vec<&str>> {
    let mut of_namespace: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for ClaimKey { namespace, name } in claims {
        of_namespace.entry(namespace).or_default().push(name);
    }
    of_namespace
}

/// What a change takes of [`CHANGES_PER_HOLD`]: a pod that comes is found by each of its claims from then on, and no longer when it goes.
fn cost_of(change: &Change) -> usize {
    match change {
        Change::PodPending { pod, .. } | Change::BoundElsewhere { pod, .. } | Change::PodDeleted { pod } => {
            cost_of_pod(pod)
        }
        _ => 1,
    }
}

fn cost_of_pod(pod: &Pod) -> usize {
    1 + pod.resource_claims.as_ref().map_or(0, |entries| entries.len())
}

/// How many of the pods one hold takes up; at least one, if there is any.
fn of_one_hold(pods: &[Arc<Pod>]) -> usize {
    let mut spent = 0;
    let is_over = |pod: &Arc<Pod>| {
        let is_over = spent >= CHANGES_PER_HOLD;
        spent += cost_of_pod(pod);
        is_over
    };
    pods.iter().position(is_over).unwrap_or(pods.len())
}

/// Whether the labels of namespaces decide whose pods the profile takes.
fn reads_namespace_labels(profile: &CompiledProfile) -> bool {
    matches!(&profile.namespaces, NamespaceAccess::Restricted { match_labels, .. } if !match_labels.is_empty())
}

/// Whether a claim of a pod that was not unschedulable at the time has changed after `version`, where a plugin that reads claims
/// refused the pod. What comes while the log is read is for the next step to follow.
pub(super) fn missed_claim(ledger: &impl LedgerAccess, pod: &Pod, rejectors: PluginSet, version: u64) -> bool {
    let volumes = pod.volumes.as_ref().filter(|_| claim_matters_to(rejectors));
    let claims: BTreeSet<ClaimKey> = volumes
        .iter()
        .flat_map(|volumes| volumes.claims(&pod.key.namespace, &pod.key.name))
        .map(|(claim, _)| claim)
        .collect();
    let may_have_claims = pod.resource_claims.is_some() || pod.extended.is_some();
    let reads_devices = may_have_claims && rejectors.has(Plugin::DynamicResources);
    let reads_classes = pod.extended.is_some() && rejectors.has(Plugin::NodeResourcesFit);
    if claims.is_empty() && !reads_devices && !reads_classes {
        return false;
    }
    let is_claim = |change: &Change| match change {
        Change::Volume(change) => change.claim().is_some_and(|key| claims.contains(key)),
        Change::Device(DeviceChange::Claim { key, of_pod, .. }) => {
            let is_named = || key.namespace == pod.key.namespace && pod.named_claims().any(|own| *own == key.name);
            reads_devices && (of_pod.as_ref() == Some(&pod.uid) || is_named())
        }
        Change::DeviceClass => reads_classes,
        _ => false,
    };
    let (mut seen, mut until) = (version, None);
    loop {
        let missed = ledger.read(|ledger| {
            let until = *until.get_or_insert(ledger.version());
            // What fell off the log may have been one.
            let Ok(changes) = ledger.log().since(seen) else { return Some(true) };
            for (version, change) in changes.take(CHANGES_PER_HOLD) {
                if is_claim(change) {
                    return Some(true);
                }
                seen = version;
            }
            (seen >= until).then_some(false)
        });
        if let Some(missed) = missed {
            return missed;
        }
    }
}

impl Worker {
    /// Brings the queue up to the ledger's version: new pods, changed pods, and wake-ups.
    ///
    /// A cursor that fell off the log looks at every pending pod and takes anything for changed.
    pub(super) fn follow(&mut self, step: &mut Step<'_, impl LedgerAccess>) {
        if self.cursor.is_none() {
            return self.rebuild(step);
        }
        let (now, ledger) = (step.now, step.ledger);
        self.hints.begin();
        let (mut followed, mut until) = (Followed::default(), None);
        loop {
            self.queue.make_room(CHANGES_PER_HOLD);
            let part = ledger.read(|ledger| {
                // What comes while the lock is given back is for the next step: this one comes to an end.
                let until = *until.get_or_insert(ledger.version());
                self.follow_part(&mut Step { now, ledger, effects: step.effects }, &mut followed, until)
            });
            match part {
                Part::More => {}
                Part::Last => break,
                Part::Gap => return self.rebuild(step),
            }
        }
        self.hints.settle();
        let Followed { helps, claims, resource_claims, extended, namespaces, device_classes } = followed;
        if helps {
            self.wake_helped(ledger, now);
        }
        if device_classes {
            self.recheck_all(step, |pod| pod.resource_claims.is_some() || pod.extended.is_some());
            // What no node lists may be had from devices now.
            self.queue.wake(now, |entry| {
                let is_helped = entry.pod().extended.is_some() && entry.rejectors().has(Plugin::NodeResourcesFit);
                if is_helped { Wake::Requeue(QueueEvent::DeviceClassUpdate) } else { Wake::Stay }
            });
        }
        if !namespaces.is_empty() && reads_namespace_labels(self.profile()) {
            self.recheck_all(step, |pod| namespaces.contains(&pod.key.namespace));
        }
        if !claims.is_empty() {
            self.wake_users(now, &claims);
        }
        if !resource_claims.is_empty() || !extended.is_empty() {
            self.follow_claims(step, &resource_claims, &extended);
        }
    }

    /// Whether no pod of the profile waits, or is on its way to a node: what happens to others changes nothing here. A pod that comes is
    /// tried with what is true then.
    fn waits_for_nothing(&self) -> bool {
        self.queue.is_empty() && self.popped.is_empty() && self.binding.is_empty() && self.preemptions.is_idle()
    }

    /// The kinds of changes that it has to hear of at once, besides those of pods that it serves. It may be told of others late.
    pub fn interest(&self) -> Kinds {
        if self.waits_for_nothing() {
            return Kinds::NONE;
        }
        if self.volumes.len() > 0 || self.parked.len() > 0 || !self.preemptions.is_idle() {
            return Kinds::ALL;
        }
        let refused_by = self.queue.refused_by_plugin();
        let waits_for_placed = HELPED_BY_PLACED.iter().any(|plugin| refused_by[*plugin as usize] > 0);
        if waits_for_placed { Kinds::PLACED | Kinds::OTHER } else { Kinds::OTHER }
    }

    /// Takes up the next changes of the log, as many as one hold of the lock may. The last part has those up to version `until`.
    fn follow_part(&mut self, step: &mut Step<'_, Ledger>, followed: &mut Followed, until: u64) -> Part {
        let ledger = step.ledger;
        let Some(mut last) = self.cursor else { return Part::Gap };
        // A pod that comes in this part is taken up with all that this part has: nothing is written while it is read.
        let only_own = self.reads_only_own && self.waits_for_nothing();
        if only_own {
            last = ledger.log().without(last, |scheduler| self.profile().serves(scheduler));
        }
        let Ok(changes) = ledger.log().since(last) else { return Part::Gap };
        let mut spent = 0;
        for (version, change) in changes {
            if spent >= CHANGES_PER_HOLD {
                break;
            }
            spent += cost_of(change);
            last = version;
            if only_own && change.scheduler().is_none_or(|scheduler| !self.profile().serves(scheduler)) {
                continue;
            }
            self.volumes.note(change, ledger.nodes());
            self.parked.note_change(change);
            self.preemptions.note(change);
            if let Change::Volume(change) = change {
                followed.claims.extend(change.claim().cloned());
            }
            if let Change::Device(DeviceChange::Claim { key, of_pod, .. }) = change {
                followed.resource_claims.insert(key.clone());
                followed.extended.extend(of_pod.clone());
            }
            if let Change::Namespace { name } = change {
                followed.namespaces.insert(name.clone());
            }
            followed.device_classes |= matches!(change, Change::DeviceClass);
            let inside = self.is_inside(change, ledger);
            followed.helps |= self.hints.note(version, change, inside);
            followed.helps |= self.follow_one(step, change);
        }
        self.cursor = Some(last);
        if last < until { Part::More } else { Part::Last }
    }

    /// Lets pods that a volume plugin refused try again, if they name one of `claims`. The names of a pod's claims are not gone through
    /// for each change: there may be 512 of them, and any number of pods.
    fn wake_users(&mut self, now: Time, claims: &BTreeSet<ClaimKey>) {
        let of_namespace = by_namespace(claims);
        self.queue.wake(now, |entry| {
            let key = &entry.pod().key;
            let volumes = entry.pod().volumes.as_ref().filter(|_| claim_matters_to(entry.rejectors()));
            let changed = volumes.and_then(|volumes| Some((volumes, of_namespace.get(&*key.namespace)?)));
            let names_one = changed.is_some_and(|(volumes, claims)| volumes.names_any(&key.name, claims));
            if names_one { Wake::Requeue(QueueEvent::ClaimUpdate) } else { Wake::Stay }
        });
    }

    /// Looks again at pods that need one of the ResourceClaims `changed`, and at those whose uid is in `extended`: what kept them from being
    /// tried may have ended, or begun, and those that were refused for their claims may try again. O(these pods).
    fn follow_claims(
        &mut self,
        step: &mut Step<'_, impl LedgerAccess>,
        changed: &BTreeSet<ClaimKey>,
        extended: &BTreeSet<Str>,
    ) {
        let concerned = self.queue.concerned_by(changed.iter(), extended.iter());
        let pods = self.queue.entries_at(&concerned).map(|entry| entry.pod().clone()).collect();
        self.recheck(step, pods);
        self.queue.wake_at(step.now, &concerned, |entry| {
            let is_helped = entry.rejectors().has(Plugin::DynamicResources);
            if is_helped { Wake::Requeue(QueueEvent::ResourceClaimUpdate) } else { Wake::Stay }
        });
    }

    /// Looks again at all queued pods that are `concerned`: see [`Self::recheck`]. O(queued pods).
    fn recheck_all(&mut self, step: &mut Step<'_, impl LedgerAccess>, concerned: impl Fn(&Pod) -> bool) {
        let entries = self.queue.entries().map(Entry::pod);
        let pods = entries.filter(|pod| concerned(pod)).cloned().collect();
        self.recheck(step, pods);
    }

    /// Looks again at queued pods: what holds them may have come or gone.
    fn recheck(&mut self, step: &mut Step<'_, impl LedgerAccess>, mut pods: Vec<Arc<Pod>>) {
        pods.sort_by(|a, b| a.key.cmp(&b.key));
        let (now, ledger) = (step.now, step.ledger);
        for part in pods.chunks(PARKED_PODS_PER_HOLD) {
            ledger.read(|ledger| {
                let step = &mut Step { now, ledger, effects: step.effects };
                for pod in part {
                    self.note_unknown_fields(ledger, pod);
                    if self.queue.parked(&pod.uid) != self.parked(ledger, pod) {
                        let parked = self.report_parked(step, pod);
                        self.queue.update(pod.clone(), now, parked, false);
                    }
                }
            });
        }
    }

    /// Whether a change happened on a node that the profile places on, or on none in particular: what happens elsewhere
    /// frees no capacity for its pods. A relabelled node may enter the selector: it always counts.
    fn is_inside(&self, change: &Change, ledger: &Ledger) -> bool {
        match change {
            Change::Node { aspects, .. } if aspects.intersects(NodeAspects::LABELS) => true,
            Change::Node { node, .. } | Change::Freed { node, .. } | Change::Resized { node, .. } => {
                let labels = ledger.nodes().labels(*node);
                self.arms.all().any(|arm| arm.profile().places_on(labels))
            }
            _ => true,
        }
    }

    /// Lets pods try again that what was noted last may help. For most the kinds of changes tell; others are compared, in parts. What
    /// changes meanwhile is noted at the next step.
    ///
    /// O(groups of equal pods) where only nodes' own facts changed, and O(pods that some change may help).
    fn wake_helped(&mut self, ledger: &impl LedgerAccess, now: Time) {
        let Self { hints, queue, heaviest, arms, cursor, .. } = self;
        let mut judge = hints.judge();
        let Reached { each, in_turn } = reached_groups(queue, &judge, arms, ledger, heaviest, now);
        let of_each: Vec<GroupKey> = each.iter().map(|group| group.key()).collect();
        let (mut woken, mut undecided) = (Vec::new(), Vec::new());
        for entry in each.into_iter().flat_map(|group| queue.entries_of(group)) {
            match judge.by_kind(entry.rejectors(), entry.refused_at()) {
                Helped::No => {}
                Helped::By(by) => woken.push((entry.slot(), by)),
                Helped::Perhaps => undecided.push(entry),
            }
        }
        if !undecided.is_empty() {
            // Comparing is bounded: who is compared first must be the same in each process.
            undecided.sort_unstable_by_key(|entry| entry.arrival());
            let mut undecided = undecided.into_iter().peekable();
            look_on(ledger, heaviest, |ledger, hold| {
                while let Some(entry) = undecided.peek() {
                    let refused = (entry.rejectors(), entry.refused_at());
                    // Also of a shape that was compared before.
                    hold.take(1).ok()?;
                    let by = judge.compare(ledger, hold, refused, entry.pod()).ok()?;
                    woken.extend(by.map(|by| (entry.slot(), by)));
                    undecided.next();
                }
                Some(())
            });
        }
        for group in of_each {
            queue.renew(group, now);
        }
        queue.requeue_woken(now, woken);
        for (group, by) in in_turn {
            queue.call(group, by, cursor.unwrap_or_default(), now);
        }
    }

    /// Takes up one change; true if it may help pods in a way that the hints' table does not see.
    fn follow_one(&mut self, step: &mut Step<'_, Ledger>, change: &Change) -> bool {
        let profile = self.profile();
        match change {
            // Others' pods are most of what a worker reads: they cost no lookup.
            Change::PodPending { pod, .. } if profile.serves(&pod.scheduler_name) => self.take_up(step, pod, false),
            Change::PodDeleted { pod } if profile.serves(&pod.scheduler_name) => drop(self.queue.remove(&pod.uid)),
            Change::BoundElsewhere { pod, node } if profile.serves(&pod.scheduler_name) => {
                self.queue.remove(&pod.uid);
                let count = self.foreign.as_ref().map_or(0, |f| f.count) + 1;
                self.foreign = Some(ForeignBind { pod: pod.clone(), node: node.clone(), at: step.now, count });
            }
            // With a node selector a label can make a node a candidate: to this profile it is as good as new.
            Change::Node { aspects, .. }
                if self.arms.all().any(|arm| arm.profile().node_selector.is_some())
                    && aspects.intersects(NodeAspects::LABELS) =>
            {
                self.hints.note_gap(step.ledger.version());
                return true;
            }
            _ => {}
        }
        false
    }

    /// Queues a pending pod, or updates the one that is queued. A pod that is popped stays as its ticket has it. `is_current`: the pod is
    /// as the ledger has it.
    fn take_up(&mut self, step: &mut Step<'_, Ledger>, pod: &Arc<Pod>, is_current: bool) {
        if self.popped.contains(&pod.uid) {
            return;
        }
        let pod = if is_current {
            pod
        } else {
            // The log entry may be older than the binding: read the pod's present state.
            let Some(PodState::Pending(pod)) = step.ledger.pod(&pod.uid) else { return };
            pod
        };
        if pod.deleting {
            self.queue.remove(&pod.uid);
            return;
        }
        self.note_unknown_fields(step.ledger, pod);
        let parked = self.report_parked(step, pod);
        if !self.queue.add_if_new(pod, step.now, parked)
            && let Some(known) = self.queue.get(&pod.uid)
        {
            let changed = !Arc::ptr_eq(&known.shape, &pod.shape)
                || known.resource_claims != pod.resource_claims
                || known.extended != pod.extended;
            self.queue.update(pod.clone(), step.now, parked, changed);
        }
    }

    /// Names the fields of the pod, and of what it claims, that this version does not know.
    fn note_unknown_fields(&mut self, ledger: &Ledger, pod: &Pod) {
        if self.unknown_fields.len() >= UNKNOWN_FIELDS_NAMED {
            return;
        }
        let of_claims = dynamic_resources::unknown_fields(self.profile(), ledger, pod);
        let named =
            of_claims.iter().flat_map(|one| one.fields.iter().map(|field| format!("{}: {field}", one.plural).into()));
        for field in pod.unknown_fields.iter().cloned().chain(named) {
            if self.unknown_fields.len() < UNKNOWN_FIELDS_NAMED {
                self.unknown_fields.insert(field);
            }
        }
    }

    /// What keeps the pod from being tried.
    pub(super) fn parked(&self, ledger: &Ledger, pod: &Pod) -> Option<Parked> {
        self.parked_by(ledger, pod, drop)
    }

    /// Why the pod is held, if it is.
    pub(super) fn hold(&self, holds: &mut ArmHolds<'_>, pod: &Pod) -> Option<Hold> {
        if self.quarantined.contains(&pod.uid) {
            return Some(Hold::Quarantined);
        }
        holds.of(pod)
    }

    /// As [`Self::parked`]; `report` gets the reason of a hold.
    fn parked_by(&self, ledger: &Ledger, pod: &Pod, report: impl FnOnce(String)) -> Option<Parked> {
        if !pod.gates.is_empty() {
            return Some(Parked::Gated);
        }
        if let Some(hold) = self.hold(&mut ArmHolds::new(self, ledger), pod) {
            report(hold.text(self.profile(), pod));
            return Some(Parked::Held);
        }
        if waits_for_claims(self.profile(), ledger, pod).is_some() {
            return Some(Parked::WaitsForClaims);
        }
        self.preemptions.gates(&pod.uid).then_some(Parked::Preempting)
    }

    /// As [`Self::parked`]; a hold is reported to the pod's owner, and a nomination of a pod that is not tried is noted.
    fn report_parked(&mut self, step: &mut Step<'_, Ledger>, pod: &Arc<Pod>) -> Option<Parked> {
        let report = |reason| step.effects.push(Effect::Refuse(held(&step.ledger.as_reported(pod), reason)));
        let parked = self.parked_by(step.ledger, pod, report);
        self.note_if_not_tried(pod, parked);
        parked
    }

    /// Notes a nominated pod that is held, or whose profile is paused.
    pub(super) fn note_if_not_tried(&mut self, pod: &Arc<Pod>, parked: Option<Parked>) {
        let is_tried = parked != Some(Parked::Held) && self.profile().mode == Mode::Active;
        if pod.nominated_node.is_some() && !is_tried {
            self.not_tried.push(pod.clone());
        }
    }

    fn rebuild(&mut self, step: &mut Step<'_, impl LedgerAccess>) {
        let (now, ledger) = (step.now, step.ledger);
        let (version, mut served) = ledger.pending_pods(|pod| self.profile().serves(&pod.scheduler_name));
        oldest_first(&mut served);
        self.forget_all_but(&served);
        self.hints.note_gap(version);
        self.volumes.note_gap();
        self.parked.dirty = true;
        self.preemptions.note_gap();
        // What happens from here on is in the log.
        self.cursor = Some(version);
        self.queue.make_room_in_all(served.len());
        let mut rest = &served[..];
        while !rest.is_empty() {
            let (part, later) = rest.split_at(of_one_hold(rest));
            rest = later;
            ledger.read(|ledger| {
                let is_unchanged = ledger.version() == version;
                let step = &mut Step { now, ledger, effects: step.effects };
                for pod in part {
                    self.take_up(step, pod, is_unchanged);
                }
            });
        }
        self.begin_counting(now);
        self.wake_helped(ledger, now);
    }

    /// Ends what is known of all pods but those that are `served`.
    fn forget_all_but(&mut self, served: &[Arc<Pod>]) {
        if self.queue.is_empty() && self.preemptions.known().next().is_none() {
            return;
        }
        let uids: FxHashSet<&Str> = served.iter().map(|pod| &pod.uid).collect();
        let is_gone = |uid: &&Str| !uids.contains(*uid);
        let queued = self.queue.entries().map(|entry| &entry.pod().uid);
        let gone: Vec<Str> = queued.filter(is_gone).cloned().collect();
        let ended: Vec<Str> = self.preemptions.known().filter(is_gone).cloned().collect();
        for uid in gone {
            self.queue.remove(&uid);
        }
        for uid in ended {
            self.preemptions.forget(&uid);
        }
    }
}

/// The groups of which the changes noted last may help some pod.
struct Reached<'q> {
    /// Each of their pods is to be looked at.
    each: Vec<&'q Group>,
    /// Their pods are tried in turn, for changes of this kind.
    in_turn: Vec<(GroupKey, QueueEvent)>,
}

fn reached_groups<'q>(
    queue: &'q Queue,
    judge: &Judge<'_>,
    arms: &Arms,
    ledger: &impl LedgerAccess,
    heaviest: &mut HeaviestLook,
    now: Time,
) -> Reached<'q> {
    let hints = judge.hints();
    // What ends on one node may be what kept a pod from evicting others on another: of the same region, or with a volume of its own.
    let lowest = OnceCell::new();
    let lowest = || *lowest.get_or_init(|| ledger.read(Ledger::lowest_priority_of_all));
    let may_evict = |group: &Group| group.preempts() && group.priority() > lowest();
    let (mut each, mut in_turn, mut by_rows) = (Vec::new(), Vec::new(), Vec::new());
    for group in queue.groups() {
        match hints.reach(group.rejectors()) {
            Reach::Nobody => {}
            Reach::OnRows if !group.is_nominated() && !may_evict(group) => by_rows.push(group),
            Reach::OnRows | Reach::Each => each.push(group),
        }
    }
    for group in those_with_a_node(by_rows, hints, arms, ledger, heaviest) {
        match judge.by_kind(group.rejectors(), group.refused_at()) {
            // Of two arms one may take what the other refuses.
            _ if arms.profile().canary.is_some() => each.push(group),
            Helped::By(by) if !queue.is_due(group, now) => in_turn.push((group.key(), by)),
            Helped::By(_) | Helped::Perhaps => each.push(group),
            Helped::No => {}
        }
    }
    Reached { each, in_turn }
}

/// The `groups` of which some pod fits one of the nodes that changed.
fn those_with_a_node<'q>(
    groups: Vec<&'q Group>,
    hints: &Hints,
    arms: &Arms,
    ledger: &impl LedgerAccess,
    heaviest: &mut HeaviestLook,
) -> Vec<&'q Group> {
    let mut found = Vec::new();
    let mut groups = groups.into_iter().peekable();
    if groups.peek().is_none() {
        return found;
    }
    let rows: Vec<NodeId> = hints.rows().collect();
    look_on(ledger, heaviest, |ledger, hold| {
        while let Some(group) = groups.peek() {
            hold.take(1).ok()?;
            if arms.all().any(|arm| arm.may_take_on(ledger, group.shape(), &rows, hold)) {
                found.push(*group);
            }
            groups.next();
        }
        Some(())
    });
    found
}

/// What the changes of one run have in common that is acted on once all of them are taken up.
#[derive(Debug, Default)]
struct Followed {
    /// Whether they may help pods that wait.
    helps: bool,
    /// Tenants choose these names: they are compared and not hashed.
    claims: BTreeSet<ClaimKey>,
    resource_claims: BTreeSet<ClaimKey>,
    /// The uids of pods whose claims for extended resources have changed.
    extended: BTreeSet<Str>,
    namespaces: BTreeSet<Str>,
    device_classes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    More,
    Last,
    /// The cursor fell off the log.
    Gap,
}
