//! The expressions by which `ResourceClaim`s and `DeviceClass`es select devices: the Common Expression Language with the libraries that
//! Kubernetes gives it.
//!
//! ```text
//!  program    a selector: compiled, then asked about devices
//!  device     what it is asked about
//!  error      why there is no program, or no answer
//!
//!  lex        text to tokens; literal has the escapes
//!  parse      tokens to a tree; macros has the calls that are syntax, syntax the tree
//!  check      which function each call means, and the type of everything; types has the types
//!  validate   what is refused although its types are right
//!  compile    the tree to code, constants computed; code has the nodes
//!
//!  evaluate   code to a value; fold has the macros over lists and maps, look_up fields and indices
//!  value      what there is to compute with; text its strings, view the device as a map
//!  equal      when two values are equal
//!  order      which of two comes first
//!  time       points in time and spans
//!  meter      how much an evaluation may still do
//!  looked_up  which attributes and capacities an expression names, for people
//!  driver     of which driver alone an expression selects devices
//!
//!  signatures what a function takes and gives
//!  library    the functions, a module for each library
//! ```
//!
//! Answers are those of cel-go with the environment of Kubernetes 1.36, its slips included where an answer hangs on them.
//! What we do not know is an error that says so ([`CompileError::Unsupported`], [`EvalError::Unsupported`]) and never `false`.

#![deny(clippy::iter_over_hash_type, clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]

mod check;
mod code;
mod compile;
mod device;
mod driver;
mod equal;
mod error;
mod evaluate;
mod fold;
mod lex;
mod library;
mod literal;
mod look_up;
mod looked_up;
mod macros;
mod meter;
mod order;
mod parse;
mod program;
mod signatures;
mod syntax;
mod text;
mod time;
mod types;
mod validate;
mod value;
mod view;

pub use device::{Attribute, Device, QualifiedName};
pub use driver::only_driver;
pub use error::{CompileError, EvalError};
pub use looked_up::LookedUp;
pub use program::Program;
