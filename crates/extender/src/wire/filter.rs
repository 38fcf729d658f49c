//! The reply to `filter`: which nodes survive, and why the others do not. Of whole nodes only the names are kept.

use super::scanner::{Step, Token, Visit};
use super::text::{AskedNames, Texts, plain};
use crate::budget::Reservation;
use crate::error::Fault;
use berth_api::NodePayload;
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
    /// An index into [`FilterVisitor::failed`].
    Failed(usize),
    Error,
}

/// The fields that are read: name, field, and what its value is.
const FIELDS: [(&str, Field, &str); 5] = [
    ("NodeNames", Field::Names, "a list of names"),
    ("Nodes", Field::Nodes, "a NodeList"),
    ("FailedNodes", Field::Failed(0), "an object"),
    ("FailedAndUnresolvableNodes", Field::Failed(1), "an object"),
    ("Error", Field::Error, "a text"),
];

/// The survivors in one of the two forms that a reply may have.
#[derive(Debug, Default)]
struct Survivors {
    places: Vec<usize>,
    seen: Vec<bool>,
    stranger: Option<String>,
}

impl Survivors {
    fn add(&mut self, name: &str, asked: &mut AskedNames) {
        if let Some(at) = asked.find(name) {
            self.seen.resize(asked.len(), false);
            if !std::mem::replace(&mut self.seen[at], true) {
                self.places.push(at);
            }
        } else {
            self.stranger.get_or_insert_with(|| plain(name));
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterReply {
    /// Nodes of the question that survive, in the reply's order; `None` if the reply has no list of survivors.
    pub survivors: Option<Vec<Str>>,
    /// A name in `NodeNames` that was not asked about: such a reply is an error, as upstream.
    pub stranger: Option<String>,
    /// Nodes of the question that failed, with the reply's message, in the question's order.
    pub failed: Vec<(Str, Str)>,
    /// Nodes of the question that failed in a way that no preemption helps.
    pub unresolvable: Vec<(Str, Str)>,
    /// Empty if nothing went wrong.
    pub error: String,
}

#[derive(Debug)]
pub struct FilterVisitor {
    form: NodePayload,
    asked: AskedNames,
    texts: Texts,
    place: Place,
    /// The row of [`FIELDS`] for the value that comes next.
    field: (&'static str, Field, &'static str),
    key: Option<usize>,
    name: String,
    names: Option<Survivors>,
    nodes: Option<Survivors>,
    /// The messages of nodes that failed, and of those that failed in a way that no preemption helps.
    failed: [Vec<Option<Str>>; 2],
    error: String,
}

impl FilterVisitor {
    /// `asked` are the nodes of the question.
    pub fn new(form: NodePayload, asked: Arc<[Str]>, reservation: Reservation) -> Self {
        Self {
            form,
            asked: AskedNames::new(asked),
            texts: Texts::new(reservation),
            place: Place::Root,
            field: FIELDS[0],
            key: None,
            name: String::new(),
            names: None,
            nodes: None,
            failed: [Vec::new(), Vec::new()],
            error: String::new(),
        }
    }

    pub fn into_reply(self) -> FilterReply {
        let asked = &self.asked;
        let use_names = self.form == NodePayload::Names && self.names.is_some();
        let chosen = if use_names { self.names } else { self.nodes };
        let stranger = chosen.as_ref().filter(|_| use_names).and_then(|s| s.stranger.clone());
        let survivors = chosen.map(|s| s.places.into_iter().map(|at| asked.name(at)).collect());
        let [failed, unresolvable] = self.failed.map(|map| {
            map.into_iter().enumerate().filter_map(|(at, text)| Some((asked.name(at), text?))).collect::<Vec<_>>()
        });
        FilterReply { survivors, stranger, failed, unresolvable, error: self.error }
    }

    fn in_reply(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        match (token, self.field.1) {
            (Token::Key(key), _) => return Ok(self.choose(key)),
            (Token::EndObject, _) => self.place = Place::Root,
            (Token::Null, Field::Names) => self.names = None,
            (Token::Null, Field::Nodes) => self.nodes = None,
            (Token::Null, Field::Failed(map)) => self.failed[map].clear(),
            (Token::Null, Field::Error) => {}
            (Token::BeginArray, Field::Names) => {
                self.names = Some(Survivors::default());
                self.place = Place::Names;
            }
            (Token::BeginObject, Field::Nodes) => {
                self.nodes = Some(Survivors::default());
                self.place = Place::List;
            }
            (Token::BeginObject, Field::Failed(_)) => self.place = Place::Failed,
            (Token::Text(text), Field::Error) => self.error = plain(text),
            _ => {
                let (name, _, is) = self.field;
                return Err(Fault::shape(name, is));
            }
        }
        Ok(Step::Go)
    }

    fn choose(&mut self, key: &str) -> Step {
        match FIELDS.into_iter().find(|(name, ..)| key.eq_ignore_ascii_case(name)) {
            Some((_, Field::Names, _)) if self.form == NodePayload::Full => Step::Skip,
            Some(field) => {
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
            _ => return Err(Fault::shape("a member of NodeNames", "a text")),
        };
        if let Some(survivors) = &mut self.names {
            survivors.add(name, &mut self.asked);
        }
        Ok(Step::Go)
    }

    /// Reads `Nodes` down to the `metadata.name` of its items.
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
                    survivors.add(&self.name, &mut self.asked);
                }
            }
            (Place::Meta, Token::Key(key)) => return Ok(only(key, "name")),
            (Place::Meta, Token::Text(name)) => {
                self.name.clear();
                self.name.push_str(name);
            }
            (Place::Meta, Token::EndObject) => self.place = Place::Node,
            (_, Token::Null) => {}
            (Place::List, _) => return Err(Fault::shape("Nodes.items", "a list")),
            (Place::Items, _) => return Err(Fault::shape("a member of Nodes.items", "a Node")),
            (Place::Node, _) => return Err(Fault::shape("metadata of a Node", "an object")),
            _ => return Err(Fault::shape("metadata.name of a Node", "a text")),
        }
        Ok(Step::Go)
    }

    fn in_failed(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        let text = match token {
            Token::Key(name) => {
                self.key = self.asked.find(name);
                return Ok(if self.key.is_some() { Step::Go } else { Step::Skip });
            }
            Token::Text(text) => text,
            Token::Null => "",
            Token::EndObject => {
                self.place = Place::Reply;
                return Ok(Step::Go);
            }
            _ => return Err(Fault::shape("the message of a failed node", "a text")),
        };
        let message = self.texts.message(text)?;
        if let (Some(at), Field::Failed(map)) = (self.key, self.field.1) {
            let map = &mut self.failed[map];
            map.resize(self.asked.len(), None);
            map[at] = Some(message);
        }
        Ok(Step::Go)
    }
}

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
            (Place::Root, _) => Err(Fault::shape("the reply", "an object")),
            (Place::Reply, token) => self.in_reply(token),
            (Place::Names, token) => self.in_names(token),
            (Place::Failed, token) => self.in_failed(token),
            (_, token) => self.in_nodes(token),
        }
    }
}
