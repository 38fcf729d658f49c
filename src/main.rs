//! The `berth` binary: parse, install the crypto provider, run.

use berth::cli::{parse, run};
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// glibc's allocator keeps what a burst of large objects took (`docs/hardening.md`), and musl's has one lock for all threads.
/// Without transparent huge pages, of which a few bytes in use keep 2 MiB.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // A second provider cannot be there yet: this is the first thing the process does.
    let _ = rustls::crypto::ring::default_provider().install_default();
    parse().map_or_else(|code| code, run)
}
