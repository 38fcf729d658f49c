//! Fuzz targets: whatever bytes come in, nothing panics, and what is accepted means what a naive reading says.
//!
//! Every target reads one string of bytes. `cargo test --test fuzz` runs each on strings from a fixed seed, on the files
//! of its corpus (`tests/fuzz/__fuzz__/…/corpus`, found by longer runs), and on some random strings; a failure prints the
//! seed or the shortest string found. CONTRIBUTING.md says how to run one for longer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod cel;
mod choices;
mod extender_reply;
mod hostile;
mod manifest;
mod mutate;
mod plugin_args;
mod protobuf;
mod quantity;
mod selector;

use berth_counting::Counting;
use choices::strings;

/// So that `hostile` can say how much memory a decision takes.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The seed of the strings that every run tries.
const SEED: u64 = 0x6265_7274_6800;

/// Runs a target on strings from the fixed seed, then leaves it to bolero: corpus, random strings, or a fuzzing engine.
macro_rules! fuzz {
    ($name:ident, $fixed:expr, $random:expr) => {
        #[test]
        fn $name() {
            println!("{}: {} strings from seed {SEED:#x}, then {} at random", stringify!($name), $fixed, $random);
            for bytes in strings(SEED, $fixed) {
                $name::target(&bytes);
            }
            bolero::check!().with_iterations($random).for_each(|bytes: &[u8]| $name::target(bytes));
        }
    };
}

fuzz!(quantity, 30_000, 3_000);
fuzz!(cel, 3_000, 300);
fuzz!(selector, 10_000, 1_000);
fuzz!(manifest, 5_000, 500);
fuzz!(protobuf, 5_000, 500);
fuzz!(plugin_args, 10_000, 1_000);
fuzz!(extender_reply, 20_000, 2_000);
fuzz!(hostile, 300, 30);
