//! One kind, read whole once: for whoever looks at a cluster and leaves.

use super::call::list_request;
use super::frame::ReadObject;
use super::kinds::Nodes;
use super::split::{ListMeta, ListSplitter};
use super::split_protobuf::MessageSplitter;
use super::{BadObject, CallError, WatchOptions, Watched};
use crate::decode::DecodeError;
use crate::proto::{Encoded, Encoding};
use futures::future::maybe_done;
use kube::Client;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::time::Duration;

/// Objects in one page: a few MiB, which an API server sends without holding up anyone.
const PAGE: u32 = 500;

/// How often a read begins anew because its pages became too old, before it is given up.
const BEGINNINGS: u32 = 4;

/// Objects that do not decode and are named; the rest is only counted.
const NAMED: usize = 16;

/// A kind as it was read.
#[derive(Debug)]
pub struct Listed<T> {
    /// The objects, in the order in which the API server gives them.
    pub objects: Vec<T>,
    /// The first of those that do not decode.
    pub bad: Vec<BadObject>,
    /// How many do not decode.
    pub bad_count: usize,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { objects: Vec::new(), bad: Vec::new(), bad_count: 0 }
    }
}

/// What of a kind is read.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListOptions<'a> {
    /// What was there at this resourceVersion, exactly; what is there now without it. A version is that of one etcd: a kind that is kept in
    /// another one has others.
    pub at: Option<&'a str>,
    /// Whether bound pods are read whole, as those that wait are.
    pub whole_pods: bool,
}

/// Reads every object of a kind, page by page and consistently. Beside the decoded objects one unfinished one is held.
///
/// Pages that became too old while they were read begin anew, a few times; at a given resourceVersion they are an error, as one is
/// that the API server has no more.
pub async fn list<W: Watched>(client: &Client, options: ListOptions<'_>) -> Result<Listed<W::Object>, CallError> {
    let silence = WatchOptions::default().list_silence;
    let most = if options.at.is_some() { 1 } else { BEGINNINGS };
    let mut beginnings = 0;
    loop {
        beginnings += 1;
        let mut decoder = W::decoder().reading_bound_pods_whole(options.whole_pods);
        let mut listed = Listed::default();
        let take = |item: Encoded<'_>| listed.take(W::item(&mut decoder, item));
        // Whoever reads once reads in JSON, in which each field has its name.
        let form = Form { limit: PAGE, at: options.at, encoding: Encoding::Json, silence };
        match pages::<W>(client, form, take).await {
            Ok(_) => return Ok(listed),
            Err(CallError::Gone) if beginnings < most => {}
            Err(error) => return Err(error),
        }
    }
}

/// The resourceVersion at which the cluster is now, as a list of one node has it: for several kinds to be read at it.
pub async fn present_version(client: &Client) -> Result<String, CallError> {
    let silence = WatchOptions::default().list_silence;
    let call = list_request::<Nodes>(1, "", None).accepting(Encoding::Json);
    let mut answer = call.open(client.clone(), silence).await?;
    let mut splitter = Splitter::new(answer.encoding());
    while answer.bytes(silence, |bytes| splitter.push(bytes, &mut |_| {})).await? {}
    splitter.finish().map(|meta| meta.resource_version).ok_or(CallError::Cut)
}

/// How a kind is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form<'a> {
    /// Objects in a page.
    pub(super) limit: u32,
    /// See [`ListOptions::at`].
    pub(super) at: Option<&'a str>,
    /// The encoding that is asked for.
    pub(super) encoding: Encoding,
    /// Nothing for so long is an error.
    pub(super) silence: Duration,
}

/// Reads all pages, and gives each item to `each`. Returns the resourceVersion of the list.
///
/// A page says first where the next begins: that is asked for at once, so that the API server makes a page while the one before is read.
pub(super) async fn pages<W: Watched>(
    client: &Client,
    form: Form<'_>,
    mut each: impl FnMut(Encoded<'_>),
) -> Result<String, CallError> {
    let open = |token: &str| {
        let call = list_request::<W>(form.limit, token, form.at).accepting(form.encoding);
        Box::pin(maybe_done(call.open(client.clone(), form.silence)))
    };
    let mut opened = open("");
    loop {
        opened.as_mut().await;
        let mut answer = opened.as_mut().take_output().ok_or(CallError::Cut)??;
        let mut splitter = Splitter::new(answer.encoding());
        let mut ahead = None;
        loop {
            let bytes = answer.bytes(form.silence, |bytes| splitter.push(bytes, &mut each));
            if !beside(bytes, ahead.as_mut()).await? {
                break;
            }
            if ahead.is_none() {
                ahead = splitter.meta().map(|meta| &*meta.token).filter(|token| !token.is_empty()).map(&open);
            }
        }
        let meta = splitter.finish().ok_or(CallError::Cut)?;
        if meta.token.is_empty() {
            return Ok(meta.resource_version);
        }
        opened = ahead.unwrap_or_else(|| open(&meta.token));
    }
}

/// The outcome of `first`; until it is there `second` goes on as well.
async fn beside<T>(first: impl Future<Output = T>, second: Option<&mut Pin<Box<impl Future<Output = ()>>>>) -> T {
    let Some(second) = second else { return first.await };
    let mut first = pin!(first);
    poll_fn(|context| {
        // Its outcome is kept, and waited for once its turn has come.
        let _ = second.as_mut().poll(context);
        first.as_mut().poll(context)
    })
    .await
}

/// Cuts the body of a list, in whatever encoding it came.
enum Splitter {
    Json(ListSplitter),
    Protobuf(MessageSplitter),
}

impl Splitter {
    fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::Json(ListSplitter::new()),
            Encoding::Protobuf => Self::Protobuf(MessageSplitter::new()),
        }
    }

    fn push(&mut self, bytes: &[u8], each: &mut impl FnMut(Encoded<'_>)) {
        match self {
            Self::Json(splitter) => splitter.push(bytes, |item| each(Encoded::Json(item))),
            Self::Protobuf(splitter) => splitter.push(bytes, each),
        }
    }

    const fn meta(&self) -> Option<&ListMeta> {
        match self {
            Self::Json(splitter) => splitter.meta(),
            Self::Protobuf(splitter) => splitter.meta(),
        }
    }

    fn finish(self) -> Option<ListMeta> {
        match self {
            Self::Json(splitter) => splitter.finish(),
            Self::Protobuf(splitter) => splitter.finish(),
        }
    }
}

impl<T> Listed<T> {
    fn take(&mut self, read: ReadObject<T>) {
        match read.object {
            Ok(object) => self.objects.push(object),
            Err(DecodeError { field, message, .. }) => {
                self.bad_count += 1;
                if self.bad.len() < NAMED {
                    self.bad.push(BadObject { key: read.key, field, message });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Reply, Scripted};
    use serde_json::{Value, json};
    use std::sync::atomic::{AtomicU32, Ordering};

    fn page(names: &[&str], token: &str) -> Reply {
        let items: Vec<Value> = names.iter().map(|name| json!({"metadata": {"name": name, "uid": name}})).collect();
        Reply::json(200, json!({"metadata": {"resourceVersion": "7", "continue": token}, "items": items}))
    }

    fn names(listed: &Listed<berth_core::model::Node>) -> Vec<&str> {
        listed.objects.iter().map(|node| &*node.name).collect()
    }

    #[tokio::test]
    async fn pages_are_read_to_the_last() {
        let server = Scripted::start(|asked| async move {
            if asked.query.contains("continue=next") { page(&["c"], "") } else { page(&["a", "b"], "next") }
        })
        .await;
        let listed = list::<Nodes>(&server.client(), ListOptions::default()).await.unwrap();
        assert_eq!(names(&listed), ["a", "b", "c"]);
        assert!(server.requests().iter().all(|r| r.query.contains("limit=500")), "{:?}", server.requests());
    }

    #[tokio::test]
    async fn pages_that_became_too_old_begin_anew() {
        let tries = AtomicU32::new(0);
        let server = Scripted::start(move |asked| {
            let late = asked.query.contains("continue=") && tries.fetch_add(1, Ordering::Relaxed) == 0;
            let last = asked.query.contains("continue=");
            async move {
                match (late, last) {
                    (true, _) => Reply::status(410, "too old"),
                    (false, true) => page(&["b"], ""),
                    (false, false) => page(&["a"], "next"),
                }
            }
        })
        .await;
        let listed = list::<Nodes>(&server.client(), ListOptions::default()).await.unwrap();
        assert_eq!(names(&listed), ["a", "b"], "nothing twice");
    }

    #[tokio::test]
    async fn one_version_is_asked_for_and_one_that_is_gone_is_said() {
        let server = Scripted::start(|asked| async move {
            match &*asked.query {
                query if query.contains("resourceVersion=6&") => Reply::status(410, "compacted"),
                query if query.contains("continue=next") => page(&["b"], ""),
                _ => page(&["a"], "next"),
            }
        })
        .await;
        let client = server.client();
        assert_eq!(present_version(&client).await.unwrap(), "7");
        let at = |at| ListOptions { at: Some(at), whole_pods: false };
        assert_eq!(names(&list::<Nodes>(&client, at("7")).await.unwrap()), ["a", "b"]);
        assert!(matches!(list::<Nodes>(&client, at("6")).await, Err(CallError::Gone)));
        let asked: Vec<String> = server.requests().into_iter().map(|r| r.query).collect();
        assert!(asked[0].contains("limit=1") && !asked[0].contains("resourceVersion"), "{asked:?}");
        assert!(asked[1].contains("resourceVersion=7") && asked[1].contains("resourceVersionMatch=Exact"), "{asked:?}");
        assert!(asked[2].contains("continue=next") && !asked[2].contains("resourceVersion"), "{asked:?}");
        assert_eq!(asked.len(), 4, "one that is gone is not asked for again");
    }

    #[tokio::test]
    async fn what_does_not_decode_is_named_and_the_rest_is_there() {
        let server = Scripted::start(|_| async {
            let bad = json!({"metadata": {"name": "bad"}, "status": {"allocatable": {"cpu": "much"}}});
            let good = json!({"metadata": {"name": "good", "uid": "g"}});
            Reply::json(200, json!({"metadata": {"resourceVersion": "7"}, "items": [bad, good]}))
        })
        .await;
        let listed = list::<Nodes>(&server.client(), ListOptions::default()).await.unwrap();
        assert_eq!((names(&listed), listed.bad_count), (vec!["good"], 1));
        assert_eq!((&*listed.bad[0].key.name, &*listed.bad[0].field), ("bad", "status.allocatable[cpu]"));
    }

    #[tokio::test]
    async fn a_refusal_says_what_to_grant() {
        let server = Scripted::start(|_| async { Reply::status(403, "no") }).await;
        let error = list::<Nodes>(&server.client(), ListOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("grant list on nodes"), "{error}");
    }
}
