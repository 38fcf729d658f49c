//! The reply to `prioritize`: a score for each node.

use super::Fault;
use super::known::Known;
use super::scanner::{Step, Token, Visit};
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

/// Reads a reply to `prioritize`.
#[derive(Debug)]
pub struct PrioritizeVisitor {
    known: Known,
    place: Place,
    field: Field,
    host: Option<usize>,
    score: i64,
    scores: Vec<Option<i64>>,
    unknown: usize,
}

const fn shape(place: &'static str, wanted: &'static str) -> Fault {
    Fault::Shape { place, wanted }
}

impl PrioritizeVisitor {
    /// For a question about these nodes.
    pub fn new(asked: Arc<[Str]>) -> Self {
        let scores = vec![None; asked.len()];
        let known = Known::new(asked);
        Self { known, place: Place::Root, field: Field::Host, host: None, score: 0, scores, unknown: 0 }
    }

    /// The scores as they came, in the question's order, and how often a node was named that was not asked about.
    ///
    /// The scores of a node that is named twice are summed, as upstream does.
    pub fn into_reply(self) -> (Vec<(Str, i64)>, usize) {
        let known = &self.known;
        let scores = self.scores.iter().enumerate().filter_map(|(at, score)| Some((known.name(at), (*score)?)));
        (scores.collect(), self.unknown)
    }

    fn in_entry(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        match (token, self.field) {
            (Token::Key(key), _) if key.eq_ignore_ascii_case("Host") => self.field = Field::Host,
            (Token::Key(key), _) if key.eq_ignore_ascii_case("Score") => self.field = Field::Score,
            (Token::Key(_), _) => return Ok(Step::Skip),
            (Token::EndObject, _) => self.end_entry(),
            (Token::Null, _) => {}
            (Token::Text(host), Field::Host) => self.host = self.known.find(host),
            (Token::Number(score), Field::Score) => {
                self.score = score.parse().map_err(|_| shape("Score", "a whole number of 64 bits"))?;
            }
            (_, Field::Host) => return Err(shape("Host", "a text")),
            (_, Field::Score) => return Err(shape("Score", "a whole number of 64 bits")),
        }
        Ok(Step::Go)
    }

    fn end_entry(&mut self) {
        self.place = Place::List;
        match self.host {
            Some(at) => self.scores[at] = Some(self.scores[at].unwrap_or(0).saturating_add(self.score)),
            None => self.unknown += 1,
        }
    }
}

impl Visit for PrioritizeVisitor {
    fn token(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        match (self.place, token) {
            (Place::Root, Token::BeginArray) => self.place = Place::List,
            (Place::Root | Place::List, Token::Null) => {}
            (Place::Root, _) => return Err(shape("the reply", "a list")),
            (Place::List, Token::BeginObject) => {
                self.place = Place::Entry;
                (self.host, self.score) = (None, 0);
            }
            (Place::List, Token::EndArray) => self.place = Place::Root,
            (Place::List, _) => return Err(shape("a member of the list", "an object")),
            (Place::Entry, token) => return self.in_entry(token),
        }
        Ok(Step::Go)
    }
}
