//! The last good spec of each profile, kept as a ControllerRevision in the operator's namespace: it outlives restarts,
//! and upgrades to stricter rules.
//!
//! A revision's data cannot be changed, so each good spec is an object of its own, named by its content; the newest
//! counts, and one more is kept to look back at. The profile owns its revisions: where the garbage collector runs, it
//! deletes them with the profile.

use crate::client::Fault;
use crate::lease::Gate;
use berth_core::fnv::fnv1a;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use serde_json::Value;
use std::collections::BTreeMap;

/// The label that says which profile a revision is of: its name, or a hash of it where that is no label value.
pub const PROFILE_LABEL: &str = "scheduling.berth.dev/profile";

const NAME_ANNOTATION: &str = "scheduling.berth.dev/profile-name";

/// Revisions kept of one profile: the one to serve and the one before it.
const HISTORY: usize = 2;

/// Bytes of the profile's name that go into a revision's name; with hash and prefix within 253.
const NAME_BYTES: usize = 200;

const LABEL_BYTES: usize = 63;

const RESOURCE: &str = "controllerrevisions.apps";

#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    pub profile: String,
    /// The uid of the profile that it was kept for: a profile recreated under its name is another.
    pub uid: String,
    /// The generation at which it was good.
    pub generation: i64,
    pub spec: Value,
    /// The name of the ControllerRevision that holds it.
    pub name: String,
}

/// Reads and writes revisions. Remembers what is kept, so that an unchanged spec costs no request.
#[derive(Debug)]
pub struct Revisions {
    api: Api<ControllerRevision>,
    gate: Gate,
    kept: BTreeMap<String, Vec<Revision>>,
}

impl Revisions {
    /// Revisions of all profiles in `namespace`, read once. Call [`Self::newest`] for what to serve. Nothing is written unless
    /// `gate` says right before that we lead.
    pub async fn load(client: Client, gate: Gate, namespace: &str) -> Result<Self, Fault> {
        let api: Api<ControllerRevision> = Api::namespaced(client, namespace);
        let all = api.list(&ListParams::default().labels(PROFILE_LABEL)).await;
        let mut objects = all.map_err(|e| Fault::of("list", RESOURCE, &e))?.items;
        let mut kept: BTreeMap<String, Vec<Revision>> = BTreeMap::new();
        objects.sort_by_key(|o| (o.metadata.creation_timestamp.as_ref().map(|t| t.0), o.revision));
        for revision in objects.into_iter().filter_map(read) {
            kept.entry(revision.profile.clone()).or_default().push(revision);
        }
        Ok(Self { api, gate, kept })
    }

    /// The newest good spec of a profile, if that very profile (by uid) has one. By its generation, not by when it was made: the
    /// API server may carry out what a process before us sent after what we have sent.
    pub fn newest(&self, profile: &str, uid: &str) -> Option<&Revision> {
        self.kept.get(profile)?.iter().filter(|r| r.uid == uid).max_by_key(|r| r.generation)
    }

    /// The profiles that have revisions, with the uid of the newest.
    pub fn profiles(&self) -> impl Iterator<Item = (&str, &str)> {
        self.kept.iter().filter_map(|(name, all)| Some((&**name, &*all.last()?.uid)))
    }

    /// Keeps a good spec unless it is the newest already; older ones beyond the history are deleted.
    /// `true` if it was written.
    pub async fn save(&mut self, profile: &str, uid: &str, generation: i64, spec: &Value) -> Result<bool, Fault> {
        if self.newest(profile, uid).is_some_and(|r| r.spec == *spec) {
            return Ok(false);
        }
        let revision = Revision {
            profile: profile.to_owned(),
            uid: uid.to_owned(),
            generation,
            spec: spec.clone(),
            name: name_of(profile, uid, generation, spec),
        };
        if !self.gate.leads() {
            return Err(led_no_more("create"));
        }
        match self.api.create(&PostParams::default(), &object_of(&revision)).await {
            Ok(_) => {}
            // An earlier try was carried out and its answer lost: the same name means the same content.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(Fault::of("create", RESOURCE, &error)),
        }
        let kept = self.kept.entry(profile.to_owned()).or_default();
        kept.retain(|r| r.name != revision.name);
        // Revisions of an earlier profile of this name are the first to be deleted, then the oldest of this one.
        kept.sort_by_key(|r| (r.uid == uid, r.generation));
        kept.push(revision);
        self.trim(profile, HISTORY).await?;
        Ok(true)
    }

    /// Deletes all revisions of a profile that was deleted.
    pub async fn delete(&mut self, profile: &str) -> Result<(), Fault> {
        self.trim(profile, 0).await?;
        self.kept.remove(profile);
        Ok(())
    }

    async fn trim(&mut self, profile: &str, keep: usize) -> Result<(), Fault> {
        let Some(kept) = self.kept.get_mut(profile) else { return Ok(()) };
        while kept.len() > keep {
            if !self.gate.leads() {
                return Err(led_no_more("delete"));
            }
            match self.api.delete(&kept[0].name, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(Fault::of("delete", RESOURCE, &error)),
            }
            kept.remove(0);
        }
        Ok(())
    }
}

fn led_no_more(verb: &'static str) -> Fault {
    Fault::Other { verb, resource: RESOURCE, message: "not sent: this process does not lead".to_owned() }
}

fn object_of(revision: &Revision) -> ControllerRevision {
    let text = |key: &str, value: &str| Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    let owner = OwnerReference {
        api_version: "scheduling.berth.dev/v1alpha1".to_owned(),
        kind: "SchedulerProfile".to_owned(),
        name: revision.profile.clone(),
        uid: revision.uid.clone(),
        ..OwnerReference::default()
    };
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(revision.name.clone()),
            labels: text(PROFILE_LABEL, &label_of(&revision.profile)),
            annotations: text(NAME_ANNOTATION, &revision.profile),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        data: RawExtension(serde_json::json!({ "spec": revision.spec })),
        revision: Some(revision.generation),
    }
}

/// A revision that is not one of ours, or damaged, is passed over: the profile itself is still there.
fn read(object: ControllerRevision) -> Option<Revision> {
    let mut data = object.data.0;
    Some(Revision {
        profile: object.metadata.annotations?.remove(NAME_ANNOTATION)?,
        uid: object.metadata.owner_references?.into_iter().next()?.uid,
        generation: object.revision?,
        spec: data.get_mut("spec").map(Value::take)?,
        name: object.metadata.name?,
    })
}

fn label_of(profile: &str) -> String {
    if profile.len() <= LABEL_BYTES { profile.to_owned() } else { format!("h-{:016x}", hash(&[profile])) }
}

fn name_of(profile: &str, uid: &str, generation: i64, spec: &Value) -> String {
    let kept = profile[..profile.floor_char_boundary(NAME_BYTES)].trim_end_matches(['.', '-']);
    let hash = hash(&[profile, uid, &generation.to_string(), &spec.to_string()]);
    format!("sprof-{kept}-{hash:016x}")
}

/// FNV-1a, stable between builds: the name must be found again by the next version.
fn hash(parts: &[&str]) -> u64 {
    fnv1a(parts.iter().flat_map(|part| part.bytes().chain([0])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Reply, Scripted, open, open_gate};
    use serde_json::json;
    use std::sync::{Arc, Mutex};

    async fn store() -> Scripted {
        let made: Arc<Mutex<(u8, BTreeMap<String, Value>)>> = Arc::default();
        Scripted::start(move |mut asked| {
            let (count, kept) = &mut *made.lock().unwrap();
            let name = asked.path.rsplit('/').next().unwrap().to_owned();
            let reply = match asked.method.as_str() {
                "POST" => {
                    *count += 1;
                    asked.body["metadata"]["creationTimestamp"] = format!("2026-01-01T00:00:{count:02}Z").into();
                    kept.insert(asked.body["metadata"]["name"].as_str().unwrap().into(), asked.body.clone());
                    Reply::json(201, asked.body)
                }
                "DELETE" => match kept.remove(&name) {
                    Some(gone) => Reply::json(200, gone),
                    None => Reply::status(404, "gone"),
                },
                _ => {
                    let items: Vec<&Value> = kept.values().collect();
                    Reply::json(200, json!({"kind": "ControllerRevisionList", "apiVersion": "apps/v1", "metadata": {}, "items": items}))
                }
            };
            async move { reply }
        })
        .await
    }

    /// The next release looks for what this one stored under the same name, and reads it where this one put it.
    #[test]
    fn what_is_stored_stays_where_it_is() {
        let spec = json!({"preset": "BinPack"});
        let name = name_of("batch", "0b3e8d0c-5a0e-4d2f-9f5b-3a4c5d6e7f80", 3, &spec);
        assert_eq!(name, "sprof-batch-a05c1890eb751a83");
        let revision = Revision {
            profile: "batch".into(),
            uid: "0b3e8d0c-5a0e-4d2f-9f5b-3a4c5d6e7f80".into(),
            generation: 3,
            spec,
            name,
        };
        let stored = json!({
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": "sprof-batch-a05c1890eb751a83",
                "labels": {"scheduling.berth.dev/profile": "batch"},
                "annotations": {"scheduling.berth.dev/profile-name": "batch"},
                "ownerReferences": [{
                    "apiVersion": "scheduling.berth.dev/v1alpha1",
                    "kind": "SchedulerProfile",
                    "name": "batch",
                    "uid": "0b3e8d0c-5a0e-4d2f-9f5b-3a4c5d6e7f80",
                }],
            },
            "data": {"spec": {"preset": "BinPack"}},
            "revision": 3,
        });
        assert_eq!(serde_json::to_value(object_of(&revision)).unwrap(), stored);
        assert_eq!(read(serde_json::from_value(stored).unwrap()), Some(revision));
    }

    #[tokio::test]
    async fn the_last_good_spec_survives_a_restart() {
        let server = store().await;
        let mut first = Revisions::load(server.client(), open_gate(), "berth").await.unwrap();
        assert!(first.newest("batch", "u1").is_none());
        for (generation, preset) in [(1, "Default"), (2, "BinPack"), (3, "NoScoring")] {
            assert!(first.save("batch", "u1", generation, &json!({"preset": preset})).await.unwrap());
        }
        assert!(!first.save("batch", "u1", 4, &json!({"preset": "NoScoring"})).await.unwrap(), "unchanged");
        assert_eq!(server.count("POST", "/controllerrevisions"), 3);

        let mut again = Revisions::load(server.client(), open_gate(), "berth").await.unwrap();
        let newest = again.newest("batch", "u1").unwrap();
        assert_eq!((newest.generation, &newest.spec), (3, &json!({"preset": "NoScoring"})));
        assert_eq!(again.kept["batch"].len(), HISTORY);
        assert!(again.newest("batch", "u2").is_none(), "a profile recreated under the name is another");
        assert_eq!(again.profiles().collect::<Vec<_>>(), [("batch", "u1")]);
        again.delete("batch").await.unwrap();
        assert!(Revisions::load(server.client(), open_gate(), "berth").await.unwrap().kept.is_empty());
    }

    /// The API server may work on a request for longer than its sender leads.
    #[tokio::test]
    async fn a_revision_that_an_earlier_leader_sent_and_that_is_made_late_is_not_the_newest() {
        let server = store().await;
        let mut gone = Revisions::load(server.client(), open_gate(), "berth").await.unwrap();
        let mut leader = Revisions::load(server.client(), open_gate(), "berth").await.unwrap();
        leader.save("batch", "u1", 2, &json!({"preset": "BinPack"})).await.unwrap();
        gone.save("batch", "u1", 1, &json!({"preset": "Default"})).await.unwrap();
        let next = Revisions::load(server.client(), open_gate(), "berth").await.unwrap();
        assert_eq!(next.newest("batch", "u1").unwrap().generation, 2);
    }

    /// A leader that stood still between two requests does not know yet that another one leads.
    #[tokio::test]
    async fn leadership_is_asked_for_before_each_request() {
        let (gate, server) = (open_gate(), store().await);
        let mut revisions = Revisions::load(server.client(), gate.clone(), "berth").await.unwrap();
        for generation in 1..=2 {
            revisions.save("batch", "u1", generation, &json!({"generation": generation})).await.unwrap();
        }
        gate.shut();
        assert!(revisions.save("batch", "u1", 3, &json!({"generation": 3})).await.is_err());
        assert!(revisions.delete("batch").await.is_err());
        assert_eq!((server.count("POST", "/controllerrevisions"), server.count("DELETE", "")), (2, 0));
        open(&gate);
        assert!(revisions.save("batch", "u1", 3, &json!({"generation": 3})).await.unwrap());
    }

    #[test]
    fn names_and_labels_fit() {
        let long = "a".repeat(253);
        assert!(name_of(&long, "u", 1, &json!({})).len() <= 253);
        assert!(label_of(&long).len() <= LABEL_BYTES);
        assert_eq!(label_of("batch"), "batch");
        assert_ne!(name_of("a", "u", 1, &json!({"x": 1})), name_of("a", "u", 1, &json!({"x": 2})));
        assert_eq!(name_of("a", "u", 1, &json!({})), name_of("a", "u", 1, &json!({})));
        assert_eq!(hash(&["a"]), hash(&["a"]));
    }
}
