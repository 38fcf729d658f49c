//! What is kept of the text of a reply: names that the question gave, and messages, made short and plain.

use super::scanner::{Step, Token, Visit};
use crate::budget::Reservation;
use crate::error::Fault;
use berth_core::model::Str;
use rustc_hash::FxHashMap;
use std::collections::HashSet;
use std::sync::Arc;

/// Bytes kept of a message in a reply: enough to read, too few to fill an event.
pub const MESSAGE_BYTES: usize = 512;

/// How far ahead of the last name found the next one is looked for: replies mostly keep the order of the question.
const AHEAD: usize = 4;

/// The names of a question, each once: a reply's names are found again in them and not kept.
#[derive(Debug)]
pub(super) struct AskedNames {
    names: Arc<[Str]>,
    next: usize,
    index: Option<FxHashMap<Str, u32>>,
}

impl AskedNames {
    pub(super) const fn new(names: Arc<[Str]>) -> Self {
        Self { names, next: 0, index: None }
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn name(&self, at: usize) -> Str {
        self.names[at].clone()
    }

    /// The place of a name, if it was asked about. O(1); the first name out of order costs O(names).
    pub(super) fn find(&mut self, name: &str) -> Option<usize> {
        let ahead = self.names.iter().skip(self.next).take(AHEAD).position(|asked| **asked == *name);
        let at = match ahead {
            Some(step) => self.next + step,
            None => self.look_up(name)?,
        };
        self.next = at + 1;
        Some(at)
    }

    fn look_up(&mut self, name: &str) -> Option<usize> {
        let index = self.index.get_or_insert_with(|| (0..).zip(&*self.names).map(|(at, n)| (n.clone(), at)).collect());
        index.get(name).map(|at| *at as usize)
    }
}

/// The start of a text, with control characters replaced by spaces.
pub(super) fn plain(text: &str) -> String {
    let cut = &text[..text.floor_char_boundary(MESSAGE_BYTES)];
    cut.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The number that is written; `place` is where.
pub(super) fn whole_number(place: &'static str, token: Token<'_>) -> Result<i64, Fault> {
    let number = if let Token::Number(digits) = token { digits.parse().ok() } else { None };
    number.ok_or(Fault::shape(place, "a whole number of 64 bits"))
}

/// Texts of one reply. Equal texts are kept once, and their bytes count against the profile's budget.
#[derive(Debug)]
pub(super) struct Texts {
    reservation: Reservation,
    kept: HashSet<Str>,
}

impl Texts {
    /// Bytes that a text costs beside its own.
    const OVERHEAD: usize = 64;

    pub(super) fn new(reservation: Reservation) -> Self {
        Self { reservation, kept: HashSet::new() }
    }

    /// A name or uid, unchanged.
    pub(super) fn keep(&mut self, text: &str) -> Result<Str, Fault> {
        if let Some(kept) = self.kept.get(text) {
            return Ok(kept.clone());
        }
        self.reservation.take(text.len() + Self::OVERHEAD)?;
        let kept = Str::from(text);
        self.kept.insert(kept.clone());
        Ok(kept)
    }

    /// A message, made [`plain`].
    pub(super) fn message(&mut self, text: &str) -> Result<Str, Fault> {
        if let Some(kept) = self.kept.get(text) {
            return Ok(kept.clone());
        }
        self.keep(&plain(text))
    }

    /// Counts bytes that are kept beside texts.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Fault> {
        self.reservation.take(bytes)
    }
}

/// Reads a reply to `bind`: nothing, or what went wrong.
#[derive(Debug, Default)]
pub struct BindVisitor {
    inside: bool,
    error: String,
}

impl BindVisitor {
    /// What the reply says went wrong; empty if nothing did.
    pub fn into_reply(self) -> String {
        self.error
    }
}

impl Visit for BindVisitor {
    fn token(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        match (self.inside, token) {
            (false, Token::BeginObject) => self.inside = true,
            (_, Token::Null) => {}
            (false, _) => return Err(Fault::shape("the reply", "an object")),
            (true, Token::Key(key)) if key.eq_ignore_ascii_case("Error") => {}
            (true, Token::Key(_)) => return Ok(Step::Skip),
            (true, Token::Text(text)) => self.error = plain(text),
            (true, Token::EndObject) => self.inside = false,
            (true, _) => return Err(Fault::shape("Error", "a text")),
        }
        Ok(Step::Go)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[test]
    fn every_name_is_found_in_any_order() {
        let names: Arc<[Str]> = (0..100).map(|i| Str::from(format!("n{i}"))).collect();
        let mut asked = AskedNames::new(names);
        for at in (0..100).chain((0..100).rev()).chain((0..100).step_by(9)) {
            assert_eq!(asked.find(&format!("n{at}")), Some(at));
        }
        assert_eq!(asked.find("n100"), None);
        assert_eq!(asked.find(""), None);
    }

    #[test]
    fn a_message_is_short_and_on_one_line() {
        assert_eq!(plain("a\nb\u{1b}[31m"), "a b [31m");
        let long = "ä".repeat(1_000);
        assert!(plain(&long).len() <= MESSAGE_BYTES);
    }

    #[test]
    fn equal_texts_are_kept_once() {
        let budget = Budget::new(1_000);
        let mut texts = Texts::new(budget.reserve());
        let first = texts.message("no room\n").unwrap();
        let reserved = budget.reserved();
        let second = texts.message("no room\n").unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(budget.reserved(), reserved);
        assert!(texts.keep(&"x".repeat(1_000)).is_err());
    }
}
