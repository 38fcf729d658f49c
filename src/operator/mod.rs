//! operator
mod claims;
mod denials;
mod due;
mod rival;
mod status;
