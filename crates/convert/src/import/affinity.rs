//! `addedAffinity` of NodeAffinity, which is written as a pod's node affinity.

use super::node::{Fields, ImportError, Node};
use berth_api::{
    AddedAffinity, FieldSelectorRequirement, NodeSelector, NodeSelectorOperator, NodeSelectorRequirement,
    NodeSelectorTerm, PreferredNodeSelectorTerm,
};

pub(super) fn read(node: &Node<'_>) -> Result<AddedAffinity, ImportError> {
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
    let operators = [
        ("In", NodeSelectorOperator::In),
        ("NotIn", NodeSelectorOperator::NotIn),
        ("Exists", NodeSelectorOperator::Exists),
        ("DoesNotExist", NodeSelectorOperator::DoesNotExist),
        ("Gt", NodeSelectorOperator::Gt),
        ("Lt", NodeSelectorOperator::Lt),
    ];
    let key = fields.need("key", "name a label")?.text()?.to_owned();
    let operator = fields.need("operator", "write one, such as In")?.choice(&operators)?;
    let values = fields.get("values").map_or_else(|| Ok(Vec::new()), |values| values.texts())?;
    Ok((key, operator, values))
}
