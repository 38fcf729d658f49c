//! Kinds of which a field or two are read: what is read, and what becomes of it.

use super::{DecodeError, Decoder, decode};
use crate::slim::Slim;
use berth_core::model::Namespace;
use serde::de::IgnoredAny;

pub type SlimNamespace<'a> = Slim<'a, IgnoredAny, IgnoredAny>;

impl Decoder {
    pub fn namespace(&mut self, slim: &SlimNamespace<'_>) -> Result<Namespace, DecodeError> {
        decode("namespace", slim, |_| {
            Ok(Namespace { name: self.text(&slim.metadata.name), labels: self.labels(&slim.metadata.labels) })
        })
    }
}
