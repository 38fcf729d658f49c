use super::{Device, Str};
use crate::node_selector::{Node, NodeSelector};
use berth_quantity::Quantity;
use std::fmt;

/// The name of a pool, which is unique only within its driver.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId {
    pub driver: Str,
    pub pool: Str,
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.driver, self.pool)
    }
}

/// A ResourceSlice: some of the devices of a pool, or some of its counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceSlice {
    pub name: Str,
    pub id: PoolId,
    /// Slices of the highest generation are the pool.
    pub generation: i64,
    /// How many slices of this generation the pool has.
    pub resource_slice_count: i64,
    pub nodes: NodeSelection,
    pub per_device_node_selection: bool,
    pub devices: Vec<Device>,
    pub shared_counters: Vec<CounterSet>,
}

impl ResourceSlice {
    /// From which nodes the device can be used.
    pub(crate) const fn nodes_of<'a>(&'a self, device: &'a Device) -> &'a NodeSelection {
        if self.per_device_node_selection { &device.nodes } else { &self.nodes }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterSet {
    pub name: Str,
    pub counters: Vec<(Str, Quantity)>,
}

/// From which nodes a slice or a device can be used: the first field that is set decides, and without any it is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSelection {
    pub node_name: Option<Str>,
    pub all_nodes: bool,
    pub node_selector: Option<NodeSelector>,
}

impl NodeSelection {
    /// The name of the only node, if it is set; an empty one says nothing.
    pub(crate) fn only_node(&self) -> Option<&Str> {
        self.node_name.as_ref().filter(|name| !name.is_empty())
    }

    /// The error says why the node selector cannot be read.
    pub(crate) fn includes(&self, node: &Node<'_>) -> Result<bool, String> {
        if let Some(name) = self.only_node() {
            return Ok(**name == *node.name);
        }
        if self.all_nodes {
            return Ok(true);
        }
        let Some(selector) = &self.node_selector else { return Ok(false) };
        selector.matches(node).map_err(|error| format!("failed to parse node selector: {error}"))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.only_node().is_some() || self.all_nodes || self.node_selector.is_some()
    }
}
