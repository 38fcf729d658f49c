//! One question of the core, from its nodes and pods to the reply in the core's terms.

use super::budget::{Budget, Hold};
use super::error::error;
use super::guard::{Ask, Extender};
use super::objects::Objects;
use super::settings::Verb;
use super::wire::{
    FilterReply, FilterVisitor, NodeForm, Nodes, Payload, PreemptVisitor, PrioritizeVisitor, nodes_request,
    preempt_request,
};
use berth_core::io::{ExtenderError, ExtenderErrorKind, ExtenderQuestion, ExtenderReply, NodeVictims};
use berth_core::model::{Pod, Str};
use std::sync::Arc;

/// Asks an extender a question about a pod.
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
    fn of<V>(&self, verb: Verb, payload: Payload, visit: V) -> Ask<'_, V> {
        Ask { verb, pod: &self.pod.uid, payload, visit, may_go: &|| true }
    }

    /// The body of a question about nodes; what it holds in memory is held until the reply is read.
    async fn body(&self, nodes: &Arc<[Str]>, hold: &mut Hold) -> Result<Payload, ExtenderError> {
        let pod = self.objects.pod(self.pod, hold).await?;
        let payload = match self.extender.form() {
            NodeForm::Names => nodes_request(&pod, &Nodes::Names(nodes)),
            NodeForm::Full => nodes_request(&pod, &Nodes::Full(&self.objects.nodes(nodes, hold).await?)),
        };
        count(payload, hold)
    }

    async fn filter(&self, nodes: &Arc<[Str]>) -> Result<ExtenderReply, ExtenderError> {
        let mut hold = self.budget.hold();
        let payload = self.body(nodes, &mut hold).await?;
        let visit = FilterVisitor::new(self.extender.form(), nodes.clone(), self.budget.hold());
        let finish = |visit: FilterVisitor| self.filtered(visit.into_reply());
        self.extender.call(self.of(Verb::Filter, payload, visit), finish).await.map_err(|failure| failure.error)
    }

    fn filtered(&self, reply: FilterReply) -> Result<ExtenderReply, ExtenderError> {
        self.extender.met_unknown(reply.unknown);
        if !reply.error.is_empty() {
            return Err(error(ExtenderErrorKind::Said, reply.error));
        }
        if let Some(stranger) = reply.stranger {
            let url = &self.extender.live().settings.url;
            let why = format!(
                "extender {url:?} claims a filtered node {stranger:?} which is not found in the input node list"
            );
            return Err(error(ExtenderErrorKind::Said, why));
        }
        let FilterReply { survivors, failed, unresolvable, .. } = reply;
        Ok(ExtenderReply::Filter { survivors, failed, unresolvable })
    }

    async fn prioritize(&self, nodes: &Arc<[Str]>) -> Result<ExtenderReply, ExtenderError> {
        let mut hold = self.budget.hold();
        let payload = self.body(nodes, &mut hold).await?;
        let finish = |visit: PrioritizeVisitor| {
            let (scores, unknown) = visit.into_reply();
            self.extender.met_unknown(unknown);
            Ok(ExtenderReply::Prioritize(scores))
        };
        let ask = self.of(Verb::Prioritize, payload, PrioritizeVisitor::new(nodes.clone()));
        self.extender.call(ask, finish).await.map_err(|failure| failure.error)
    }

    async fn preempt(&self, candidates: &[NodeVictims]) -> Result<ExtenderReply, ExtenderError> {
        let mut hold = self.budget.hold();
        let pod = self.objects.pod(self.pod, &mut hold).await?;
        let whole = match self.extender.form() {
            NodeForm::Names => None,
            NodeForm::Full => Some(self.objects.victims(candidates, &mut hold).await?),
        };
        let payload = count(preempt_request(&pod, candidates, whole.as_deref()), &mut hold)?;
        let ask = self.of(Verb::Preempt, payload, PreemptVisitor::new(self.budget.hold()));
        let finish = |visit: PreemptVisitor| Ok(ExtenderReply::Preempt(visit.into_reply()));
        self.extender.call(ask, finish).await.map_err(|failure| failure.error)
    }
}

fn count(payload: Payload, hold: &mut Hold) -> Result<Payload, ExtenderError> {
    let taken = hold.take(payload.own_bytes());
    taken.map_err(|e| error(ExtenderErrorKind::Busy, format!("the request waits for others to end: {e}")))?;
    Ok(payload)
}
