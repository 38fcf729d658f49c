//! The reply to `filter`: who survives, who does not and why. Of whole nodes only the names are kept.

use super::known::Known;
use super::message::{Texts, plain};
use super::scanner::{Step, Token, Visit};
use super::{Fault, NodeForm};
use crate::budget::Hold;
use berth_core::model::Str;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Reply,
    Names,
    List,
    Items,
    Node,
    Meta,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Names,
    Nodes,
    Failed { unresolvable: bool },
    Error,
}

/// Those that survive by one of the two forms of the reply.
#[derive(Debug, Default)]
struct Survivors {
    places: Vec<usize>,
    seen: Vec<bool>,
    unknown: usize,
    first_unknown: Option<String>,
}

impl Survivors {
    fn add(&mut self, name: &str, known: &mut Known) {
        if let Some(at) = known.find(name) {
            self.seen.resize(known.len(), false);
            if !std::mem::replace(&mut self.seen[at], true) {
                self.places.push(at);
            }
        } else {
            self.unknown += 1;
            self.first_unknown.get_or_insert_with(|| plain(name));
        }
    }
}

/// What a reply to `filter` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterReply {
    /// Nodes of the question that survive, in the reply's order; `None` where the reply has no list of them.
    pub survivors: Option<Vec<Str>>,
    /// A name in `NodeNames` that was not asked about: the reply is an error, as upstream has it.
    pub stranger: Option<String>,
    /// Nodes of the question that failed, with the reply's message, in the question's order.
    pub failed: Vec<(Str, Str)>,
    /// Nodes of the question that failed so that no preemption helps.
    pub unresolvable: Vec<(Str, Str)>,
    /// What it says went wrong; empty if nothing did.
    pub error: String,
    /// How often it named nodes that were not asked about.
    pub unknown: usize,
}

/// Reads a reply to `filter`.
#[derive(Debug)]
pub struct FilterVisitor {
    form: NodeForm,
    known: Known,
    texts: Texts,
    place: Place,
    field: Field,
    key: Option<usize>,
    name: String,
    names: Option<Survivors>,
    nodes: Option<Survivors>,
    failed: [Vec<Option<Str>>; 2],
    unknown: usize,
    error: String,
}

const fn shape(place: &'static str, wanted: &'static str) -> Fault {
    Fault::Shape { place, wanted }
}

impl FilterVisitor {
    /// For a question about these nodes.
    pub fn new(form: NodeForm, asked: Arc<[Str]>, hold: Hold) -> Self {
        Self {
            form,
            known: Known::new(asked),
            texts: Texts::new(hold),
            place: Place::Root,
            field: Field::Error,
            key: None,
            name: String::new(),
            names: None,
            nodes: None,
            failed: [Vec::new(), Vec::new()],
            unknown: 0,
            error: String::new(),
        }
    }

    /// What was read.
    pub fn into_reply(self) -> FilterReply {
        let known = &self.known;
        let use_names = self.form == NodeForm::Names && self.names.is_some();
        let chosen = if use_names { self.names } else { self.nodes };
        let strange = chosen.as_ref().map_or(0, |s| s.unknown);
        let stranger = chosen.as_ref().filter(|_| use_names).and_then(|s| s.first_unknown.clone());
        let survivors = chosen.map(|s| s.places.into_iter().map(|at| known.name(at)).collect());
        let [failed, unresolvable] = self.failed.map(|map| {
            map.into_iter().enumerate().filter_map(|(at, text)| Some((known.name(at), text?))).collect::<Vec<_>>()
        });
        FilterReply { survivors, stranger, failed, unresolvable, error: self.error, unknown: self.unknown + strange }
    }

    fn in_reply(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        match (token, self.field) {
            (Token::Key(key), _) => return Ok(self.choose(key)),
            (Token::EndObject, _) => self.place = Place::Root,
            (Token::Null, Field::Names) => self.names = None,
            (Token::Null, Field::Nodes) => self.nodes = None,
            (Token::Null, Field::Failed { unresolvable }) => self.failed[usize::from(unresolvable)].clear(),
            (Token::Null, Field::Error) => {}
            (Token::BeginArray, Field::Names) => {
                self.names = Some(Survivors::default());
                self.place = Place::Names;
            }
            (Token::BeginObject, Field::Nodes) => {
                self.nodes = Some(Survivors::default());
                self.place = Place::List;
            }
            (Token::BeginObject, Field::Failed { .. }) => self.place = Place::Failed,
            (Token::Text(text), Field::Error) => self.error = plain(text),
            (_, Field::Names) => return Err(shape("NodeNames", "a list of names")),
            (_, Field::Nodes) => return Err(shape("Nodes", "a NodeList")),
            (_, Field::Failed { unresolvable: false }) => return Err(shape("FailedNodes", "an object")),
            (_, Field::Failed { unresolvable: true }) => return Err(shape("FailedAndUnresolvableNodes", "an object")),
            (_, Field::Error) => return Err(shape("Error", "a text")),
        }
        Ok(Step::Go)
    }

    fn choose(&mut self, key: &str) -> Step {
        let fields = [
            ("NodeNames", Field::Names),
            ("Nodes", Field::Nodes),
            ("FailedNodes", Field::Failed { unresolvable: false }),
            ("FailedAndUnresolvableNodes", Field::Failed { unresolvable: true }),
            ("Error", Field::Error),
        ];
        let found = fields.into_iter().find(|(name, _)| key.eq_ignore_ascii_case(name));
        match found {
            Some((_, Field::Names)) if self.form == NodeForm::Full => Step::Skip,
            Some((_, field)) => {
                self.field = field;
                Step::Go
            }
            None => Step::Skip,
        }
    }

    fn in_names(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        let name = match token {
            Token::Text(name) => name,
            Token::Null => "",
            Token::EndArray => {
                self.place = Place::Reply;
                return Ok(Step::Go);
            }
            _ => return Err(shape("a member of NodeNames", "a text")),
        };
        if let Some(survivors) = &mut self.names {
            survivors.add(name, &mut self.known);
        }
        Ok(Step::Go)
    }

    /// In `Nodes`, down to `metadata.name` of its items.
    fn in_nodes(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        match (self.place, token) {
            (Place::List, Token::Key(key)) => return Ok(only(key, "items")),
            (Place::List, Token::BeginArray) => self.place = Place::Items,
            (Place::List, Token::EndObject) => self.place = Place::Reply,
            (Place::Items, Token::BeginObject) => {
                self.name.clear();
                self.place = Place::Node;
            }
            (Place::Items, Token::EndArray) => self.place = Place::List,
            (Place::Node, Token::Key(key)) => return Ok(only(key, "metadata")),
            (Place::Node, Token::BeginObject) => self.place = Place::Meta,
            (Place::Node, Token::EndObject) => {
                self.place = Place::Items;
                if let Some(survivors) = &mut self.nodes {
                    survivors.add(&self.name, &mut self.known);
                }
            }
            (Place::Meta, Token::Key(key)) => return Ok(only(key, "name")),
            (Place::Meta, Token::Text(name)) => {
                self.name.clear();
                self.name.push_str(name);
            }
            (Place::Meta, Token::EndObject) => self.place = Place::Node,
            (_, Token::Null) => {}
            (Place::List, _) => return Err(shape("Nodes.items", "a list")),
            (Place::Items, _) => return Err(shape("a member of Nodes.items", "a Node")),
            (Place::Node, _) => return Err(shape("metadata of a Node", "an object")),
            _ => return Err(shape("metadata.name of a Node", "a text")),
        }
        Ok(Step::Go)
    }

    fn in_failed(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        let text = match token {
            Token::Key(name) => {
                self.key = self.known.find(name);
                self.unknown += usize::from(self.key.is_none());
                return Ok(if self.key.is_some() { Step::Go } else { Step::Skip });
            }
            Token::Text(text) => text,
            Token::Null => "",
            Token::EndObject => {
                self.place = Place::Reply;
                return Ok(Step::Go);
            }
            _ => return Err(shape("the message of a failed node", "a text")),
        };
        let message = self.texts.message(text)?;
        let map = &mut self.failed[usize::from(self.field == Field::Failed { unresolvable: true })];
        if let Some(at) = self.key {
            map.resize(self.known.len(), None);
            map[at] = Some(message);
        }
        Ok(Step::Go)
    }
}

/// Whether this is the one key that is wanted.
const fn only(key: &str, wanted: &str) -> Step {
    if key.eq_ignore_ascii_case(wanted) { Step::Go } else { Step::Skip }
}

impl Visit for FilterVisitor {
    fn token(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        match (self.place, token) {
            (Place::Root, Token::BeginObject) => {
                self.place = Place::Reply;
                Ok(Step::Go)
            }
            (Place::Root, Token::Null) => Ok(Step::Go),
            (Place::Root, _) => Err(shape("the reply", "an object")),
            (Place::Reply, token) => self.in_reply(token),
            (Place::Names, token) => self.in_names(token),
            (Place::Failed, token) => self.in_failed(token),
            (_, token) => self.in_nodes(token),
        }
    }
}
