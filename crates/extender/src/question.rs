//! One question: from the core's nodes and pods to a request, and from the reply back to the core's terms.

use super::budget::{Budget, Reservation};
use super::error::error;
use super::extender::{Extender, VerbCall};
use super::objects::Objects;
use super::settings::Verb;
use super::wire::{
    FilterReply, FilterVisitor, Nodes, Payload, PreemptVisitor, PrioritizeVisitor, nodes_request, preempt_request,
};
use berth_api::NodePayload;
use berth_core::io::{ExtenderError, ExtenderErrorKind, ExtenderQuestion, ExtenderReply, NodeVictims};
use berth_core::model::{Pod, Str};
use std::sync::Arc;

pub(super) async fn ask(
    extender: &Extender,
    objects: &Objects,
    budget: &Budget,
    pod: &Pod,
    question: &ExtenderQuestion,
) -> Result<ExtenderReply, ExtenderError> {
    let asker = Asker { extender, objects, budget, pod };
    match question {
        ExtenderQuestion::Filter { nodes } => asker.filter(nodes).await,
        ExtenderQuestion::Prioritize { nodes } => asker.prioritize(nodes).await,
        ExtenderQuestion::Preempt { candidates } => asker.preempt(candidates).await,
    }
}

struct Asker<'a> {
    extender: &'a Extender,
    objects: &'a Objects,
    budget: &'a Budget,
    pod: &'a Pod,
}

impl Asker<'_> {
    fn of<V>(&self, verb: Verb, payload: Payload, visit: V) -> VerbCall<'_, V> {
        VerbCall { verb, pod: &self.pod.uid, payload, visit, may_go: &|| true }
    }

    /// The body of a question about nodes. Its bytes stay reserved until the reply is read.
    async fn body(&self, nodes: &Arc<[Str]>, reservation: &mut Reservation) -> Result<Payload, ExtenderError> {
        let pod = self.objects.pod(self.pod, reservation).await?;
        let payload = match self.extender.form() {
            NodePayload::Names => nodes_request(&pod, &Nodes::Names(nodes)),
            NodePayload::Full => nodes_request(&pod, &Nodes::Full(&self.objects.nodes(nodes, reservation).await?)),
        };
        count(payload, reservation)
    }

    async fn filter(&self, nodes: &Arc<[Str]>) -> Result<ExtenderReply, ExtenderError> {
        let mut reservation = self.budget.reserve();
        let payload = self.body(nodes, &mut reservation).await?;
        let visit = FilterVisitor::new(self.extender.form(), nodes.clone(), self.budget.reserve());
        let finish = |visit: FilterVisitor| self.filtered(visit.into_reply());
        self.extender.call(self.of(Verb::Filter, payload, visit), finish).await.map_err(|failure| failure.error)
    }

    fn filtered(&self, reply: FilterReply) -> Result<ExtenderReply, ExtenderError> {
        if !reply.error.is_empty() {
            return Err(error(ExtenderErrorKind::Reported, reply.error));
        }
        if let Some(stranger) = reply.stranger {
            let url = self.extender.live().settings.endpoint.url.to_string();
            let why = format!(
                "extender {url:?} claims a filtered node {stranger:?} which is not found in the input node list"
            );
            return Err(error(ExtenderErrorKind::Reported, why));
        }
        let FilterReply { survivors, failed, unresolvable, .. } = reply;
        Ok(ExtenderReply::Filter { survivors, failed, unresolvable })
    }

    async fn prioritize(&self, nodes: &Arc<[Str]>) -> Result<ExtenderReply, ExtenderError> {
        let mut reservation = self.budget.reserve();
        let payload = self.body(nodes, &mut reservation).await?;
        let finish = |visit: PrioritizeVisitor| Ok(ExtenderReply::Prioritize(visit.into_reply()));
        let ask = self.of(Verb::Prioritize, payload, PrioritizeVisitor::new(nodes.clone()));
        self.extender.call(ask, finish).await.map_err(|failure| failure.error)
    }

    async fn preempt(&self, candidates: &[NodeVictims]) -> Result<ExtenderReply, ExtenderError> {
        let mut reservation = self.budget.reserve();
        let pod = self.objects.pod(self.pod, &mut reservation).await?;
        let whole = match self.extender.form() {
            NodePayload::Names => None,
            NodePayload::Full => Some(self.objects.victims(candidates, &mut reservation).await?),
        };
        let payload = count(preempt_request(&pod, candidates, whole.as_deref()), &mut reservation)?;
        let ask = self.of(Verb::Preempt, payload, PreemptVisitor::new(self.budget.reserve()));
        let finish = |visit: PreemptVisitor| Ok(ExtenderReply::Preempt(visit.into_reply()));
        self.extender.call(ask, finish).await.map_err(|failure| failure.error)
    }
}

fn count(payload: Payload, reservation: &mut Reservation) -> Result<Payload, ExtenderError> {
    let taken = reservation.take(payload.own_bytes());
    taken.map_err(|e| error(ExtenderErrorKind::Busy, format!("the request waits for others to end: {e}")))?;
    Ok(payload)
}
