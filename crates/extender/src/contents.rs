//! The data of the Secrets and ConfigMaps that profiles name, and the profiles that may use it.
//!
//! Whoever writes a profile chooses the server that its Secrets are sent to. The operator may read every Secret of its
//! namespace, among them Helm's releases and pull secrets. So a Secret itself says which profiles may use it.

use berth_api::EXTENDER_PROFILES_ANNOTATION as ANNOTATION;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use std::collections::BTreeMap;

/// The data of a ConfigMap or Secret, by key. `Debug` shows the keys alone.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    data: BTreeMap<String, SecretSlice<u8>>,
    users: Users,
}

/// Who may use an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Users {
    /// Every profile: a ConfigMap is not confidential.
    #[default]
    All,
    /// No profile: a Secret of this type.
    None { kind: String },
    /// These profiles; the namespace is for the command that adds one.
    Profiles { names: Vec<String>, namespace: Option<String> },
}

/// Whether Secrets of this type are another component's credentials, which no extender needs.
fn is_foreign(kind: &str) -> bool {
    let kinds = [
        "kubernetes.io/service-account-token",
        "kubernetes.io/dockerconfigjson",
        "kubernetes.io/dockercfg",
        "bootstrap.kubernetes.io/token",
    ];
    kinds.contains(&kind) || kind.starts_with("helm.sh/")
}

impl Users {
    fn of_secret(kind: Option<&str>, metadata: &ObjectMeta) -> Self {
        if let Some(kind) = kind.filter(|kind| is_foreign(kind)) {
            return Self::None { kind: kind.to_owned() };
        }
        let listed = metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION)).map_or("", String::as_str);
        // What no profile is called is left out: the names go into a command that a user may copy.
        let is_name = |name: &&str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
        };
        let names = listed.split(',').map(str::trim).filter(is_name).map(str::to_owned).collect();
        Self::Profiles { names, namespace: metadata.namespace.clone() }
    }
}

impl Contents {
    pub fn of_config_map(map: ConfigMap) -> Self {
        Self { data: joined(map.binary_data, map.data), users: Users::All }
    }

    /// Reads a Secret as an API server has it, or as it is written in a manifest.
    pub fn of_secret(secret: Secret) -> Self {
        let users = Users::of_secret(secret.type_.as_deref(), &secret.metadata);
        Self { data: joined(secret.data, secret.string_data), users }
    }

    /// Why `profile` may not use the Secret `name` that this is, with the command that permits it.
    pub(super) fn refusal(&self, name: &str, profile: &str) -> Option<String> {
        match &self.users {
            Users::All => None,
            Users::None { kind } => Some(format!(
                "Secret {name} is of type {kind}, which no extender may use: copy what it needs into a Secret of its own"
            )),
            Users::Profiles { names, .. } if names.iter().any(|known| known == profile) => None,
            Users::Profiles { names, namespace } => {
                let namespace = namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}"));
                let names: Vec<&str> = names.iter().map(String::as_str).chain([profile]).collect();
                Some(format!(
                    "Secret {name} does not permit profile {profile} to use it: \
                     kubectl annotate secret {name}{namespace} --overwrite {ANNOTATION}={}",
                    names.join(",")
                ))
            }
        }
    }

    /// The text under a key; `None` if there is none, or an empty one.
    pub(super) fn text(&self, key: &str) -> Option<SecretString> {
        let text = std::str::from_utf8(self.data.get(key)?.expose_secret()).ok()?;
        (!text.is_empty()).then(|| text.into())
    }
}

/// One map of the two forms that values have.
fn joined(
    bytes: Option<BTreeMap<String, k8s_openapi::ByteString>>,
    texts: Option<BTreeMap<String, String>>,
) -> BTreeMap<String, SecretSlice<u8>> {
    let bytes = bytes.into_iter().flatten().map(|(key, value)| (key, value.0.into()));
    bytes.chain(texts.into_iter().flatten().map(|(key, text)| (key, text.into_bytes().into()))).collect()
}

/// Secrets have no equality of their own; here it tells whether an object has changed since it was read.
impl PartialEq for Contents {
    fn eq(&self, other: &Self) -> bool {
        self.users == other.users
            && self.data.len() == other.data.len()
            && (self.data.iter().zip(&other.data))
                .all(|((key, value), (k, v))| key == k && value.expose_secret() == v.expose_secret())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn secret(kind: &str, annotation: Option<&str>) -> Contents {
        let mut value = json!({"metadata": {"name": "s", "namespace": "berth-system"}, "type": kind,
            "data": {"token": "aHVzaA=="}, "stringData": {"more": "whisper"}});
        if let Some(profiles) = annotation {
            value["metadata"]["annotations"] = json!({ANNOTATION: profiles});
        }
        Contents::of_secret(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn a_secret_names_the_profiles_that_may_use_it() {
        for listed in ["gpu", "batch,gpu", " batch , gpu ,"] {
            assert_eq!(secret("Opaque", Some(listed)).refusal("s", "gpu"), None, "{listed}");
        }
        let table = [
            (None, "gpu"),
            (Some(""), "gpu"),
            (Some("*"), "gpu"),
            (Some("gp,u"), "gp,u,gpu"),
            (Some("batch,$(id),'x'"), "batch,gpu"),
        ];
        for (listed, want) in table {
            let why = secret("kubernetes.io/tls", listed).refusal("s", "gpu").unwrap();
            let command =
                "kubectl annotate secret s -n berth-system --overwrite scheduling.berth.dev/extender-profiles=";
            assert!(why.ends_with(&format!(": {command}{want}")), "{why}");
        }
    }

    #[test]
    fn credentials_of_other_components_are_refused_whatever_they_say() {
        let kinds = [
            "helm.sh/release.v1",
            "kubernetes.io/service-account-token",
            "kubernetes.io/dockerconfigjson",
            "kubernetes.io/dockercfg",
            "bootstrap.kubernetes.io/token",
        ];
        for kind in kinds {
            let why = secret(kind, Some("gpu")).refusal("s", "gpu").unwrap();
            assert!(why.contains(&format!("is of type {kind}, which no extender may use")), "{why}");
        }
    }

    #[test]
    fn a_config_map_is_for_all() {
        let map = serde_json::from_value(json!({"data": {"ca.crt": "CA"}})).unwrap();
        assert_eq!(Contents::of_config_map(map).refusal("s", "gpu"), None);
    }

    #[test]
    fn a_change_of_the_annotation_is_a_change() {
        assert_ne!(secret("Opaque", Some("gpu")), secret("Opaque", None));
        assert_eq!(secret("Opaque", Some("gpu")), secret("Opaque", Some("gpu")));
    }

    #[test]
    fn debug_shows_keys_alone() {
        let shown = format!("{:?}", secret("Opaque", Some("gpu")));
        assert!(shown.contains("token") && shown.contains("more"), "{shown}");
        assert!(!shown.contains("whisper") && !shown.contains("104, 117"), "{shown}");
    }
}
