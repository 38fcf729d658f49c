//! What is free of a node's own devices, and what of it a request could use.

use crate::bits::{Bits, bits_of};
use crate::model::{AllocationResult, DeviceResult, named};
use crate::node_devices::{Amounts, NodeDevices, OwnDevice, UnitSource, Wish};
use crate::pool::Pool;
use crate::state::AllocatedState;
use berth_quantity::Quantity;

/// What is free of the devices of a [`NodeDevices`]. Devices that a node shares with others are not in it. A copy of one whose devices are
/// all whole, and at most 64, allocates nothing.
#[derive(Debug, Clone)]
pub struct Free {
    /// The devices that somebody has alone.
    dedicated: Bits,
    /// By device; empty where nobody has a share of any.
    shares: Vec<Shares>,
    /// By pool and counter, what is left; empty where no device of the node takes any.
    counters: Vec<Vec<Quantity>>,
}

/// Some of the first 64 devices of a node, each of them whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WholeDevices(u64);

impl WholeDevices {
    /// Those that a pod gets; `None` where it gets shares, or devices with higher numbers.
    pub fn of(node: &NodeDevices, allocations: &[AllocationResult]) -> Option<Self> {
        let mut all = 0;
        for (index, result) in allocations.iter().flat_map(|allocation| node.taken_by(allocation)) {
            all |= 1_u64.checked_shl(index as u32).filter(|_| result.share_id.is_none())?;
        }
        Some(Self(all))
    }
}

/// What a request could have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usable {
    pub number: usize,
    /// Whether several requests can have a share of one.
    pub some_are_shared: bool,
}

/// What others have of one device.
#[derive(Debug, Clone, Default)]
struct Shares {
    /// Somebody has a share: what the device takes from counters is taken.
    is_taken: bool,
    /// A share says what it consumes: then the next one asks nothing of the counters.
    has_sums: bool,
    /// What shares consume, by capacity; empty where they consume nothing.
    consumed: Amounts,
}

static NO_SHARES: Shares = Shares { is_taken: false, has_sums: false, consumed: Amounts::new_const() };

impl Free {
    /// O(devices), and O(devices of the pools) where they take from counters.
    pub fn new(node: &NodeDevices, allocated: &AllocatedState) -> Self {
        let mut free =
            Self { dedicated: Bits::with_room(node.devices.len()), shares: Vec::new(), counters: Vec::new() };
        for (index, own) in node.devices.iter().enumerate() {
            let (pool, device) = (node.pools.get(own.pool), own.device());
            let Some(in_use) = allocated.pool(&pool.id).and_then(|pool| pool.device(&device.name)) else { continue };
            if in_use.is_dedicated() {
                free.dedicated.insert(index);
            }
            if in_use.has_shares() {
                let has_sums = in_use.has_sums();
                let amounts = device.capacity.iter().map(|(name, _)| in_use.consumed(name));
                let consumed = if has_sums { amounts.collect() } else { Amounts::new() };
                *free.shares_of(node, index) = Shares { is_taken: true, has_sums, consumed };
            }
        }
        let left = |pool: &Pool| pool.counters().left(pool, allocated.pool(&pool.id));
        if node.take_from_counters() {
            free.counters = node.pools.iter().map(left).collect();
        }
        free
    }

    fn shares_of(&mut self, node: &NodeDevices, index: usize) -> &mut Shares {
        if self.shares.is_empty() {
            self.shares.resize_with(node.devices.len(), Shares::default);
        }
        &mut self.shares[index]
    }

    fn shares(&self, index: usize) -> &Shares {
        self.shares.get(index).unwrap_or(&NO_SHARES)
    }

    /// Takes what a pod gets.
    pub fn take(&mut self, node: &NodeDevices, allocation: &AllocationResult) {
        for (index, result) in node.taken_by(allocation) {
            if result.share_id.is_some() {
                self.take_share(node, index, result);
            } else {
                self.take_whole(node, index);
            }
        }
    }

    /// Takes the devices of these numbers, nobody else's from now on.
    pub fn take_all_of(&mut self, node: &NodeDevices, devices: WholeDevices) {
        let plain = devices.0 & node.plain.word(0);
        self.dedicated.insert_word(0, plain);
        bits_of(devices.0 & !plain).for_each(|index| self.take_whole(node, index));
    }

    fn take_whole(&mut self, node: &NodeDevices, index: usize) {
        self.dedicated.insert(index);
        if !self.shares(index).is_taken {
            self.pay(node, index);
        }
    }

    fn take_share(&mut self, node: &NodeDevices, index: usize, result: &DeviceResult) {
        let capacity = &node.devices[index].device().capacity;
        let shares = self.shares_of(node, index);
        if !result.consumed_capacity.is_empty() {
            shares.has_sums = true;
            shares.consumed.resize(capacity.len(), Quantity::ZERO);
        }
        for (consumed, (name, _)) in shares.consumed.iter_mut().zip(capacity) {
            *consumed += named(&result.consumed_capacity, name).copied().unwrap_or_default();
        }
        if !std::mem::replace(&mut shares.is_taken, true) {
            self.pay(node, index);
        }
    }

    /// From the counters.
    fn pay(&mut self, node: &NodeDevices, index: usize) {
        let own = &node.devices[index];
        for (counter, amount) in node.pools.get(own.pool).counters().parts(own.in_pool) {
            let left = &mut self.counters[own.pool as usize][*counter as usize];
            *left = *left - *amount;
        }
    }

    /// How much of each unit is free, 0 to 1: of what shares and counters have several amounts, the least.
    pub fn units(&self, node: &NodeDevices) -> impl Iterator<Item = f64> {
        (0..node.units().len()).map(|number| {
            if self.shares.is_empty() && node.plain.has(number) {
                return if self.dedicated.has(number) { 0.0 } else { 1.0 };
            }
            match node.units()[number].source {
                UnitSource::Device(index) => self.of_device(node, index as usize),
                UnitSource::CounterSet { pool, set } => {
                    let totals = node.pools.get(pool).counters().totals_of(set);
                    let left = &self.counters[pool as usize];
                    least(totals.map(|(counter, total)| (left[counter as usize], total)))
                }
            }
        })
    }

    fn of_device(&self, node: &NodeDevices, index: usize) -> f64 {
        if self.dedicated.has(index) {
            return 0.0;
        }
        let (capacity, consumed) = (&node.devices[index].device().capacity, &self.shares(index).consumed);
        least(capacity.iter().zip(consumed).map(|((_, value), consumed)| (*value - *consumed, *value)))
    }

    /// How many devices the request could have now, each looked at for itself. Inserts what they are, or are cut from, into `units`.
    pub fn usable(&self, node: &NodeDevices, wish: &Wish, units: &mut Bits) -> Usable {
        let mut usable = Usable::default();
        for (at, wanted) in wish.wanted.words() {
            let mut left = wanted & !self.dedicated.word(at);
            if self.shares.is_empty() {
                let plain = left & node.plain.word(at);
                if plain != 0 {
                    units.insert_word(at, plain);
                }
                usable.number += plain.count_ones() as usize;
                left &= !plain;
            }
            for index in bits_of(left).map(|bit| at * 64 + bit) {
                let (own, shares) = (&node.devices[index], self.shares(index));
                if shares.have_room_for(own, wish.takes_of(index)) && self.pays_for(node, own, shares) {
                    usable.number += 1;
                    usable.some_are_shared |= own.device().allow_multiple_allocations;
                    own.units.iter().for_each(|unit| units.insert(*unit as usize));
                }
            }
        }
        usable
    }

    fn pays_for(&self, node: &NodeDevices, own: &OwnDevice, shares: &Shares) -> bool {
        let parts = node.pools.get(own.pool).counters().parts(own.in_pool);
        let is_left =
            |(counter, amount): &(u32, Quantity)| *amount <= self.counters[own.pool as usize][*counter as usize];
        shares.has_sums || parts.iter().all(is_left)
    }
}

impl Shares {
    /// Whether so much of each capacity is left beside them.
    fn have_room_for(&self, own: &OwnDevice, takes: &[Quantity]) -> bool {
        let capacity = own.device().capacity.iter();
        capacity.zip(takes).zip(&self.consumed).all(|(((_, value), takes), consumed)| *consumed + *takes <= *value)
    }
}

/// The least share of a total that is left, 0 to 1; 1 without any.
fn least(left_of_totals: impl Iterator<Item = (Quantity, Quantity)>) -> f64 {
    let shares = left_of_totals
        .filter(|(_, total)| *total > Quantity::ZERO)
        .map(|(left, total)| left.nanos() as f64 / total.nanos() as f64);
    shares.fold(1.0, f64::min).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        CounterConsumption, CounterSet, Device, DeviceClass, RequestDetails, ResourceSlice, Selector, Str,
    };
    use crate::node_selector::Node;
    use crate::select::SelectError;
    use crate::testing::{pool_id, quantity, result, slice};
    use crate::{Pools, PublishedDevice, Select, Selected, Slices};
    use berth_cel::QualifiedName;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const MEMORY: &str = "memory";

    /// Selects the devices of the name that it is.
    struct ByName;

    impl Select for ByName {
        fn selects(&mut self, expression: &Str, device: PublishedDevice<'_>, _: &mut i64) -> Result<bool, SelectError> {
            Ok(device.device().capacity.iter().any(|(name, _)| *name.id == **expression))
        }
    }

    fn amount(text: &str) -> Vec<(QualifiedName, Quantity)> {
        vec![(QualifiedName::parse(MEMORY), quantity(text))]
    }

    fn shared(name: &str) -> Device {
        Device { name: name.into(), capacity: amount("80Gi"), allow_multiple_allocations: true, ..Device::default() }
    }

    fn share(device: &str, id: &str, text: &str) -> AllocationResult {
        let share =
            DeviceResult { share_id: Some(id.into()), consumed_capacity: amount(text), ..result("d/p", device) };
        AllocationResult { results: vec![share], ..AllocationResult::default() }
    }

    fn whole(device: &str) -> AllocationResult {
        AllocationResult { results: vec![result("d/p", device)], ..AllocationResult::default() }
    }

    fn on_n1(slices: impl IntoIterator<Item = ResourceSlice>) -> NodeDevices {
        let slices: Slices = slices.into_iter().collect();
        let labels = BTreeMap::<Str, Str>::new();
        let node = Node { name: "n1", labels: &labels };
        NodeDevices::new(&node, Pools::of_node_alone(&slices, &node))
    }

    fn wish(node: &NodeDevices, request: &RequestDetails) -> Wish {
        wish_of(node, request, &DeviceClass::default())
    }

    /// Asked at once, and in parts that end at each selector.
    fn wish_of(node: &NodeDevices, request: &RequestDetails, class: &DeviceClass) -> Wish {
        let mut in_parts = Selected::default();
        let part = || node.wish(request, class, &mut ByName, &mut in_parts, &mut 1);
        let in_parts = std::iter::repeat_with(part).take(100).flatten().next().unwrap();
        let at_once = node.wish(request, class, &mut ByName, &mut Selected::default(), &mut 1_000).unwrap();
        assert_eq!(format!("{in_parts:?}"), format!("{at_once:?}"));
        at_once
    }

    fn asking(text: &str) -> RequestDetails {
        RequestDetails { capacity: amount(text), ..RequestDetails::default() }
    }

    fn usable(free: &Free, node: &NodeDevices, wish: &Wish) -> (usize, Vec<usize>) {
        let mut units = Bits::default();
        let number = free.usable(node, wish, &mut units).number;
        (number, units.iter().collect())
    }

    #[test]
    fn a_device_is_free_until_somebody_has_it_and_a_shared_one_as_far_as_nobody_has_it() {
        let devices = vec![Device { name: "a".into(), ..Device::default() }, shared("s")];
        let node = on_n1([ResourceSlice { devices, ..slice("s1", "d/p", Some("n1"), &[]) }]);
        let mut free = Free::new(&node, &AllocatedState::default());
        assert_eq!(free.units(&node).collect::<Vec<_>>(), [1.0, 1.0]);
        let (any, much) = (wish(&node, &RequestDetails::default()), wish(&node, &asking("50Gi")));
        assert_eq!((usable(&free, &node, &any).0, usable(&free, &node, &much)), (2, (1, vec![1])));
        assert_eq!(wish(&node, &asking("81Gi")).number(), 0);
        free.take(&node, &share("s", "1", "40Gi"));
        assert_eq!(free.units(&node).collect::<Vec<_>>(), [1.0, 0.5]);
        assert_eq!(usable(&free, &node, &much).0, 0);
        assert_eq!(usable(&free, &node, &wish(&node, &asking("40Gi"))).0, 1);
        let got = [whole("a")];
        let devices = WholeDevices::of(&node, &got).expect("it is no share");
        assert_eq!(WholeDevices::of(&node, &[share("s", "2", "1Gi")]), None);
        let mut alike = free.clone();
        free.take(&node, &got[0]);
        alike.take_all_of(&node, devices);
        assert_eq!(format!("{free:?}"), format!("{alike:?}"));
        assert_eq!(free.units(&node).collect::<Vec<_>>(), [0.0, 0.5]);
        assert_eq!(usable(&free, &node, &any), (0, vec![]), "who names no amount wants all of it");
    }

    #[test]
    fn what_is_taken_one_by_one_is_what_is_allocated() {
        let devices = vec![shared("a"), shared("b"), Device { name: "c".into(), ..Device::default() }];
        let node = on_n1([ResourceSlice { devices, ..slice("s1", "d/p", Some("n1"), &[]) }]);
        let mut state = AllocatedState::default();
        let mut free = Free::new(&node, &state);
        for allocation in [share("a", "1", "20Gi"), share("a", "2", "30Gi"), share("b", "3", "0"), whole("c")] {
            state.allocate(&allocation);
            free.take(&node, &allocation);
        }
        let anew = Free::new(&node, &state);
        let units = |free: &Free| free.units(&node).collect::<Vec<_>>();
        assert_eq!((units(&free), units(&anew)), (vec![0.375, 1.0, 0.0], vec![0.375, 1.0, 0.0]));
    }

    #[test]
    fn partitions_are_parts_of_what_they_are_cut_from() {
        let cut = |name: &str, slices: &str| Device {
            name: name.into(),
            consumes_counters: vec![CounterConsumption {
                counter_set: "gpu-0".into(),
                counters: vec![("slices".into(), quantity(slices))],
            }],
            ..Device::default()
        };
        let counters = vec![("slices".into(), quantity("8"))];
        let shared_counters = vec![CounterSet { name: "gpu-0".into(), counters }];
        let of_two = |slice: ResourceSlice| ResourceSlice { resource_slice_count: 2, ..slice };
        let sets = ResourceSlice { shared_counters, ..of_two(slice("s0", "d/p", Some("n1"), &[])) };
        let devices = vec![cut("whole", "8"), cut("half", "4"), cut("part", "2"), cut("other-half", "4")];
        let node = on_n1([sets, ResourceSlice { devices, ..of_two(slice("s1", "d/p", Some("n1"), &[])) }]);
        let mut free = Free::new(&node, &AllocatedState::default());
        let any = wish(&node, &RequestDetails::default());
        assert_eq!(free.units(&node).collect::<Vec<_>>(), [1.0]);
        assert_eq!(usable(&free, &node, &any).0, 4);
        free.take(&node, &whole("half"));
        assert_eq!(free.units(&node).collect::<Vec<_>>(), [0.5]);
        assert_eq!(usable(&free, &node, &any), (2, vec![0]));
        let mut state = AllocatedState::default();
        state.allocate(&whole("half"));
        state.allocate(&whole("part"));
        assert_eq!(Free::new(&node, &state).units(&node).collect::<Vec<_>>(), [0.25]);
    }

    #[test]
    fn devices_for_other_nodes_and_for_all_are_not_the_nodes_own() {
        let node = on_n1([
            slice("s1", "d/p", Some("n1"), &["a"]),
            slice("s2", "d/q", Some("n2"), &["b"]),
            slice("s3", "d/r", None, &["c"]),
        ]);
        assert_eq!((node.drivers().count(), node.size()), (1, 1));
        assert!(!node.is_empty() && on_n1([slice("s3", "d/r", None, &["c"])]).is_empty());
        let mut free = Free::new(&node, &AllocatedState::default());
        let elsewhere = AllocationResult { results: vec![result("d/r", "c")], ..AllocationResult::default() };
        free.take(&node, &elsewhere);
        assert_eq!(free.units(&node).collect::<Vec<_>>(), [1.0]);
    }

    #[test]
    fn the_counters_of_other_nodes_are_not_kept_and_its_own_pools_stay_the_same() {
        let counters = || vec![CounterSet { name: "gpu-0".into(), counters: vec![("slices".into(), quantity("8"))] }];
        let of_node = |node: &'static str| {
            let pool = if node == "n1" { "d/n1" } else { "d/n2" };
            let two = |slice: ResourceSlice| ResourceSlice { resource_slice_count: 2, ..slice };
            let sets = two(slice(&format!("{node}-sets"), pool, Some(node), &[]));
            [
                ResourceSlice { shared_counters: counters(), ..sets },
                two(slice(&format!("{node}-d"), pool, Some(node), &["a"])),
            ]
        };
        let mut slices: Slices = of_node("n1").into_iter().chain(of_node("n2")).collect();
        let seen = |slices: &Slices| {
            let node = Node { name: "n1", labels: &BTreeMap::<Str, Str>::new() };
            (Pools::of_node_alone(slices, &node).len(), Pools::for_node(slices, &node).unwrap().len())
        };
        // Only where they are in the way of others, as those of a pool that is being published.
        assert_eq!((seen(&slices), slices.is_in_the_way(&pool_id("d/n2"))), ((1, 1), false));
        slices.delete("n2-d");
        assert_eq!((seen(&slices), slices.is_in_the_way(&pool_id("d/n2"))), ((1, 2), true));
        slices.extend(of_node("n2"));
        let labels = BTreeMap::<Str, Str>::new();
        let node = Node { name: "n1", labels: &labels };
        let own = || Pools::of_node_alone(&slices, &node);
        assert!(NodeDevices::new(&node, own()).is_of(&own()));
        assert_eq!(slices.most_units().0.into_values().collect::<Vec<_>>(), [1]);
        assert!(!slices.have_shared_devices());
    }

    #[test]
    fn a_request_gets_what_both_its_class_and_its_selectors_select() {
        let devices = vec![shared("a"), Device { name: "b".into(), ..Device::default() }];
        let node = on_n1([ResourceSlice { devices, ..slice("s1", "d/p", Some("n1"), &[]) }]);
        let selecting = |name: &str| vec![Selector { cel: Some(name.into()) }];
        let class = DeviceClass { selectors: selecting(MEMORY), ..DeviceClass::default() };
        let number = |request: &RequestDetails| wish_of(&node, request, &class).number();
        assert_eq!(number(&RequestDetails::default()), 1);
        assert_eq!(number(&RequestDetails { selectors: selecting("cores"), ..RequestDetails::default() }), 0);
    }

    /// A device as the naive model has it, and how it is taken.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Kind {
        Whole,
        /// Several may have parts of its 80 GiB.
        Shared,
        /// So many of the 8 slices of the set that it and its neighbours are cut from.
        Cut(i64),
        /// As [`Self::Cut`], for any number of pods, who consume nothing else of it.
        Bare(i64),
    }

    impl Kind {
        fn slices(self) -> Option<i64> {
            match self {
                Self::Cut(slices) | Self::Bare(slices) => Some(slices),
                _ => None,
            }
        }
    }

    fn kind() -> impl Strategy<Value = Kind> {
        let [cut, bare] = [Kind::Cut, Kind::Bare].map(|kind| (1..5_i64).prop_map(kind));
        prop_oneof![3 => Just(Kind::Whole), 1 => Just(Kind::Shared), 1 => cut, 1 => bare]
    }

    /// Kinds of devices, most often all of them whole: then the bits say everything.
    fn kinds() -> impl Strategy<Value = Vec<Kind>> {
        let count = prop_oneof![1..9_usize, 60..130_usize];
        count.prop_flat_map(|n| prop_oneof![Just(vec![Kind::Whole; n]), prop::collection::vec(kind(), n)])
    }

    /// Three neighbours share a set.
    fn set_of(device: usize) -> String {
        format!("set-{}", device / 3)
    }

    fn node_of(kinds: &[Kind]) -> NodeDevices {
        let device = |(index, kind): (usize, &Kind)| {
            let name = format!("{index:03}").into();
            match kind {
                Kind::Whole => Device { name, ..Device::default() },
                Kind::Shared => Device { name, ..shared("") },
                Kind::Cut(slices) | Kind::Bare(slices) => {
                    let counters = vec![("slices".into(), quantity(&slices.to_string()))];
                    let counter_set = set_of(index).into();
                    let consumes_counters = vec![CounterConsumption { counter_set, counters }];
                    let allow_multiple_allocations = matches!(kind, Kind::Bare(_));
                    Device { name, consumes_counters, allow_multiple_allocations, ..Device::default() }
                }
            }
        };
        let devices = kinds.iter().enumerate().map(device).collect();
        let set =
            |at: usize| CounterSet { name: set_of(3 * at).into(), counters: vec![("slices".into(), quantity("8"))] };
        let shared_counters = (0..kinds.len().div_ceil(3)).map(set).collect();
        let of_two = |slice: ResourceSlice| ResourceSlice { resource_slice_count: 2, ..slice };
        let sets = ResourceSlice { shared_counters, ..of_two(slice("s0", "d/p", Some("n1"), &[])) };
        on_n1([sets, ResourceSlice { devices, ..of_two(slice("s1", "d/p", Some("n1"), &[])) }])
    }

    /// What is taken, device by device.
    struct Naive<'a> {
        kinds: &'a [Kind],
        whole: Vec<bool>,
        is_held: Vec<bool>,
        gib: Vec<i64>,
        slices: BTreeMap<String, i64>,
    }

    impl Naive<'_> {
        fn take(&mut self, device: usize, gib: Option<i64>) {
            self.whole[device] |= gib.is_none();
            self.gib[device] += gib.unwrap_or_default();
            let was_held = std::mem::replace(&mut self.is_held[device], true);
            if let Some(slices) = self.kinds[device].slices().filter(|_| !was_held) {
                *self.slices.entry(set_of(device)).or_insert(8) -= slices;
            }
        }

        /// The number of each device's unit, in the order in which units are seen first; and what is free of each unit.
        fn units(&self) -> (Vec<usize>, Vec<f64>) {
            let (mut sets, mut of_device, mut free) = (BTreeMap::new(), Vec::new(), Vec::new());
            for (device, kind) in self.kinds.iter().enumerate() {
                if let (Some(_), Some(known)) = (kind.slices(), sets.get(&set_of(device))) {
                    of_device.push(*known);
                    continue;
                }
                of_device.push(free.len());
                if kind.slices().is_some() {
                    sets.insert(set_of(device), free.len());
                    free.push(self.left(device).max(0) as f64 / 8.0);
                } else {
                    free.push(if self.whole[device] { 0.0 } else { (80 - self.gib[device]) as f64 / 80.0 });
                }
            }
            (of_device, free)
        }

        fn left(&self, device: usize) -> i64 {
            self.slices.get(&set_of(device)).copied().unwrap_or(8)
        }

        /// Whether a request can have the device that asks for so many GiB of it, or for any device.
        fn can_have(&self, device: usize, gib: Option<i64>) -> bool {
            let is_left = match (self.kinds[device], gib) {
                (Kind::Whole, None) => true,
                (Kind::Cut(slices) | Kind::Bare(slices), None) => slices <= self.left(device),
                (Kind::Whole | Kind::Cut(_) | Kind::Bare(_), Some(_)) => false,
                (Kind::Shared, gib) => self.gib[device] + gib.unwrap_or(80) <= 80,
            };
            is_left && !self.whole[device]
        }
    }

    proptest! {
        /// By bits or device by device: what is free, what requests can have of it, and what is taken of it.
        #[test]
        fn what_is_free_is_what_a_look_at_each_device_says(
            kinds in kinds(),
            taken in prop::collection::vec((0..130_usize, 0..5_i64), 0..24),
            more in prop::collection::vec(0..130_usize, 0..4),
        ) {
            let node = node_of(&kinds);
            let (none, gib) = (vec![false; kinds.len()], vec![0; kinds.len()]);
            let mut naive = Naive { kinds: &kinds, whole: none.clone(), is_held: none, gib, slices: BTreeMap::new() };
            let mut state = AllocatedState::default();
            let mut free = Free::new(&node, &state);
            for (at, (device, tens)) in taken.into_iter().enumerate() {
                let device = device % kinds.len();
                let gib = match kinds[device] {
                    Kind::Shared => Some(10 * tens),
                    Kind::Bare(_) => Some(0),
                    _ => None,
                };
                if naive.whole[device] || naive.gib[device] + gib.unwrap_or(0) > 80 {
                    continue;
                }
                let name = format!("{device:03}");
                let mut allocation =
                    gib.map_or_else(|| whole(&name), |gib| share(&name, &at.to_string(), &format!("{gib}Gi")));
                if let Kind::Bare(_) = kinds[device] {
                    allocation.results[0].consumed_capacity.clear();
                }
                naive.take(device, gib);
                free.take(&node, &allocation);
                state.allocate(&allocation);
            }
            let (unit_of, expected) = naive.units();
            prop_assert_eq!(free.units(&node).collect::<Vec<_>>(), expected.clone());
            let mut anew = Free::new(&node, &state);
            prop_assert_eq!(anew.units(&node).collect::<Vec<_>>(), expected);
            for (request, gib) in [(RequestDetails::default(), None), (asking("50Gi"), Some(50))] {
                let can_have: Vec<usize> = (0..kinds.len()).filter(|device| naive.can_have(*device, gib)).collect();
                let units: std::collections::BTreeSet<usize> = can_have.iter().map(|device| unit_of[*device]).collect();
                let expected = (can_have.len(), units.into_iter().collect::<Vec<_>>());
                let wish = wish(&node, &request);
                prop_assert_eq!(usable(&free, &node, &wish), expected.clone());
                prop_assert_eq!(usable(&anew, &node, &wish), expected);
            }
            let more: std::collections::BTreeSet<usize> = more.into_iter().map(|device| device % kinds.len()).collect();
            let more: Vec<usize> = more.into_iter().filter(|device| !naive.whole[*device]).collect();
            let allocations: Vec<AllocationResult> = more.iter().map(|device| whole(&format!("{device:03}"))).collect();
            let together = WholeDevices::of(&node, &allocations);
            prop_assert_eq!(together.is_some(), more.iter().all(|device| *device < 64));
            if let Some(devices) = together {
                let mut alike = free.clone();
                alike.take_all_of(&node, devices);
                for allocation in &allocations {
                    free.take(&node, allocation);
                    anew.take(&node, allocation);
                }
                prop_assert_eq!(format!("{free:?}"), format!("{alike:?}"));
                prop_assert_eq!(free.units(&node).collect::<Vec<_>>(), anew.units(&node).collect::<Vec<_>>());
            }
        }
    }
}
