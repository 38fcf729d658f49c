use crate::ledger::NodeId;
use crate::limits::{EXTENDER_MESSAGE_BYTES, EXTENDER_MESSAGES};
use crate::model::Str;
use crate::plugins::Code;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Replaces the messages beyond [`EXTENDER_MESSAGES`].
const OTHERS: &str = "node(s) were refused by an extender for other reasons";

/// The last message of an extender about each node that one refused. A node that was left out without a message is not here.
#[derive(Debug, Clone, Default)]
pub(in crate::cycle) struct Messages(BTreeMap<NodeId, (Code, Str)>);

impl Messages {
    pub(super) fn add(&mut self, node: NodeId, code: Code, message: Str) {
        self.0.insert(node, (code, bounded(message)));
    }

    pub(super) fn code(&self, node: NodeId) -> Option<Code> {
        self.0.get(&node).map(|(code, _)| *code)
    }

    /// The messages about nodes of `feasible`. The others were refused by Berth's filters meanwhile.
    pub(in crate::cycle) fn about(mut self, feasible: &[NodeId]) -> Self {
        self.0.retain(|node, _| feasible.contains(node));
        self
    }

    /// The texts, each with its number of nodes. Where there are more than [`EXTENDER_MESSAGES`], the rarest become one.
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
        let mut add = |node: u32, text: &str| messages.add(NodeId::new(node), Code::Unschedulable, text.into());
        (0..3).for_each(|node| add(node, "no gpu"));
        add(2, "no link");
        add(3, &"é".repeat(EXTENDER_MESSAGE_BYTES));
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
