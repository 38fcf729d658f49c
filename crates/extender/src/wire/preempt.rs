//! The reply to `preempt`: the nodes that remain and their victims, always by uid.

use super::scanner::{Step, Token, Visit};
use super::text::{Texts, whole_number};
use crate::budget::Reservation;
use crate::error::Fault;
use berth_core::io::NodeVictims;
use berth_core::model::Str;
use std::collections::HashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Reply,
    Nodes,
    Victims,
    Pods,
    Pod,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Pods,
    Violations,
}

#[derive(Debug)]
pub struct PreemptVisitor {
    texts: Texts,
    place: Place,
    field: Field,
    node: Str,
    uid: Option<Str>,
    victims: Vec<Str>,
    violations: i64,
    nodes: Vec<NodeVictims>,
    index: HashMap<Str, usize>,
}

impl PreemptVisitor {
    /// Names and uids of the reply count against `reservation`.
    pub fn new(reservation: Reservation) -> Self {
        Self {
            texts: Texts::new(reservation),
            place: Place::Root,
            field: Field::Pods,
            node: Str::from(""),
            uid: None,
            victims: Vec::new(),
            violations: 0,
            nodes: Vec::new(),
            index: HashMap::new(),
        }
    }

    /// The nodes that remain, in the reply's order. They and their victims may be ones that the question did not have.
    pub fn into_reply(self) -> Vec<NodeVictims> {
        self.nodes
    }

    fn in_victims(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        match (token, self.field) {
            (Token::Key(key), _) if key.eq_ignore_ascii_case("Pods") => self.field = Field::Pods,
            (Token::Key(key), _) if key.eq_ignore_ascii_case("NumPDBViolations") => self.field = Field::Violations,
            (Token::Key(_), _) => return Ok(Step::Skip),
            (Token::EndObject, _) => self.end_node()?,
            (Token::Null, Field::Pods) => self.victims.clear(),
            (Token::Null, Field::Violations) => {}
            (Token::BeginArray, Field::Pods) => {
                self.victims.clear();
                self.place = Place::Pods;
            }
            (_, Field::Pods) => return Err(Fault::shape("Pods", "a list")),
            (token, Field::Violations) => self.violations = whole_number("NumPDBViolations", token)?,
        }
        Ok(Step::Go)
    }

    fn end_node(&mut self) -> Result<(), Fault> {
        self.place = Place::Nodes;
        self.texts.take(size_of::<NodeVictims>() + self.victims.len() * size_of::<Str>())?;
        let one = NodeVictims {
            node: self.node.clone(),
            victims: std::mem::take(&mut self.victims),
            budget_violations: std::mem::take(&mut self.violations),
        };
        if let Some(at) = self.index.get(&self.node) {
            self.nodes[*at] = one;
        } else {
            self.index.insert(self.node.clone(), self.nodes.len());
            self.nodes.push(one);
        }
        Ok(())
    }

    fn in_pod(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        match token {
            Token::Key(key) if key.eq_ignore_ascii_case("UID") => {}
            Token::Key(_) => return Ok(Step::Skip),
            Token::Text(uid) => self.uid = Some(self.texts.keep(uid)?),
            Token::Null => {}
            Token::EndObject => {
                self.place = Place::Pods;
                let uid = self.uid.take().ok_or(Fault::shape("a member of Pods", "an object with a UID"))?;
                self.victims.push(uid);
                self.texts.take(size_of::<Str>())?;
            }
            _ => return Err(Fault::shape("UID", "a text")),
        }
        Ok(Step::Go)
    }
}

impl Visit for PreemptVisitor {
    fn token(&mut self, token: Token<'_>) -> Result<Step, Fault> {
        match (self.place, token) {
            (Place::Root, Token::BeginObject) | (Place::Nodes, Token::EndObject) => self.place = Place::Reply,
            (Place::Root, Token::Null) => {}
            (Place::Root, _) => return Err(Fault::shape("the reply", "an object")),
            (Place::Reply, Token::Key(key)) if key.eq_ignore_ascii_case("NodeNameToMetaVictims") => {}
            (Place::Reply, Token::Key(_)) => return Ok(Step::Skip),
            (Place::Reply, Token::BeginObject) => self.place = Place::Nodes,
            (Place::Reply, Token::EndObject) => self.place = Place::Root,
            (Place::Reply, Token::Null) => {
                self.nodes.clear();
                self.index.clear();
            }
            (Place::Reply, _) => return Err(Fault::shape("NodeNameToMetaVictims", "an object")),
            (Place::Nodes, Token::Key(node)) => self.node = self.texts.keep(node)?,
            (Place::Nodes, Token::BeginObject) => {
                self.victims.clear();
                self.violations = 0;
                self.place = Place::Victims;
            }
            (Place::Nodes, _) => return Err(Fault::shape("the victims of a node", "an object")),
            (Place::Victims, token) => return self.in_victims(token),
            (Place::Pods, Token::BeginObject) => {
                self.uid = None;
                self.place = Place::Pod;
            }
            (Place::Pods, Token::EndArray) => self.place = Place::Victims,
            (Place::Pods, _) => return Err(Fault::shape("a member of Pods", "an object with a UID")),
            (Place::Pod, token) => return self.in_pod(token),
        }
        Ok(Step::Go)
    }
}
