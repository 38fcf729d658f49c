//! Which profile serves which scheduler name. Pure.

use berth_api::DEFAULT_SCHEDULER_NAME;
use berth_core::{limits::PROFILES, model::Str};
use std::collections::BTreeMap;

/// The scheduler names that one profile asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) profile: Str,
    /// When the profile was created; 0 if unknown.
    pub(super) created_unix_s: i64,
    pub(super) names: Vec<Str>,
    /// The names of the last good spec, where `names` are those of a newer one.
    pub(super) last_good: Option<Vec<Str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NameState {
    Serving,
    /// This other profile serves it.
    Conflict(Str),
    /// `default-scheduler`, without the option to serve it.
    Reserved,
}

/// Names with their states, in the order asked.
type Names = Vec<(Str, NameState)>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Grant {
    Names(Names),
    /// The present spec asks for names that it does not get, and the last good spec serves on.
    LastGood {
        /// Names of the present spec that it does not get.
        refused: Names,
        /// Names of the last good spec.
        names: Names,
    },
    /// There are more profiles than one process serves, and this is one of the youngest.
    TooMany,
}

impl Grant {
    /// The outcome for a profile that claims nothing.
    pub(super) const NOTHING: Self = Self::Names(Vec::new());

    pub(super) fn served(&self) -> Vec<Str> {
        let serving = self.names().filter(|(_, state)| *state == NameState::Serving);
        serving.map(|(name, _)| name.clone()).collect()
    }

    /// Every name with its state: first those of the spec that serves.
    pub(super) fn names(&self) -> impl Iterator<Item = &(Str, NameState)> {
        let (names, refused): (&[_], &[_]) = match self {
            Self::Names(names) => (names, &[]),
            Self::LastGood { refused, names } => (names, refused),
            Self::TooMany => (&[], &[]),
        };
        names.iter().chain(refused)
    }

    /// The names that the present spec asks for and does not get.
    pub(super) fn refused(&self) -> impl Iterator<Item = &(Str, NameState)> {
        let names: &[_] = match self {
            Self::Names(names) => names,
            Self::LastGood { refused, .. } => refused,
            Self::TooMany => &[],
        };
        names.iter().filter(|(_, state)| *state != NameState::Serving)
    }

    /// Whether the present spec gets all that it asks for.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Names(names) if !names.is_empty()) && self.refused().next().is_none()
    }
}

/// Which profile serves each name.
pub(super) type Incumbents = BTreeMap<Str, Str>;

/// Grants each name to one profile that asks for it: to its incumbent, or else to the oldest profile; among equally old
/// profiles their names decide. A profile that does not get all names of its present spec keeps those of its last good spec:
/// no edit takes a name away, neither from another profile nor from the pods of the profile's own.
pub(super) fn grant(mut claims: Vec<Claim>, incumbents: &Incumbents, serve_default: bool) -> BTreeMap<Str, Grant> {
    claims.sort_by(|a, b| (a.created_unix_s, &a.profile).cmp(&(b.created_unix_s, &b.profile)));
    let mut grants: BTreeMap<Str, Grant> =
        claims.split_off(PROFILES.min(claims.len())).into_iter().map(|claim| (claim.profile, Grant::TooMany)).collect();
    let mut refused: BTreeMap<Str, Names> = BTreeMap::new();
    let round = |refused: &BTreeMap<Str, Names>| {
        let asked = |claim: &Claim| -> Vec<Str> {
            let last_good = claim.last_good.as_ref().filter(|_| refused.contains_key(&claim.profile));
            last_good.unwrap_or(&claim.names).clone()
        };
        let asked: Vec<(&Str, Vec<Str>)> = claims.iter().map(|claim| (&claim.profile, asked(claim))).collect();
        let owners = owners(&asked, incumbents);
        let state = |profile: &Str, name: &Str| match owners.get(name) {
            _ if &**name == DEFAULT_SCHEDULER_NAME && !serve_default => NameState::Reserved,
            Some(owner) if *owner != profile => NameState::Conflict((*owner).clone()),
            _ => NameState::Serving,
        };
        let states = |(profile, names): &(&Str, Vec<Str>)| -> Names {
            names.iter().map(|name| (name.clone(), state(profile, name))).collect()
        };
        asked.iter().map(states).collect::<Vec<Names>>()
    };
    // One profile after the other goes back to its last good spec: the names that it gives up may be enough for the next.
    let states = loop {
        let states = round(&refused);
        let is_short = |(claim, names): &(&Claim, &Names)| {
            let has_other = claim.last_good.is_some() && !refused.contains_key(&claim.profile);
            has_other && names.iter().any(|(_, state)| *state != NameState::Serving)
        };
        let Some((claim, names)) = claims.iter().zip(&states).find(is_short) else { break states };
        let lacking = names.iter().filter(|(_, state)| *state != NameState::Serving).cloned().collect();
        refused.insert(claim.profile.clone(), lacking);
    };
    for (claim, names) in claims.iter().zip(states) {
        let grant = match refused.remove(&claim.profile) {
            Some(refused) => Grant::LastGood { refused, names },
            None => Grant::Names(names),
        };
        grants.insert(claim.profile.clone(), grant);
    }
    grants
}

/// Who gets each name: the incumbent if it asks for it, or else the first who does.
fn owners<'a>(asked: &'a [(&'a Str, Vec<Str>)], incumbents: &Incumbents) -> BTreeMap<&'a Str, &'a Str> {
    let mut owners: BTreeMap<&Str, &Str> = BTreeMap::new();
    for (profile, names) in asked {
        for name in names {
            if incumbents.get(name) == Some(*profile) {
                owners.insert(name, profile);
            } else {
                owners.entry(name).or_insert(profile);
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Str> {
        names.iter().map(|name| (*name).into()).collect()
    }

    fn claim(profile: &str, created: i64, asked: &[&str]) -> Claim {
        Claim { profile: profile.into(), created_unix_s: created, names: names(asked), last_good: None }
    }

    fn edited(profile: &str, created: i64, asked: &[&str], last_good: &[&str]) -> Claim {
        Claim { last_good: Some(names(last_good)), ..claim(profile, created, asked) }
    }

    fn incumbents(all: &[(&str, &str)]) -> Incumbents {
        all.iter().map(|(name, profile)| ((*name).into(), (*profile).into())).collect()
    }

    fn served(grants: &BTreeMap<Str, Grant>, profile: &str) -> Vec<String> {
        grants[profile].served().iter().map(ToString::to_string).collect()
    }

    fn granted(claims: Vec<Claim>, serve_default: bool) -> BTreeMap<Str, Grant> {
        grant(claims, &Incumbents::new(), serve_default)
    }

    #[test]
    fn the_older_profile_serves_and_the_younger_learns_its_name() {
        let grants = granted(vec![claim("young", 20, &["x", "y"]), claim("old", 10, &["x"])], false);
        assert_eq!(served(&grants, "old"), ["x"]);
        assert_eq!(
            grants["young"],
            Grant::Names(vec![("x".into(), NameState::Conflict("old".into())), ("y".into(), NameState::Serving)])
        );
        assert!(grants["old"].is_full() && !grants["young"].is_full() && !Grant::NOTHING.is_full());
    }

    #[test]
    fn among_equally_old_ones_the_name_decides() {
        let grants = granted(vec![claim("b", 10, &["x"]), claim("a", 10, &["x"])], false);
        assert_eq!((served(&grants, "a"), served(&grants, "b")), (vec!["x".to_owned()], vec![]));
    }

    #[test]
    fn who_serves_a_name_keeps_it_when_an_older_profile_is_edited_to_ask_for_it() {
        let incumbents = incumbents(&[("x", "young"), ("old", "old")]);
        let claims = vec![edited("old", 10, &["old", "x"], &["old"]), claim("young", 20, &["x"])];
        let grants = grant(claims, &incumbents, false);
        assert_eq!((served(&grants, "old"), served(&grants, "young")), (vec!["old".to_owned()], vec!["x".to_owned()]));
        let refused: Vec<_> = grants["old"].refused().cloned().collect();
        assert_eq!(refused, [("x".into(), NameState::Conflict("young".into()))]);
        // Once its incumbent gives the name up, the edit is granted.
        let claims = vec![edited("old", 10, &["old", "x"], &["old"]), claim("young", 20, &["y"])];
        let grants = grant(claims, &incumbents, false);
        assert_eq!(served(&grants, "old"), ["old", "x"]);
        assert!(grants["old"].is_full());
    }

    #[test]
    fn a_spec_that_does_not_get_its_names_leaves_those_of_the_last_good_one_served() {
        let incumbents = incumbents(&[("a", "a"), ("b", "b")]);
        let claims = vec![edited("a", 10, &["default-scheduler"], &["a"]), edited("b", 20, &["a"], &["b"])];
        let grants = grant(claims, &incumbents, false);
        assert_eq!((served(&grants, "a"), served(&grants, "b")), (vec!["a".to_owned()], vec!["b".to_owned()]));
        assert_eq!(grants["a"].refused().next().unwrap().1, NameState::Reserved);
        assert_eq!(grants["b"].refused().next().unwrap().1, NameState::Conflict("a".into()));
        assert_eq!(grants["b"].names().count(), 2, "what serves, and what is refused");
    }

    #[test]
    fn names_that_a_refused_spec_gives_up_are_enough_for_the_next_profile() {
        let incumbents = incumbents(&[("old", "old"), ("x", "x"), ("young", "young")]);
        let claims = vec![
            edited("old", 10, &["x", "new"], &["old"]),
            claim("x", 20, &["x"]),
            edited("young", 30, &["young", "new"], &["young"]),
        ];
        let grants = grant(claims, &incumbents, false);
        assert_eq!(served(&grants, "old"), ["old"]);
        assert_eq!(served(&grants, "young"), ["young", "new"]);
    }

    #[test]
    fn default_scheduler_needs_the_option() {
        let claims = || vec![claim("a", 1, &["default-scheduler", "a"])];
        assert_eq!(served(&granted(claims(), false), "a"), ["a"]);
        assert_eq!(served(&granted(claims(), true), "a"), ["default-scheduler", "a"]);
    }

    #[test]
    fn the_youngest_profiles_get_no_name_when_there_are_too_many() {
        let claims = (0..=PROFILES).map(|i| claim(&format!("p{i}"), i as i64, &[&format!("n{i}")])).collect();
        let grants = granted(claims, false);
        assert_eq!(grants[&*format!("p{PROFILES}")], Grant::TooMany);
        assert_eq!(grants.values().filter(|g| g.served().len() == 1).count(), PROFILES);
    }
}
