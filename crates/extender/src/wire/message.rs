//! Foreign text, made short and plain, and kept once however often it comes.

use crate::budget::Hold;
use crate::wire::Fault;
use berth_core::model::Str;
use std::collections::HashSet;

/// Bytes kept of a message in a reply: enough to read, too few to fill an event.
pub const MESSAGE_BYTES: usize = 512;

/// The start of a foreign text, control characters made spaces.
pub(super) fn plain(text: &str) -> String {
    let cut = &text[..text.floor_char_boundary(MESSAGE_BYTES)];
    cut.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Texts of one reply: equal ones are one, and what they take is taken from the profile's budget.
#[derive(Debug)]
pub(super) struct Texts {
    hold: Hold,
    known: HashSet<Str>,
}

impl Texts {
    /// None yet.
    pub(super) fn new(hold: Hold) -> Self {
        Self { hold, known: HashSet::new() }
    }

    /// Bytes that a text costs beside its own.
    const OVERHEAD: usize = 64;

    /// A name or uid as it is.
    ///
    /// # Errors
    /// The budget is used up.
    pub(super) fn keep(&mut self, text: &str) -> Result<Str, Fault> {
        if let Some(known) = self.known.get(text) {
            return Ok(known.clone());
        }
        self.hold.take(text.len() + Self::OVERHEAD)?;
        let kept = Str::from(text);
        self.known.insert(kept.clone());
        Ok(kept)
    }

    /// A message, [`plain`].
    ///
    /// # Errors
    /// The budget is used up.
    pub(super) fn message(&mut self, text: &str) -> Result<Str, Fault> {
        if let Some(known) = self.known.get(text) {
            return Ok(known.clone());
        }
        self.keep(&plain(text))
    }

    /// Counts what is kept beside texts.
    ///
    /// # Errors
    /// The budget is used up.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Fault> {
        self.hold.take(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[test]
    fn a_message_is_short_and_on_one_line() {
        assert_eq!(plain("a\nb\u{1b}[31m"), "a b [31m");
        let long = "ä".repeat(1_000);
        assert!(plain(&long).len() <= MESSAGE_BYTES);
    }

    #[test]
    fn equal_texts_are_kept_once() {
        let budget = Budget::new(1_000);
        let mut texts = Texts::new(budget.hold());
        let first = texts.message("no room\n").unwrap();
        let held = budget.held();
        let second = texts.message("no room\n").unwrap();
        assert!(std::sync::Arc::ptr_eq(&first, &second));
        assert_eq!(budget.held(), held);
        assert!(texts.keep(&"x".repeat(1_000)).is_err());
    }
}
