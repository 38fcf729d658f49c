//! Which profile serves which scheduler name. Pure.

use berth_api::DEFAULT_SCHEDULER_NAME;
use berth_core::limits::PROFILES;
use berth_core::model::Str;
use std::collections::BTreeMap;

/// The scheduler names that one profile asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) profile: Str,
    /// Of the profile; 0 if unknown.
    pub(super) created_unix_s: i64,
    pub(super) names: Vec<Str>,
}

/// The answer for one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NameState {
    /// The profile serves it.
    Serving,
    /// This older profile serves it.
    Conflict(Str),
    /// `default-scheduler`, without the option to serve it.
    Reserved,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Grant {
    /// In the order asked.
    Names(Vec<(Str, NameState)>),
    /// There are more profiles than one process serves, and this is one of the youngest.
    TooMany,
}

impl Grant {
    pub(super) fn served(&self) -> Vec<Str> {
        match self {
            Self::Names(names) => {
                names.iter().filter(|(_, state)| *state == NameState::Serving).map(|(name, _)| name.clone()).collect()
            }
            Self::TooMany => Vec::new(),
        }
    }
}

/// Gives each name to the oldest profile that asks for it; among equally old profiles their names decide.
pub(super) fn grant(mut claims: Vec<Claim>, serve_default: bool) -> BTreeMap<Str, Grant> {
    claims.sort_by(|a, b| (a.created_unix_s, &a.profile).cmp(&(b.created_unix_s, &b.profile)));
    let mut owners: BTreeMap<Str, Str> = BTreeMap::new();
    let mut grants = BTreeMap::new();
    for (place, claim) in claims.into_iter().enumerate() {
        if place >= PROFILES {
            grants.insert(claim.profile, Grant::TooMany);
            continue;
        }
        let mut names = Vec::with_capacity(claim.names.len());
        for name in claim.names {
            let state = if &*name == DEFAULT_SCHEDULER_NAME && !serve_default {
                NameState::Reserved
            } else {
                let owner = owners.entry(name.clone()).or_insert_with(|| claim.profile.clone());
                if *owner == claim.profile { NameState::Serving } else { NameState::Conflict(owner.clone()) }
            };
            names.push((name, state));
        }
        grants.insert(claim.profile, Grant::Names(names));
    }
    grants
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(profile: &str, created: i64, names: &[&str]) -> Claim {
        Claim { profile: profile.into(), created_unix_s: created, names: names.iter().map(|n| (*n).into()).collect() }
    }

    fn served(grants: &BTreeMap<Str, Grant>, profile: &str) -> Vec<String> {
        grants[profile].served().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_older_profile_serves_and_the_younger_learns_its_name() {
        let grants = grant(vec![claim("young", 20, &["x", "y"]), claim("old", 10, &["x"])], false);
        assert_eq!(served(&grants, "old"), ["x"]);
        assert_eq!(
            grants["young"],
            Grant::Names(vec![("x".into(), NameState::Conflict("old".into())), ("y".into(), NameState::Serving)])
        );
    }

    #[test]
    fn among_equally_old_ones_the_name_decides() {
        let grants = grant(vec![claim("b", 10, &["x"]), claim("a", 10, &["x"])], false);
        assert_eq!((served(&grants, "a"), served(&grants, "b")), (vec!["x".to_owned()], vec![]));
    }

    #[test]
    fn default_scheduler_needs_the_option() {
        let claims = || vec![claim("a", 1, &["default-scheduler", "a"])];
        assert_eq!(served(&grant(claims(), false), "a"), ["a"]);
        assert_eq!(served(&grant(claims(), true), "a"), ["default-scheduler", "a"]);
    }

    #[test]
    fn the_youngest_profiles_get_no_name_when_there_are_too_many() {
        let claims = (0..=PROFILES).map(|i| claim(&format!("p{i}"), i as i64, &[&format!("n{i}")])).collect();
        let grants = grant(claims, false);
        assert_eq!(grants[&*format!("p{PROFILES}")], Grant::TooMany);
        assert_eq!(grants.values().filter(|g| g.served().len() == 1).count(), PROFILES);
    }
}
