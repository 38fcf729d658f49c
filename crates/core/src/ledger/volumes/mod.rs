//! Volumes, claims and their like: what was seen of them, what is assumed of them, and who uses them where.
//!
//! ```text
//!  objects     what the watches saw, by name and by what refers to what
//!  capacities  how large a volume of a class can be made for a node
//!  assumed     laid over that: volumes assumed for claims, claims assumed for nodes, by pods that are not bound yet
//!  uses        which placed pods use which claims, where
//!  attached    how many volumes of each driver a node has attached, and how many it can
//! ```
//!
//! These files know each other: each is an `impl VolumeTable` over its own fields of the one table.
//!
//! Assumptions are shared by all workers: a volume assumed by one is taken for the others. As in upstream's assume cache, an
//! observed object that is newer than the one an assumption was made on ends the assumption.

mod assumed;
mod attached;
mod capacities;
mod objects;
#[cfg(test)]
mod tests;
mod uses;

pub use assumed::VolumePlan;
pub(crate) use assumed::is_meant_for;
#[cfg(test)]
pub(crate) use capacities::COMPARED_CAPACITIES;
pub(crate) use capacities::ClassCapacities;
pub use objects::VolumeTable;
pub use uses::PlacedVolumes;
