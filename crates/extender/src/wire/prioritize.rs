//! The reply to `prioritize`: a score for each node.

use super::scanner::{Step, Token, Visit};
use super::text::{AskedNames, whole_number};
use crate::error::Fault;
use berth_core::model::Str;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    List,
    Entry,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Host,
    Score,
}

#[derive(Debug)]
pub struct PrioritizeVisitor {
    asked: AskedNames,
    place: Place,
    field: Field,
    host: Option<usize>,
    score: i64,
    scores: Vec<Option<i64>>,
}

impl PrioritizeVisitor {
    /// `asked` are the nodes of the question.
    pub fn new(asked: Arc<[Str]>) -> Self {
        let scores = vec![None; asked.len()];
        Self { asked: AskedNames::new(asked), place: Place::Root, field: Field::Host, host: None, score: 0, scores }
    }

    /// The scores as they came, in the question's order. The scores of a node that is named twice are summed, as upstream
    /// does.
    pub fn into_reply(self) -> Vec<(Str, i64)> {
        let asked = &self.asked;
        let scores = self.scores.iter().enumerate();
        scores.filter_map(|(at, score)| Some((asked.name(at), (*score)?))).collect()
    }

    fn in_entry(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        match (token, self.field) {
            (Token::Key(key), _) if key.eq_ignore_ascii_case("Host") => self.field = Field::Host,
            (Token::Key(key), _) if key.eq_ignore_ascii_case("Score") => self.field = Field::Score,
            (Token::Key(_), _) => return Ok(Step::Skip),
            (Token::EndObject, _) => self.end_entry(),
            (Token::Null, _) => {}
            (Token::Text(host), Field::Host) => self.host = self.asked.find(host),
            (_, Field::Host) => return Err(Fault::shape("Host", "a text")),
            (token, Field::Score) => self.score = whole_number("Score", token)?,
        }
        Ok(Step::Go)
    }

    fn end_entry(&mut self) {
        self.place = Place::List;
        if let Some(at) = self.host {
            self.scores[at] = Some(self.scores[at].unwrap_or(0).saturating_add(self.score));
        }
    }
}

impl Visit for PrioritizeVisitor {
    fn token(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        match (self.place, token) {
            (Place::Root, Token::BeginArray) => self.place = Place::List,
            (Place::Root | Place::List, Token::Null) => {}
            (Place::Root, _) => return Err(Fault::shape("the reply", "a list")),
            (Place::List, Token::BeginObject) => {
                self.place = Place::Entry;
                (self.host, self.score) = (None, 0);
            }
            (Place::List, Token::EndArray) => self.place = Place::Root,
            (Place::List, _) => return Err(Fault::shape("a member of the list", "an object")),
            (Place::Entry, token) => return self.in_entry(token),
        }
        Ok(Step::Go)
    }
}
