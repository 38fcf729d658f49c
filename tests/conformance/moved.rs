//! Configurations that move over: what `berth convert` prints compiles to what the configuration itself compiles to, and what it
//! prints on the way back says the same again.

use super::cluster::draw_cluster;
use berth::cli::{converted, converted_back, inputs_from};
use berth_core::profile::CompiledProfile;
use std::sync::Arc;

/// Seeds looked at; every other one has a configuration.
const SEEDS: u64 = 600;

/// The profiles of a text, those that are called after the default scheduler as `berth convert` calls them.
fn profiles(name: &str, text: &str) -> Vec<CompiledProfile> {
    let inputs = inputs_from(name, text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let own = |profile: Arc<CompiledProfile>| {
        let name = if &*profile.name == "default-scheduler" { "default".into() } else { profile.name.clone() };
        CompiledProfile { name, ..(*profile).clone() }
    };
    let mut profiles: Vec<CompiledProfile> = inputs.profiles.into_iter().map(own).collect();
    profiles.sort_by(|a, b| a.name.cmp(&b.name));
    profiles
}

#[test]
fn a_converted_configuration_is_the_same_configuration() {
    let mut compared = 0;
    for config in (0..SEEDS).filter_map(|seed| draw_cluster(seed).config) {
        let text = config.to_string();
        let want = profiles("config.json", &text);
        let printed = converted("config.json", &text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(profiles("profiles.yaml", &printed), want, "{text}\n{printed}");
        let back = converted_back("config.json", &text).unwrap_or_else(|error| panic!("{error}: {text}")).to_string();
        assert_eq!(profiles("config.json", &back), want, "{text}\n{back}");
        compared += 1;
    }
    assert!(compared > 100, "only {compared} configurations drawn");
}
