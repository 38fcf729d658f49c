//! The reply to `bind`: nothing, or what went wrong.

use super::Fault;
use super::message::plain;
use super::scanner::{Step, Token, Visit};

/// Reads a reply to `bind`.
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
            (false, _) => return Err(Fault::Shape { place: "the reply", wanted: "an object" }),
            (true, Token::Key(key)) if key.eq_ignore_ascii_case("Error") => {}
            (true, Token::Key(_)) => return Ok(Step::Skip),
            (true, Token::Text(text)) => self.error = plain(text),
            (true, Token::EndObject) => self.inside = false,
            (true, _) => return Err(Fault::Shape { place: "Error", wanted: "a text" }),
        }
        Ok(Step::Go)
    }
}
