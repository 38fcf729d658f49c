//! What expressions can call, a module for each library, with the table of its signatures.

pub(crate) mod convert;
pub(crate) mod format;
mod lists;
pub(crate) mod net;
mod operators;
mod optional;
mod printf;
pub(crate) mod quantity;
pub(crate) mod regex;
pub(crate) mod semver;
mod sets;
pub(crate) mod sort;
mod strings;
mod times;
mod translate;
pub(crate) mod url;

use crate::signatures::Signature;

pub(crate) use printf::check as check_printf;

/// Where one function has signatures in several tables, upstream tries them in this order.
pub(crate) const ALL: [&[Signature]; 20] = [
    operators::SIGNATURES,
    operators::ORDERED,
    convert::SIGNATURES,
    times::SIGNATURES,
    lists::SIGNATURES,
    strings::SIGNATURES,
    printf::SIGNATURES,
    regex::SIGNATURES,
    lists::SORTED,
    lists::MIN,
    lists::MAX,
    sort::SIGNATURES,
    sets::SIGNATURES,
    optional::SIGNATURES,
    quantity::SIGNATURES,
    semver::SIGNATURES,
    net::SIGNATURES,
    url::SIGNATURES,
    format::SIGNATURES,
    format::NAMED,
];
