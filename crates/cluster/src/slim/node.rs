use super::fields::slim;
use super::{Amount, Condition, Pairs, Text};

slim! {
    struct NodeSpec<'a> {
        unschedulable: bool,
        taints: Vec<NodeTaint<'a>>,
    }

    struct NodeTaint<'a> {
        key: Text<'a>,
        value: Text<'a>,
        effect: Text<'a>,
    }

    struct NodeStatus<'a> {
        allocatable: Pairs<'a, Amount>,
        images: Vec<NodeImage<'a>>,
        conditions: Vec<Condition<'a>>,
        declared_features: Vec<Text<'a>>,
    }

    struct NodeImage<'a> {
        names: Vec<Text<'a>>,
        size_bytes: i64,
    }

    struct DeviceClassSpec<'a> {
        extended_resource_name: Text<'a>,
    }
}
