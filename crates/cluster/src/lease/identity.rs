use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// Who this process is in the Lease: the name of its pod or host, and a part that no other process has.
///
/// Printed as `berth-0_3f2a9c1e-77ab01cd` in a pod (name, first part of the pod's uid, this process) and as
/// `host_77ab01cd` outside of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    name: String,
    /// The first part of the pod's uid; empty outside a pod.
    pod: String,
    process: u32,
}

impl Identity {
    /// A new identity for this process. `pod_uid` is empty outside a pod.
    pub fn new(name: &str, pod_uid: &str) -> Self {
        let pod = pod_uid.split('-').next().unwrap_or_default();
        // The keys of a `RandomState` come from the operating system's random source.
        let process = RandomState::new().hash_one(std::process::id()) as u32;
        Self { name: name.to_owned(), pod: pod.to_owned(), process }
    }

    /// The name without the part that is this process' own: what the events of every process of this pod or host share.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether `holder` was an earlier container of this process' own pod. The kubelet starts a container after the one
    /// before it has ended, so that one is dead.
    pub fn is_successor_of(&self, holder: &str) -> bool {
        let (pod, process) = (format!("{}_{}-", self.name, self.pod), self.to_string());
        !self.pod.is_empty() && holder.starts_with(&pod) && holder != process
    }

    /// Whether `holder` is a pod of the same Deployment by its name: the Deployment's, and the two parts that Kubernetes adds.
    /// Two installations may share a name, so this is asked only where nothing better is known.
    pub fn is_sibling_of(&self, holder: &str) -> bool {
        let deployment = |pod: &str| {
            let (of_set, _) = pod.rsplit_once('-')?;
            of_set.rsplit_once('-').map(|(deployment, _)| deployment.to_owned())
        };
        let pod = holder.split('_').next().unwrap_or_default();
        !self.pod.is_empty() && deployment(&self.name).is_some_and(|own| deployment(pod) == Some(own))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.pod.is_empty() { "" } else { "-" };
        write!(f, "{}_{}{separator}{:08x}", self.name, self.pod, self.process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_processes_share_one() {
        let (one, two) = (Identity::new("vm", ""), Identity::new("vm", ""));
        assert_ne!(one, two);
        assert!(one.to_string().starts_with("vm_") && one.to_string().len() == 11, "{one}");
        assert!(!one.is_successor_of(&two.to_string()), "outside a pod nothing says that the other has ended");
    }

    #[test]
    fn pods_of_one_deployment_are_siblings() {
        let uid = "3f2a9c1e-0000-4000-8000-000000000001";
        let own = Identity::new("my-berth-7c9f8d-x2x4z", uid);
        for (holder, is_sibling) in [
            ("my-berth-66bd4f-aaaaa_11111111-77ab01cd", true),
            ("my-berth-7c9f8d-x2x4z_3f2a9c1e-00000000", true),
            ("berth-66bd4f-aaaaa_11111111-77ab01cd", false),
            ("berth_77ab01cd", false),
            ("", false),
        ] {
            assert_eq!(own.is_sibling_of(holder), is_sibling, "{holder}");
        }
        assert!(!Identity::new("berth-0", uid).is_sibling_of("berth-1_11111111-77ab01cd"), "of no Deployment");
    }

    #[test]
    fn a_restarted_container_knows_the_one_before_it() {
        let uid = "3f2a9c1e-0000-4000-8000-000000000001";
        let (old, new) = (Identity::new("berth-0", uid), Identity::new("berth-0", uid));
        assert!(old.to_string().starts_with("berth-0_3f2a9c1e-"), "{old}");
        assert!(new.is_successor_of(&old.to_string()) && !new.is_successor_of(&new.to_string()));
        let elsewhere = Identity::new("berth-0", "77777777-0000-4000-8000-000000000001");
        assert!(!new.is_successor_of(&elsewhere.to_string()));
    }
}
