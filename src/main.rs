//! The `berth` binary: parse, install the crypto provider, run.

fn main() {}
