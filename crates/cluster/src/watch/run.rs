use super::barrier::{Order, Orders};
use super::call::{Answer, watch_request};
use super::frame::{Frame, ReadObject, json_of};
use super::list::{Form, pages};
use super::options::{RESUME_ATTEMPTS, call_seconds};
use super::{Absence, BadObject, CallError, RawObserver, WatchEvent, WatchOptions, WatchStats, Watched};
use crate::decode::{DecodeError, Decoder};
use crate::paced::Paced;
use crate::proto::{Encoded, Encoding};
use crate::send::version_number;
use crate::slim::FieldError;
use futures::io::AsyncBufRead;
use kube::Client;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

static SKIPPED: Paced = Paced::new();

/// Watches one kind until `cancel`, giving everything to `sink`. Never gives up: errors are counted in `stats`, logged,
/// and tried again after a pause. `observer` sees each event before `sink`, which is called between two frames and must not
/// block for longer than a lock is held. `orders` interrupt it.
pub async fn run<W: Watched>(
    client: Client,
    options: WatchOptions,
    stats: Arc<WatchStats>,
    orders: Orders,
    cancel: CancellationToken,
    sink: impl FnMut(WatchEvent<W::Object>) + Send,
    observer: Option<Arc<dyn RawObserver<W::Object>>>,
) {
    let encoding = options.encoding;
    let mut watch = Watch::<W, _> {
        client,
        options,
        stats,
        sink,
        observer,
        decoder: W::decoder(),
        encoding,
        version: None,
        began: None,
        failures: 0,
        kind: PhantomData,
    };
    let (mut given, stats) = (orders.subscribe(), watch.stats.clone());
    let work = async {
        loop {
            let interruption = tokio::select! {
                () = watch.step() => None,
                order = interruption(&orders, &mut given, &stats) => Some(order),
            };
            if let Some(order) = interruption {
                watch.obey(order);
            }
        }
    };
    cancel.run_until_cancelled(work).await;
}

/// Returns the next order for which a call under way is to end. A whole read goes on if it began late enough for whoever asks for one, and for
/// whoever waits for a version: it is seen afterwards whether that has been reached.
async fn interruption(orders: &Orders, given: &mut watch::Receiver<Order>, stats: &WatchStats) -> Order {
    let (mut reading, mut awaited) = (stats.reading(), None);
    loop {
        tokio::select! {
            order = orders.next(given) => match order {
                Order::None => {}
                Order::Read(since) if reading.borrow().is_some_and(|began| began >= since) => {}
                Order::Read(_) => return order,
                Order::Reach(version) => {
                    stats.want(version);
                    awaited = Some(order);
                }
            },
            () = async { drop(reading.wait_for(Option::is_none).await) }, if awaited.is_some() => {
                if let Some(order) = awaited.take().filter(|_| stats.is_awaited()) {
                    return order;
                }
            }
        }
    }
}

struct Watch<W: Watched, K> {
    client: Client,
    options: WatchOptions,
    stats: Arc<WatchStats>,
    sink: K,
    observer: Option<Arc<dyn RawObserver<W::Object>>>,
    decoder: Decoder,
    /// The encoding that is asked for.
    encoding: Encoding,
    /// The version to go on from; `None` where everything is to be read.
    version: Option<String>,
    /// When the whole read under way began.
    began: Option<Instant>,
    /// Failures since the last success.
    failures: u32,
    kind: PhantomData<fn() -> W>,
}

/// How long one call is while somebody waits for a version of a kind that does not change: the API server sends a bookmark 2 s
/// before the end that a call asked for, or a minute after its beginning.
const HURRIED_CALL_SECONDS: u32 = 3;

/// A watch call shorter than this that brought nothing counts as a failure, or a broken proxy would be asked in a loop.
const SHORT: Duration = Duration::from_secs(1);

impl<W: Watched, K: FnMut(WatchEvent<W::Object>) + Send> Watch<W, K> {
    /// One call, and the pause that its outcome asks for.
    async fn step(&mut self) {
        let (began, frames) = (Instant::now(), self.stats.frames());
        let reading = self.version.is_none();
        let outcome = match self.version.clone() {
            None => self.read().await,
            Some(version) => self.follow(&version).await,
        };
        let progress = self.stats.frames() > frames || began.elapsed() >= SHORT;
        match outcome {
            Ok(()) if progress || reading => self.failures = 0,
            Ok(()) => self.wait().await,
            Err(error) if let Some(absence) = error.absence().filter(|_| W::OPTIONAL && self.version.is_none()) => {
                self.failures = 0;
                self.do_without(absence, &error).await;
            }
            Err(error) => {
                self.stats.error(&error);
                if self.stats.frames() > frames && self.version.is_some() {
                    self.failures = 0;
                }
                self.recover(&error).await;
            }
        }
    }

    /// Carries out an order that interrupted a call: the next call resumes, or reads everything anew.
    fn obey(&mut self, order: Order) {
        if let Order::Read(_) = order {
            self.version = None;
        }
        self.failures = 0;
    }

    /// Takes the kind as empty and waits until it is worth asking again.
    async fn do_without(&mut self, absence: Absence, error: &CallError) {
        let began = self.began.take().unwrap_or_else(Instant::now);
        if self.stats.set_absence(Some((absence, began))) {
            tracing::warn!(resource = W::RESOURCE, %error, "kind not there, taken as empty");
        }
        self.send(WatchEvent::Synced, None);
        self.stats.shown().synced();
        self.stats.reads(None);
        sleep(self.options.absent_pause).await;
    }

    async fn recover(&mut self, error: &CallError) {
        let reading = self.version.is_none();
        tracing::warn!(resource = W::PLURAL, reading, %error, "watch interrupted");
        match error {
            CallError::Gone => self.version = None,
            // A gateway before the server may refuse an Accept that it does not know.
            CallError::Unnamed { .. } | CallError::Refused { code: 406 | 415, .. }
                if self.encoding == Encoding::Protobuf =>
            {
                self.encoding = Encoding::Json;
                return;
            }
            // Overload and outages pass; reading everything again would only add to them.
            CallError::Refused { .. } | CallError::Api { .. }
                if !error.is_overload() && self.failures >= RESUME_ATTEMPTS =>
            {
                self.version = None;
            }
            _ => {}
        }
        self.wait().await;
    }

    async fn wait(&mut self) {
        self.failures = self.failures.saturating_add(1);
        sleep(self.options.pause(self.failures)).await;
    }

    /// Reads everything. What an interrupted read gave is read again from the start.
    async fn read(&mut self) -> Result<(), CallError> {
        self.began = Some(Instant::now());
        self.stats.reads(self.began);
        self.stats.shown().begin();
        self.send(WatchEvent::Begin, None);
        let (client, silence) = (self.client.clone(), self.options.list_silence);
        let form = Form { limit: self.options.page_size, at: None, encoding: self.encoding, silence };
        let mut taken = Ok(());
        let item = |item: Encoded<'_>| {
            if taken.is_ok() {
                taken = self.item(item);
            }
        };
        let read = pages::<W>(&client, form, item).await;
        taken?;
        self.synced(read?);
        Ok(())
    }

    fn item(&mut self, item: Encoded<'_>) -> Result<(), CallError> {
        let read = W::item(&mut self.decoder, item);
        self.present(read, WatchEvent::Item, || item.json(W::message()).ok()).map(drop)
    }

    fn synced(&mut self, version: String) {
        self.stats.frame();
        if self.stats.set_absence(None) {
            tracing::info!(resource = W::RESOURCE, "kind is there now");
        }
        self.send(WatchEvent::Synced, None);
        self.stats.shown().synced();
        self.stats.reach(&version);
        self.stats.whole_read(self.began.take());
        self.version = Some(version);
        self.stats.reads(None);
    }

    async fn follow(&mut self, version: &str) -> Result<(), CallError> {
        let seconds = if self.stats.is_awaited() { HURRIED_CALL_SECONDS } else { call_seconds() };
        let call = watch_request::<W>(version, seconds).accepting(self.encoding);
        let answer = call.open(self.client.clone(), self.options.open_silence).await?;
        self.frames(answer).await
    }

    /// Takes events until the server ends the call.
    async fn frames<B: AsyncBufRead>(&mut self, mut answer: Answer<B>) -> Result<(), CallError> {
        loop {
            let Some(event) = answer.event(self.options.silence).await? else { return Ok(()) };
            match W::frame(&mut self.decoder, event) {
                Frame::Present(read) => {
                    let version = self.present(read, WatchEvent::Apply, || json_of(event, W::message()))?;
                    self.advance(&version);
                }
                Frame::Deleted(ReadObject { key, resource_version, .. }) => {
                    self.stats.frame();
                    self.stats.change(&resource_version);
                    self.stats.shown().deleted(&key.uid);
                    self.send(WatchEvent::Delete(key), None);
                    self.advance(&resource_version);
                }
                Frame::Bookmark { resource_version } => {
                    self.stats.frame();
                    self.advance(&resource_version);
                }
                Frame::Error { code, message } => return Err(CallError::from_code(code, "watch", W::PLURAL, message)),
                Frame::Unreadable(FieldError { field, message }) => {
                    self.bad(BadObject { field, message, ..BadObject::default() });
                }
            }
        }
    }

    /// Protobuf has no name for a field that is newer than our table. Asked for JSON, a server that sends protobuf all the same has the last word.
    fn named(&self, read: &ReadObject<W::Object>) -> Result<(), CallError> {
        match &read.unnamed {
            Some(field) if self.encoding == Encoding::Protobuf => {
                let (namespace, name) = (read.key.namespace.clone(), read.key.name.clone());
                Err(CallError::Unnamed { plural: W::PLURAL, namespace, name, field: field.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Notes the version up to which the sink has everything, from which on the watch goes on. During a whole read there is none: an interrupted one begins anew.
    ///
    /// An event that carries an older version, such as a deletion with that of the object's last change, does not turn it back: what
    /// came since would be shown again, as it was.
    fn advance(&mut self, to: &str) {
        let is_newer = |version: &&mut String| !to.is_empty() && version_number(to) >= version_number(version);
        if let Some(version) = self.version.as_mut().filter(is_newer) {
            to.clone_into(version);
            self.stats.reach(to);
        }
    }

    /// Sends an object that is there, as this event; `json` is its text, for an observer that wants it. Returns its version.
    fn present<'j>(
        &mut self,
        read: ReadObject<W::Object>,
        event: fn(W::Object) -> WatchEvent<W::Object>,
        json: impl FnOnce() -> Option<Cow<'j, [u8]>>,
    ) -> Result<String, CallError> {
        self.named(&read)?;
        let ReadObject { key, resource_version, object, .. } = read;
        self.stats.change(&resource_version);
        self.stats.shown().present(&key.uid, &resource_version, object.is_ok());
        self.stats.frame();
        match object {
            Ok(object) => {
                let wanted = self.observer.as_ref().is_some_and(|observer| observer.wants(&object));
                let json = wanted.then(json).flatten();
                self.send(event(object), json.as_deref());
            }
            Err(DecodeError { field, message, .. }) => self.bad(BadObject { key, field, message }),
        }
        Ok(resource_version)
    }

    fn bad(&mut self, bad: BadObject) {
        self.stats.bad_object();
        let BadObject { key, field, message } = &bad;
        let (namespace, name) = (&key.namespace, &key.name);
        if let Some(left_out) = SKIPPED.line() {
            tracing::warn!(resource = W::PLURAL, namespace, name, field, reason = message, left_out, "object skipped");
        }
        self.send(WatchEvent::Bad(bad), None);
    }

    fn send(&mut self, event: WatchEvent<W::Object>, json: Option<&[u8]>) {
        if let Some(observer) = &self.observer {
            observer.see(&event, json);
        }
        (self.sink)(event);
    }
}
