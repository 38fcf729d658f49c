//! Which profile the new pods of a namespace get although they name none, as far as the operator has a say: it writes into a
//! profile's status what the chart's admission policy goes by, and tells where an older profile is in the way. The API server alone gives
//! a pod its scheduler name; `docs/namespaces.md` says how. Pure.

use berth_api::conditions::NamespacesRouted;
use berth_api::{DEFAULT_SCHEDULER_NAME, Namespaces, RouteStatus, SchedulerProfileSpec};
use berth_core::model::{LabelSelector, Labels, Str};
use berth_core::profile::NamespaceAccess;
use berth_profile::routed_namespaces;
use std::collections::BTreeMap;

/// The route of a spec that compiled.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Route {
    selector: LabelSelector,
    /// As written, for the status.
    namespaces: Namespaces,
}

impl Route {
    /// `None` without a route.
    pub(super) fn of(spec: &SchedulerProfileSpec) -> Option<Self> {
        let selector = routed_namespaces(spec).ok().flatten()?;
        Some(Self { selector, namespaces: spec.namespaces.clone() })
    }
}

/// The route of a profile that is in force.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RouteClaim {
    pub(super) profile: Str,
    pub(super) created_unix_s: i64,
    pub(super) selector: LabelSelector,
    pub(super) access: NamespaceAccess,
}

/// How a route fares among the namespaces that there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Routed {
    /// Namespaces whose pods get the profile.
    pub(super) namespaces: usize,
    /// Namespaces that it selects and whose pods an older profile gets.
    pub(super) lost: usize,
    /// The first of the lost ones in the order of the alphabet, with the profile that gets its pods.
    pub(super) example: Option<(Str, Str)>,
}

/// What all routes depend on.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Routing {
    /// Whether the operator was told that the policy is installed. It may not look for it.
    pub(super) installed: bool,
    /// Whether the API server was found to serve no such policies.
    pub(super) unsupported: bool,
    pub(super) routed: BTreeMap<Str, Routed>,
}

/// What a status says of a profile's route.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RouteFacts {
    /// What the policy goes by.
    pub(super) in_force: Option<RouteStatus>,
    pub(super) reason: NamespacesRouted,
    pub(super) message: String,
}

/// Judges the `route` of the spec by which `profile` serves the scheduler names `served`. `asked`: whether its present spec has a route.
pub(super) fn judge(
    profile: &str,
    asked: bool,
    route: Option<&Route>,
    served: &[Str],
    routing: &Routing,
) -> RouteFacts {
    let none = |reason, message: &str| RouteFacts { in_force: None, reason, message: message.to_owned() };
    let Some(route) = route else {
        return if asked {
            none(NamespacesRouted::NotServing, "the spec with this route does not serve")
        } else {
            none(NamespacesRouted::NoRoute, "spec.namespaces.route is absent")
        };
    };
    let Some(name) = given_name(profile, served) else {
        return none(NamespacesRouted::NotServing, "the profile serves no scheduler name that pods could get");
    };
    if routing.unsupported {
        return none(
            NamespacesRouted::PolicyNotSupported,
            "the API server serves no MutatingAdmissionPolicy: Kubernetes has it from 1.36 on; until then pods name the profile themselves",
        );
    }
    if !routing.installed {
        return none(
            NamespacesRouted::PolicyNotInstalled,
            "the operator runs without --namespace-routing: install the chart with namespaceRouting.enabled=true, which adds the admission policy",
        );
    }
    let (reason, message) = fares(name, routing.routed.get(profile));
    let in_force = RouteStatus { scheduler_name: name.to_string(), namespaces: route.namespaces.clone() };
    RouteFacts { in_force: Some(in_force), reason, message }
}

/// The scheduler name that routed pods get: the profile's own, or else the first that it serves.
fn given_name<'a>(profile: &str, served: &'a [Str]) -> Option<&'a Str> {
    let could = || served.iter().filter(|name| &***name != DEFAULT_SCHEDULER_NAME);
    could().find(|name| &***name == profile).or_else(|| could().min())
}

fn fares(name: &str, routed: Option<&Routed>) -> (NamespacesRouted, String) {
    let Some(routed) = routed else {
        let text = format!("new pods of the selected namespaces that name no scheduler get schedulerName {name}");
        return (NamespacesRouted::Routed, text);
    };
    let Routed { namespaces, lost, example } = routed;
    let counted = |n: usize| format!("{n} {}", if n == 1 { "namespace" } else { "namespaces" });
    let get = format!("new pods of {} that name no scheduler get schedulerName {name}", counted(*namespaces));
    let Some((namespace, older)) = example else { return (NamespacesRouted::Routed, get) };
    let text = format!(
        "{} that spec.namespaces.route selects go to an older profile, such as {namespace} to {older}: narrow one of the two selectors; {get}",
        counted(*lost)
    );
    (NamespacesRouted::OlderProfileRoutes, text)
}

/// The `route` of the spec by which a profile serves the names `served`, as others see it; `None` where it is not in force.
pub(super) fn claim(
    profile: &Str,
    created_unix_s: i64,
    route: &Route,
    access: &NamespaceAccess,
    served: &[Str],
) -> Option<RouteClaim> {
    given_name(profile, served)?;
    let selector = route.selector.clone();
    Some(RouteClaim { profile: profile.clone(), created_unix_s, selector, access: access.clone() })
}

/// How each of `claims` fares among `namespaces`, of which the `spared` are left alone. O(claims · namespaces).
pub(super) fn look(
    mut claims: Vec<RouteClaim>,
    namespaces: &[(Str, Labels)],
    spared: &[&str],
) -> BTreeMap<Str, Routed> {
    // The policy compares creationTimestamp, in whole seconds, and then names.
    claims.sort_by(|a, b| (a.created_unix_s, &a.profile).cmp(&(b.created_unix_s, &b.profile)));
    let mut fare = vec![Routed::default(); claims.len()];
    for (namespace, labels) in namespaces.iter().filter(|(name, _)| !spared.contains(&&**name)) {
        let takes = |claim: &RouteClaim| claim.selector.matches(labels) && claim.access.admits(namespace, Some(labels));
        let mut takers = claims.iter().enumerate().filter(|(_, claim)| takes(claim)).map(|(index, _)| index);
        let Some(first) = takers.next() else { continue };
        fare[first].namespaces += 1;
        for loser in takers {
            fare[loser].lost += 1;
            if fare[loser].example.as_ref().is_none_or(|(known, _)| namespace < known) {
                fare[loser].example = Some((namespace.clone(), claims[first].profile.clone()));
            }
        }
    }
    claims.into_iter().map(|claim| claim.profile).zip(fare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A spec's route and access.
    fn spec(spec: Value) -> (Route, NamespaceAccess) {
        let spec: SchedulerProfileSpec = serde_json::from_value(spec).unwrap();
        (Route::of(&spec).unwrap(), berth_profile::compile("gold", &spec).unwrap().namespaces)
    }

    fn routing_all() -> Value {
        json!({"namespaces": {"route": {"selector": {}}}})
    }

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels::from_pairs(pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())))
    }

    const INSTALLED: Routing = Routing { installed: true, unsupported: false, routed: BTreeMap::new() };

    #[test]
    fn a_route_is_in_force_where_a_served_spec_has_one_and_the_policy_is_there() {
        let (route, _) = spec(routing_all());
        assert_eq!(Route::of(&SchedulerProfileSpec::default()), None);
        let names: [Str; 1] = ["gold".into()];
        let rows = [
            ("no route", false, None, &names[..], INSTALLED, NamespacesRouted::NoRoute),
            ("nothing serves, or an earlier spec", true, None, &names[..], INSTALLED, NamespacesRouted::NotServing),
            ("no name", true, Some(&route), &names[..0], INSTALLED, NamespacesRouted::NotServing),
            ("not told", true, Some(&route), &names[..], Routing::default(), NamespacesRouted::PolicyNotInstalled),
            (
                "not served",
                true,
                Some(&route),
                &names[..],
                Routing { unsupported: true, ..INSTALLED },
                NamespacesRouted::PolicyNotSupported,
            ),
            ("all there", true, Some(&route), &names[..], INSTALLED, NamespacesRouted::Routed),
            // The last good spec routes on, although the present one asks for nothing.
            ("an earlier route serves", false, Some(&route), &names[..], INSTALLED, NamespacesRouted::Routed),
        ];
        for (what, asked, route, names, routing, want) in rows {
            let facts = judge("gold", asked, route, names, &routing);
            assert_eq!(facts.reason, want, "{what}: {}", facts.message);
            assert_eq!(facts.in_force.is_some(), want == NamespacesRouted::Routed, "{what}");
        }
    }

    #[test]
    fn pods_get_the_profiles_own_name_or_the_first_that_it_serves() {
        let served = |names: &[&str]| -> Vec<Str> { names.iter().map(|name| (*name).into()).collect() };
        let given = |names: &[&str]| given_name("gold", &served(names)).map(ToString::to_string);
        assert_eq!(given(&["a", "gold"]).as_deref(), Some("gold"));
        assert_eq!(given(&["z", "default-scheduler", "b"]).as_deref(), Some("b"));
        assert_eq!(given(&["default-scheduler"]), None);
    }

    #[test]
    fn of_two_profiles_the_older_gets_a_namespace_and_the_younger_says_which_it_lost() {
        let (route, access) = spec(routing_all());
        let all = |profile: &str, created| claim(&profile.into(), created, &route, &access, &["x".into()]).unwrap();
        let gold = RouteClaim { selector: LabelSelector::from(&labels(&[("tier", "gold")])), ..all("gold", 10) };
        let namespaces = [
            ("b".into(), labels(&[("tier", "gold")])),
            ("a".into(), labels(&[("tier", "gold")])),
            ("c".into(), Labels::none()),
            ("kube-system".into(), labels(&[("tier", "gold")])),
            ("berth".into(), Labels::none()),
        ];
        let fare = look(vec![all("young", 20), gold.clone()], &namespaces, &["kube-system", "berth"]);
        assert_eq!(fare["gold"], Routed { namespaces: 2, ..Routed::default() });
        assert_eq!(fare["young"], Routed { namespaces: 1, lost: 2, example: Some(("a".into(), "gold".into())) });
        let (reason, text) = fares("young", Some(&fare["young"]));
        assert_eq!(reason, NamespacesRouted::OlderProfileRoutes);
        assert!(text.contains("2 namespaces") && text.contains("such as a to gold"), "{text}");
        assert!(text.ends_with("new pods of 1 namespace that name no scheduler get schedulerName young"), "{text}");
        // Equally old: the name decides.
        let fare = look(vec![all("b", 10), all("a", 10)], &namespaces[..1], &[]);
        assert_eq!((fare["a"].namespaces, fare["b"].lost), (1, 1));
    }

    #[test]
    fn a_namespace_without_access_is_not_routed() {
        let route = json!({"selector": {}});
        let restricted = json!({"access": "Restricted", "names": ["a"], "matchLabels": {"team": "x"}, "route": route});
        let (route, access) = spec(json!({"namespaces": restricted}));
        let claim = claim(&"gold".into(), 1, &route, &access, &["gold".into()]).unwrap();
        let namespaces =
            [("a".into(), Labels::none()), ("b".into(), labels(&[("team", "x")])), ("c".into(), Labels::none())];
        assert_eq!(look(vec![claim], &namespaces, &[])["gold"].namespaces, 2);
    }
}
