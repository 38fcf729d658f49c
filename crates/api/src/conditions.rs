//! Condition types of a profile, their closed sets of reasons, and how a condition is set.
//!
//! Each type has an enum of reasons of its own, and each reason fixes the condition's status: `Ready` can carry no reason
//! of `Accepted`, and nothing can say `True` with a reason that means `False`. Reasons are metric labels too, so the sets
//! stay small. `docs/conditions.md` has a section for each.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// Longest message that is written, in bytes; the API conventions allow 32,768.
pub const MAX_MESSAGE_BYTES: usize = 2_048;

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known.
    Unknown,
}

impl Status {
    /// The status as written in a condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A reason that a condition of one type can carry.
pub trait Reason: Copy {
    /// The type of condition that it belongs to.
    const TYPE: ConditionType;

    /// The reason as written in a condition and in metric labels.
    fn as_str(&self) -> &'static str;

    /// The status that the condition has for this reason.
    fn status(&self) -> Status;
}

/// Declares the types of conditions, in the order in which they are written, and the closed set of reasons of each:
/// `Variant => Status`.
macro_rules! conditions {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident => $status:ident,)+ })+) => {
        /// The types of conditions that a profile has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ConditionType {
            $($(#[$doc])* $name,)+
        }

        impl ConditionType {
            /// Every type, in the order in which they are written.
            pub const ALL: [Self; [$(Self::$name),+].len()] = [$(Self::$name),+];

            /// The type as written in a condition.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// The reasons that a condition of this type can carry.
            pub fn reasons(self) -> Vec<&'static str> {
                match self {
                    $(Self::$name => $name::ALL.iter().map(|reason| reason.as_str()).collect(),)+
                }
            }
        }

        $(
            #[doc = concat!("Reasons of the condition `", stringify!($name), "`.")]
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            pub enum $name {
                $($(#[$variant_doc])* $variant,)+
            }

            impl $name {
                /// Every reason of this type.
                pub const ALL: [Self; [$(Self::$variant),+].len()] = [$(Self::$variant),+];

                /// The reason as written in a condition and in metric labels.
                pub const fn as_str(self) -> &'static str {
                    match self {
                        $(Self::$variant => stringify!($variant),)+
                    }
                }
            }

            impl Reason for $name {
                const TYPE: ConditionType = ConditionType::$name;

                fn as_str(&self) -> &'static str {
                    Self::as_str(*self)
                }

                fn status(&self) -> Status {
                    match self {
                        $(Self::$variant => Status::$status,)+
                    }
                }
            }
        )+
    };
}

conditions! {
    /// The leader runs a worker for this generation, and it does what the spec asks.
    Ready {
        /// The worker of this generation schedules.
        Serving => True,
        /// `spec.mode` is Paused: pods stay queued, as the spec asks. True, since tools that wait for a rollout go by it.
        Paused => True,
        /// `spec.mode` is DryRun: pods of other schedulers are compared and nothing is written to them, as the spec asks.
        DryRun => True,
        /// The spec was refused, and no earlier one serves.
        NotAccepted => False,
        /// The spec was refused; the last one that compiled serves.
        ServingLastGood => False,
        /// The worker is not started yet, or ended in error.
        WorkerNotRunning => False,
        /// No process leads at present.
        AwaitingLeader => False,
        /// The profile is being deleted and its worker ends.
        Deleting => False,
        /// No operator has seen the profile; the API server writes it, as the default of the status.
        Pending => Unknown,
    }
    /// The spec is valid and nothing in the cluster stands against it.
    Accepted {
        /// The spec is valid.
        Accepted => True,
        /// Another profile serves the same scheduler name.
        SchedulerNameConflict => False,
        /// `default-scheduler` is asked for, and the operator was not started to serve it.
        ReservedSchedulerName => False,
        /// A field's value cannot be used.
        InvalidArgs => False,
        /// A selector or an affinity cannot be used.
        InvalidSelector => False,
        /// The pods of the changed spec fared worse in its rollout, which was broken off.
        RolloutAborted => False,
        /// There are more profiles than one operator serves.
        TooManyProfiles => False,
        /// No operator has seen the profile; the API server writes it, as the default of the status.
        Pending => Unknown,
    }
    /// Everything that the spec refers to was found.
    ResolvedRefs {
        /// Everything that the spec refers to is there.
        ResolvedRefs => True,
        /// The spec refers to nothing.
        NoRefs => True,
        /// A Secret in the operator's namespace is not there.
        SecretNotFound => False,
        /// A Secret does not permit this profile to use it, or is of a type that no extender may use.
        SecretNotPermitted => False,
        /// A ConfigMap in the operator's namespace is not there.
        ConfigMapNotFound => False,
        /// A Secret or ConfigMap lacks the key.
        KeyMissing => False,
        /// A certificate or key cannot be read.
        InvalidCertificate => False,
    }
    /// A worker runs with this spec.
    Programmed {
        /// A worker runs with this spec.
        Programmed => True,
        /// The spec is not yet given to a worker.
        Pending => Unknown,
        /// The worker waits for the first read of pods and nodes.
        WarmingCache => False,
        /// No process leads at present.
        AwaitingLeader => False,
        /// The worker ended in error, or could not be started.
        WorkerFailed => False,
        /// The worker has been in one step for tens of seconds.
        WorkerHung => False,
        /// The API server refuses the operator a request that it needs.
        PermissionDenied => False,
        /// The custom resource definition in the cluster lacks fields that this operator knows.
        CRDOutdated => False,
        /// The worker gives back what it has not sent, and ends.
        Draining => False,
    }
    /// The extenders answer.
    ExtendersHealthy {
        /// Every extender answers.
        AllHealthy => True,
        /// The profile has no extenders.
        NoExtenders => True,
        /// No extender was asked yet.
        NotYetProbed => Unknown,
        /// An extender failed five times in a row; its circuit is open.
        CircuitOpen => False,
        /// An extender does not answer in time.
        Timeout => False,
        /// An extender cannot be reached.
        Unreachable => False,
        /// An extender's certificate is not accepted, or it does not accept ours.
        TLSFailure => False,
        /// An extender refuses our credentials.
        Unauthorized => False,
        /// An extender's answer does not follow the protocol.
        InvalidResponse => False,
        /// An extender's address may not be connected to: an option of the operator decides.
        AddressRefused => False,
        /// The pods behind an extender wait for this very profile.
        SelfDependency => False,
    }
    /// New pods of the namespaces that `spec.namespaces.route` selects get this profile.
    NamespacesRouted {
        /// The chart's admission policy gives new pods of these namespaces the profile's scheduler name.
        Routed => True,
        /// `spec.namespaces.route` is absent.
        NoRoute => True,
        /// An older profile gets the pods of some of the namespaces.
        OlderProfileRoutes => False,
        /// The operator was not told that the admission policy is installed.
        PolicyNotInstalled => False,
        /// The API server serves no MutatingAdmissionPolicy.
        PolicyNotSupported => False,
        /// The profile serves no scheduler name that pods could get.
        NotServing => False,
    }
    /// Pods find nodes.
    SchedulingHealthy {
        /// Pods are placed as they come.
        KeepingUp => True,
        /// No pod waits.
        Idle => True,
        /// Pods wait that fit nowhere, or wait long.
        Backlog => False,
        /// `spec.nodes.selector` matches no node.
        NoMatchingNodes => False,
        /// Another scheduler binds pods of this profile's name.
        AnotherSchedulerServes => False,
        /// Two claims hold one device, and a pod of this profile uses one of them: another scheduler allocates from the same pool.
        DeviceAllocatedTwice => False,
        /// Pods were evicted to make room, and another scheduler took it each time, or an extender refused the node: no more are, for a while.
        PreemptionStorm => False,
        /// The watch of pods or nodes is behind, so that nothing is bound.
        StaleCache => False,
        /// No worker schedules, so nothing can be said.
        NotServing => Unknown,
    }
    /// The operator is about to put a spec in force (True is not the usual state).
    Reconciling {
        /// A changed spec is being put in force.
        ApplyingRevision => True,
        /// A changed spec is tried on a share of the pods.
        RollingOut => True,
        /// Nothing is left to do.
        Settled => False,
    }
    /// The operator cannot go on before the spec changes (True is not the usual state).
    Stalled {
        /// The spec was refused; nothing happens before it changes.
        InvalidSpec => True,
        /// Nothing stands in the way.
        Settled => False,
    }
}

/// Sets the condition that `reason` belongs to, and says whether anything changed.
///
/// `now` becomes `lastTransitionTime` only where the status changes, as the API conventions ask. A message longer than
/// [`MAX_MESSAGE_BYTES`] is cut. Conditions stand in the order of [`ConditionType::ALL`]; those of types that are not
/// ours keep their places at the end.
pub fn set_condition<R: Reason>(
    conditions: &mut Vec<Condition>,
    reason: R,
    message: &str,
    observed_generation: i64,
    now: Timestamp,
) -> bool {
    let mut wanted = Condition {
        type_: R::TYPE.as_str().to_owned(),
        status: reason.status().as_str().to_owned(),
        reason: reason.as_str().to_owned(),
        message: cut(message, MAX_MESSAGE_BYTES).to_owned(),
        observed_generation: Some(observed_generation),
        last_transition_time: Time(now),
    };
    if let Some(present) = conditions.iter_mut().find(|condition| condition.type_ == wanted.type_) {
        if present.status == wanted.status {
            wanted.last_transition_time = present.last_transition_time.clone();
        }
        let changed = *present != wanted;
        *present = wanted;
        return changed;
    }
    let place = conditions.iter().position(|condition| rank(&condition.type_) > rank(&wanted.type_));
    conditions.insert(place.unwrap_or(conditions.len()), wanted);
    true
}

fn rank(kind: &str) -> usize {
    ConditionType::ALL.iter().position(|known| known.as_str() == kind).unwrap_or(usize::MAX)
}

/// The longest prefix of `text` that has at most `limit` bytes and ends between two characters.
fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        assert!(set_condition(&mut conditions, Ready::NotAccepted, "a", 1, at(10)));
        assert!(set_condition(&mut conditions, Ready::ServingLastGood, "b", 2, at(20)));
        assert_eq!(conditions[0].last_transition_time, Time(at(10)));
        assert_eq!((conditions[0].reason.as_str(), conditions[0].message.as_str()), ("ServingLastGood", "b"));
        assert!(set_condition(&mut conditions, Ready::Serving, "b", 2, at(30)));
        assert_eq!(conditions[0].last_transition_time, Time(at(30)));
        assert_eq!(conditions[0].status, "True");
    }

    #[test]
    fn nothing_new_is_no_change() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, Ready::Serving, "a", 1, at(10));
        let before = conditions.clone();
        assert!(!set_condition(&mut conditions, Ready::Serving, "a", 1, at(99)));
        assert_eq!(conditions, before);
        assert!(set_condition(&mut conditions, Ready::Serving, "a", 2, at(99)), "a new generation is a change");
    }

    #[test]
    fn conditions_stand_in_their_order() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, Stalled::Settled, "", 1, at(1));
        conditions.push(Condition { type_: "example.com/Other".into(), ..conditions[0].clone() });
        set_condition(&mut conditions, Accepted::Accepted, "", 1, at(1));
        set_condition(&mut conditions, Ready::Serving, "", 1, at(1));
        let types: Vec<_> = conditions.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(types, ["Ready", "Accepted", "Stalled", "example.com/Other"]);
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, Ready::Serving, &"…".repeat(MAX_MESSAGE_BYTES), 1, at(1));
        assert_eq!(conditions[0].message.len(), MAX_MESSAGE_BYTES / 3 * 3);
    }
}
