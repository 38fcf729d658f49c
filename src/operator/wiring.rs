//! Where workers' effects go: the extender_clients before and of binds, that of evictions, the writer of refusals, events.

use berth_cluster::bind::{Binder, Paused};
use berth_cluster::events::{Event, EventSink};
use berth_cluster::evict::Evictor;
use berth_cluster::prebind::{Nominated, PreBinder};
use berth_cluster::refusal::RefusalWriter;
use berth_core::io::{
    AttemptId, BindOutcome, BindRequest, Deliver, EvictRequest, EvictionOutcome, ExtenderRequest, Input,
    NominateRequest, Refusal, VolumeRequest, VolumesOutcome, WorkerId,
};
use berth_core::model::{Pod, Str};
use berth_extender::ExtenderClients;
use berth_runtime::EffectSink;
use std::sync::Arc;
use tokio::sync::{Notify, watch as channel};

/// The way out for effects.
pub(super) struct Wiring {
    pub(super) binder: Binder,
    pub(super) extender_clients: ExtenderClients,
    pub(super) prebind: PreBinder,
    pub(super) evict: Evictor,
    pub(super) nominated: Nominated,
    pub(super) paused: channel::Receiver<Paused>,
    pub(super) refusals: RefusalWriter,
    pub(super) events: Option<EventSink>,
}

impl EffectSink for Wiring {
    fn bind(&self, worker: WorkerId, profile: &Str, request: BindRequest) {
        self.refusals.cancel(&request.pod.uid);
        match request.extender.clone() {
            Some(extender) => self.extender_clients.bind(worker, profile, &extender, request),
            None => self.binder.submit(worker, request),
        }
    }

    fn ask(&self, worker: WorkerId, profile: &Str, request: ExtenderRequest) {
        self.extender_clients.ask(worker, profile, request);
    }

    fn write_volumes(&self, worker: WorkerId, request: VolumeRequest) {
        self.refusals.cancel(&request.pod.uid);
        self.prebind.submit(worker, request);
    }

    fn nominate(&self, request: NominateRequest) {
        self.prebind.nominate(request);
    }

    fn evict(&self, worker: WorkerId, request: EvictRequest) {
        self.evict.submit(worker, request);
    }

    fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        let mut taken = self.prebind.revoke(worker);
        taken.extend(self.binder.revoke(worker));
        taken.extend(self.extender_clients.revoke(worker));
        taken.extend(self.evict.revoke(worker));
        taken
    }

    fn share(&self, busy: usize) -> usize {
        self.binder.share(busy)
    }

    fn holds(&self, namespace: &str) -> bool {
        self.paused.borrow().covers(namespace)
    }

    fn bound(&self, pod: Arc<Pod>, node: Str) {
        tracing::debug!(pod = %pod.key, node = &*node, "pod bound");
        self.nominated.forget(&pod.uid);
        if let Some(events) = &self.events {
            events.send(Event::scheduled(pod, node));
        }
    }

    fn refuse(&self, profile: &Str, refusal: Refusal) {
        let Refusal { pod, reason, text, attempted, nomination } = refusal;
        tracing::info!(profile = &**profile, pod = %pod.key, reason = reason.as_str(), %text, "pod not placed");
        if let Some(events) = self.events.as_ref().filter(|_| attempted) {
            events.send(Event::failed(pod.clone(), text.clone()));
        }
        self.refusals.write(pod, reason, text, nomination);
    }
}

/// Wraps the way in for outcomes so that a bind, a write before one, or an eviction refused for want of a permission is noticed.
pub(super) fn watch_for_denials(deliver: Deliver, evidence: Arc<Notify>) -> Deliver {
    Arc::new(move |worker, input| {
        let refused = match &input {
            Input::BindEnded { outcome: BindOutcome::Refused { code, .. }, .. } => *code == Some(403),
            Input::VolumesWritten { outcome: VolumesOutcome::Failed { message }, .. } => {
                message.contains("cannot patch resource")
            }
            Input::EvictionEnded { outcome: EvictionOutcome::Failed { message, .. }, .. } => {
                message.contains("cannot patch resource") || message.contains("cannot delete resource")
            }
            _ => false,
        };
        if refused {
            evidence.notify_one();
        }
        deliver(worker, input);
    })
}
