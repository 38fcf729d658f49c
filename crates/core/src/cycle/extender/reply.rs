use super::ExtenderFilterState;
use crate::extender::{ExtenderError, ExtenderReply};
use crate::model::Str;
use crate::plugins::{Code, MAX_NODE_SCORE};
use crate::profile::Extender;
use rustc_hash::FxHashMap;

/// The highest score that an extender should give; not checked, as upstream.
const MAX_EXTENDER_SCORE: i64 = 10;

impl ExtenderFilterState {
    /// Removes the nodes that the extender left out. Changes nothing if the answer is an error or invalid.
    pub(super) fn take_filter(
        &mut self,
        asked: &Extender,
        answer: Result<ExtenderReply, ExtenderError>,
    ) -> Result<(), Str> {
        let reply = answer.map_err(|error| failure(asked, "filter", &error.message))?;
        let ExtenderReply::Filter { survivors, failed, unresolvable } = reply else {
            return Err(failure(asked, "filter", "the answer is to another question"));
        };
        let mut names = Names::new(&self.names);
        let mut stays = vec![false; self.left.len()];
        for name in survivors.iter().flatten() {
            let Some(at) = names.find(name) else {
                return Err(format!(
                    "extender \"{}\" claims a filtered node \"{name}\" which is not found in the input node list",
                    asked.url
                )
                .into());
            };
            stays[at] = true;
        }
        // A node in both lists is unresolvable. Names that were not in the question are ignored.
        for (code, messages) in [(Code::Unschedulable, failed), (Code::UnschedulableAndUnresolvable, unresolvable)] {
            for (name, message) in messages {
                if let Some(at) = names.find(&name) {
                    self.own.messages.add(self.left[at].node, code, message);
                }
            }
        }
        if stays.contains(&false) {
            for (left, _) in self.left.iter().zip(&stays).filter(|(_, stays)| !**stays) {
                // No message: nothing indicates that evictions would help on this node.
                let code = self.own.messages.code(left.node).unwrap_or(Code::UnschedulableAndUnresolvable);
                self.refused.insert(left.node, code);
            }
            let kept = |at: &usize| stays[*at];
            self.names = (0..self.left.len()).filter(kept).map(|at| self.names[at].clone()).collect();
            self.left = (0..self.left.len()).filter(kept).map(|at| self.left[at]).collect();
        }
        Ok(())
    }

    /// Adds the extender's scores. Names that were not in the question are ignored, and scores may be any number.
    pub(super) fn take_scores(
        &mut self,
        asked: &Extender,
        answer: Result<ExtenderReply, ExtenderError>,
    ) -> Result<(), Str> {
        let reply = answer.map_err(|error| failure(asked, "prioritize", &error.message))?;
        let ExtenderReply::Prioritize(scores) = reply else {
            return Err(failure(asked, "prioritize", "the answer is to another question"));
        };
        let point = i128::from(asked.weight) * i128::from(MAX_NODE_SCORE / MAX_EXTENDER_SCORE);
        let mut names = Names::new(&self.names);
        for (name, score) in scores {
            if let Some(at) = names.find(&name) {
                let bonus = &mut self.left[at].bonus;
                *bonus = bonus.saturating_add(i128::from(score).saturating_mul(point));
            }
        }
        Ok(())
    }
}

fn failure(asked: &Extender, verb: &str, why: &str) -> Str {
    format!("extender \"{}\" failed to {verb}: {why}", asked.url).into()
}

/// Finds the nodes of a question by name.
///
/// Replies mostly keep the order of the question: then this is one walk along both. A map is made only if they do not.
#[derive(Debug)]
struct Names<'a> {
    asked: &'a [Str],
    next: usize,
    by_name: Option<FxHashMap<&'a str, usize>>,
}

impl<'a> Names<'a> {
    fn new(asked: &'a [Str]) -> Self {
        Self { asked, next: 0, by_name: None }
    }

    /// The index of `name` in the question.
    fn find(&mut self, name: &str) -> Option<usize> {
        if self.by_name.is_none() {
            let ahead = self.asked[self.next..].iter().position(|asked| **asked == *name);
            if let Some(ahead) = ahead {
                self.next += ahead + 1;
                return Some(self.next - 1);
            }
        }
        let asked = self.asked;
        let map = || asked.iter().enumerate().map(|(at, name)| (&**name, at)).collect();
        self.by_name.get_or_insert_with(map).get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_order() {
        let asked: Vec<Str> = ["a", "b", "c", "d"].into_iter().map(Into::into).collect();
        for (look_for, want) in [
            ("abcd", vec![Some(0), Some(1), Some(2), Some(3)]),
            ("bd", vec![Some(1), Some(3)]),
            ("dab", vec![Some(3), Some(0), Some(1)]),
            ("xbxb", vec![None, Some(1), None, Some(1)]),
            ("cc", vec![Some(2), Some(2)]),
        ] {
            let mut names = Names::new(&asked);
            let found: Vec<_> = look_for.chars().map(|name| names.find(&name.to_string())).collect();
            assert_eq!(found, want, "{look_for}");
        }
        assert_eq!(Names::new(&[]).find("a"), None);
    }
}
