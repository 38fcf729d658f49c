//! The `berth` binary: parse, install the crypto provider, run.

use berth::cli::{parse, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    // A second provider cannot be there yet: this is the first thing the process does.
    let _ = rustls::crypto::ring::default_provider().install_default();
    parse().map_or_else(|code| code, run)
}
