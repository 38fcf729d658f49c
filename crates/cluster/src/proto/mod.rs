//! Objects in protobuf, as API servers send them to whom asks for it: half the bytes, and a third of the server's work.
//!
//! ```text
//!  wire      numbers and bytes, field by field
//!  fields    what each published type has under which number
//!  read      a message, read as its JSON would be
//!  json      the JSON of a message
//!  envelope  what bodies and frames have around an object
//!  encoded   bytes in one of the two encodings
//!  testing   what an API server would send, for tests and benchmarks
//! ```
//!
//! Protobuf has numbers where JSON has names. A field that is newer than our table has none that we could tell, so that whoever
//! must name it reads the object in JSON.

mod encoded;
mod envelope;
mod fields;
mod json;
mod read;
pub mod testing;
#[cfg(test)]
mod tests;
mod wire;

pub use encoded::{Encoded, Encoding};
pub use envelope::{MAGIC, OBJECT, event_in, names_in, object_in};
pub use fields::{Field, Kind, Many, Message, Type};
pub use read::{Name, ReadError, TIME, Value};
pub use wire::{LARGEST, Reader, WireError};
