use crate::model::Str;
use rustc_hash::FxHashMap;

/// Finds the nodes that were asked about by name.
///
/// Answers mostly come in the order of the question: then this is one walk along both. Only where they do not is a map made.
#[derive(Debug)]
pub(super) struct Names<'a> {
    asked: &'a [Str],
    next: usize,
    by_name: Option<FxHashMap<&'a str, usize>>,
}

impl<'a> Names<'a> {
    pub(super) fn new(asked: &'a [Str]) -> Self {
        Self { asked, next: 0, by_name: None }
    }

    /// The place of `name` in the question.
    pub(super) fn find(&mut self, name: &str) -> Option<usize> {
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
