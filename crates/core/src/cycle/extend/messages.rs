use crate::ledger::NodeId;
use crate::limits::{EXTENDER_MESSAGE_BYTES, EXTENDER_MESSAGES};
use crate::model::Str;
use crate::plugins::Code;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What stands for the messages that a refusal has no room for.
const OTHERS: &str = "node(s) were refused by an extender for other reasons";

/// What extenders said of nodes that they refused; the last word counts. A node that was left out without a word is not here.
#[derive(Debug, Clone, Default)]
pub(in crate::cycle) struct Messages(BTreeMap<NodeId, (Code, Str)>);

impl Messages {
    pub(super) fn add(&mut self, node: NodeId, code: Code, message: Str) {
        self.0.insert(node, (code, bounded(message)));
    }

    /// The code with which the node was refused.
    pub(super) fn code(&self, node: NodeId) -> Option<Code> {
        self.0.get(&node).map(|(code, _)| *code)
    }

    /// What was said of the nodes of `feasible`: of the others, own filters had the last word.
    pub(in crate::cycle) fn about(mut self, feasible: &[(NodeId, i64)]) -> Self {
        self.0.retain(|node, _| feasible.iter().any(|(fits, _)| fits == node));
        self
    }

    /// The texts with the number of nodes of which each was said, most frequent first; beyond the bound they are one.
    pub(super) fn counted(&self) -> Vec<(Str, u32)> {
        let mut by_text: BTreeMap<&Str, u32> = BTreeMap::new();
        for (_, text) in self.0.values() {
            *by_text.entry(text).or_insert(0) += 1;
        }
        let mut counted: Vec<(Str, u32)> = by_text.into_iter().map(|(text, nodes)| (text.clone(), nodes)).collect();
        if counted.len() > EXTENDER_MESSAGES {
            counted.sort_by_key(|(_, nodes)| Reverse(*nodes));
            let others = counted.drain(EXTENDER_MESSAGES - 1..).map(|(_, nodes)| nodes).sum();
            counted.push((OTHERS.into(), others));
        }
        counted
    }
}

fn bounded(message: Str) -> Str {
    if message.len() <= EXTENDER_MESSAGE_BYTES {
        return message;
    }
    let mut end = EXTENDER_MESSAGE_BYTES - 4;
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} ...", &message[..end]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_cut_and_bounded() {
        let mut messages = Messages::default();
        let mut say = |node: u32, text: &str| messages.add(NodeId::new(node), Code::Unschedulable, text.into());
        (0..3).for_each(|node| say(node, "no gpu"));
        say(2, "no link");
        say(3, &"é".repeat(EXTENDER_MESSAGE_BYTES));
        let counted = messages.counted();
        assert_eq!(counted[..2], [("no gpu".into(), 2), ("no link".into(), 1)]);
        assert!(counted[2].0.len() <= EXTENDER_MESSAGE_BYTES && counted[2].0.ends_with("é ..."), "{}", counted[2].0);
        for node in 0..100 {
            messages.add(NodeId::new(node), Code::Unschedulable, format!("node {node} is full").into());
        }
        let counted = messages.counted();
        assert_eq!(counted.len(), EXTENDER_MESSAGES);
        assert_eq!(counted.iter().map(|(_, nodes)| nodes).sum::<u32>(), 100);
        assert_eq!(&*counted[EXTENDER_MESSAGES - 1].0, OTHERS);
    }
}
