//! What the environment asks for.

use std::env::VarError;

/// The seed of a run that names none: a commit that breaks something fails on every machine alike.
const SEED: u64 = 1_036_003;

/// How many clusters a plain `cargo test` looks at.
const CLUSTERS: usize = 5_000;

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// `BERTH_SEED`: where the sub-seeds of clusters come from; `random` for one from the clock.
    pub seed: u64,
    /// `BERTH_CONFORMANCE_CLUSTERS`: how many clusters.
    pub clusters: usize,
    /// `BERTH_CLUSTER`: the sub-seed of the only cluster to look at.
    pub only: Option<u64>,
    /// Whether the tables are wanted even if all is well.
    pub verbose: bool,
}

impl Options {
    /// Whether so many clusters make up for what chance leaves out: with another seed 5,000 miss the rarest row one time of fifty.
    pub fn are_enough(&self, clusters: usize) -> bool {
        self.only.is_none() && clusters >= if self.seed == SEED { CLUSTERS } else { 4 * CLUSTERS }
    }

    pub fn read() -> Self {
        let clusters = number("BERTH_CONFORMANCE_CLUSTERS");
        Self {
            seed: seed(),
            clusters: clusters.map_or(CLUSTERS, |n| n as usize),
            only: number("BERTH_CLUSTER"),
            verbose: clusters.is_some(),
        }
    }
}

fn seed() -> u64 {
    if std::env::var("BERTH_SEED").is_ok_and(|text| text == "random") {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        return now.as_nanos() as u64 & 0xFFFF_FFFF;
    }
    number("BERTH_SEED").unwrap_or(SEED)
}

/// A number, in decimal or as `0x…`.
fn number(name: &str) -> Option<u64> {
    let text = match std::env::var(name) {
        Ok(text) if !text.is_empty() => text,
        Ok(_) | Err(VarError::NotPresent) => return None,
        Err(error) => panic!("{name}: {error}"),
    };
    let parsed = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    Some(parsed.unwrap_or_else(|_| panic!("{name}={text} is not a number: write one such as 42 or 0x2a")))
}
