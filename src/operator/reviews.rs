//! Who may read the metrics: the API server says, by a TokenReview and a SubjectAccessReview, as for kube-scheduler.

use berth_cluster::client::Fault;
use berth_telemetry::{Access, Authorizer};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long an answer holds; a right that is taken away is in force after it. As long as kube-scheduler's.
const ANSWER_VALID: Duration = Duration::from_secs(10);

/// Longest wait for the answer to one review; the client gets ten seconds for all.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// Tokens remembered of those let in, and as many of those refused.
const REMEMBERED: usize = 64;

/// Longest token; those of service accounts have one or two thousand bytes.
const TOKEN_BYTES: usize = 8 << 10;

/// Reviews at once for tokens that were let in before, and as many for all others.
const AT_ONCE: usize = 4;

/// How long a place stays taken after the review of a token that was not let in before: whoever tries tokens costs the API
/// server at most 16 reviews a second.
const STRANGERS_PAUSE: Duration = Duration::from_millis(250);

const TOKEN_REVIEWS: &str = "tokenreviews.authentication.k8s.io";
const ACCESS_REVIEWS: &str = "subjectaccessreviews.authorization.k8s.io";

/// Asks the API server about each token, and remembers its answers for a moment.
pub(super) fn authorizer(client: Client) -> Authorizer {
    let reviews = Arc::new(Reviews::new(client));
    let known = reviews.clone();
    Authorizer::new(
        move |token| known.is_regular(token),
        move |token| {
            let reviews = reviews.clone();
            async move { reviews.access(token).await }
        },
    )
}

struct Reviews {
    client: Client,
    granted: Mutex<Recent>,
    refused: Mutex<Recent>,
    /// Those who were let in before have places of their own: tokens that somebody makes up keep no scrape waiting.
    regulars: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
    /// Whether the log has said that reviews fail.
    failing: AtomicBool,
}

impl Reviews {
    fn new(client: Client) -> Self {
        let places = || Arc::new(Semaphore::new(AT_ONCE));
        let (granted, refused) = (Mutex::default(), Mutex::default());
        Self { client, granted, refused, regulars: places(), strangers: places(), failing: AtomicBool::new(false) }
    }

    async fn access(&self, token: Option<String>) -> Access {
        let Some(token) = token.filter(|token| token.len() <= TOKEN_BYTES) else { return Access::Unauthenticated };
        if let Some(known) = self.known(&token) {
            return known;
        }
        let is_regular = self.is_regular(&token);
        let places = if is_regular { &self.regulars } else { &self.strangers };
        let Ok(place) = places.clone().acquire_owned().await else {
            return Access::Unknown("the process is ending".to_owned());
        };
        // Another request with the same token may have been first.
        if let Some(known) = self.known(&token) {
            return known;
        }
        let place = Place { permit: Some(place), pauses: !is_regular };
        let access = self.review(&token).await.unwrap_or_else(|fault| Access::Unknown(fault.to_string()));
        self.remember(token, &access);
        if access == Access::Granted {
            place.give_back_at_once();
        }
        access
    }

    /// Whether the owner of the token was let in when it was reviewed last, however long ago.
    fn is_regular(&self, token: &str) -> bool {
        lock(&self.granted).answers.contains_key(token)
    }

    fn known(&self, token: &str) -> Option<Access> {
        lock(&self.granted).get(token).or_else(|| lock(&self.refused).get(token))
    }

    fn remember(&self, token: String, access: &Access) {
        match access {
            Access::Granted => {
                lock(&self.refused).answers.remove(&token);
                lock(&self.granted).put(token, access);
            }
            Access::Unauthenticated | Access::Forbidden(_) => {
                lock(&self.granted).answers.remove(&token);
                lock(&self.refused).put(token, access);
            }
            // The next request asks again.
            Access::Unknown(reason) => {
                if !self.failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!(reason, "metrics are not served: who asks for them cannot be reviewed");
                }
                return;
            }
        }
        self.failing.store(false, Ordering::Relaxed);
    }

    async fn review(&self, token: &str) -> Result<Access, Fault> {
        let Some(user) = self.user(token).await? else { return Ok(Access::Unauthenticated) };
        let name = user.username.clone().unwrap_or_default();
        let attributes = NonResourceAttributes { path: Some("/metrics".to_owned()), verb: Some("get".to_owned()) };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                uid: user.uid,
                groups: user.groups,
                extra: user.extra,
                non_resource_attributes: Some(attributes),
                ..Default::default()
            },
            ..Default::default()
        };
        let api = Api::<SubjectAccessReview>::all(self.client.clone());
        let answer = within(ACCESS_REVIEWS, api.create(&PostParams::default(), &review)).await?;
        if answer.status.is_some_and(|status| status.allowed) {
            return Ok(Access::Granted);
        }
        Ok(Access::Forbidden(format!("user {name:?} may not get /metrics: bind a ClusterRole that allows it")))
    }

    /// Whose token it is; `None` if it is nobody's.
    async fn user(&self, token: &str) -> Result<Option<UserInfo>, Fault> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..Default::default() };
        let review = TokenReview { spec, ..Default::default() };
        let api = Api::<TokenReview>::all(self.client.clone());
        let answer = within(TOKEN_REVIEWS, api.create(&PostParams::default(), &review)).await?;
        Ok(answer.status.filter(|status| status.authenticated == Some(true)).and_then(|status| status.user))
    }
}

async fn within<T>(resource: &'static str, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Fault> {
    let Ok(answer) = tokio::time::timeout(ANSWER_WITHIN, request).await else {
        let message = format!("no answer within {} s", ANSWER_WITHIN.as_secs());
        return Err(Fault::Other { verb: "create", resource, message });
    };
    answer.map_err(|error| Fault::of("create", resource, &error))
}

/// A place among those whose tokens are reviewed at once. That of a stranger stays taken for a moment longer, also if its client
/// goes away before the answer: the API server was asked all the same.
struct Place {
    permit: Option<OwnedSemaphorePermit>,
    pauses: bool,
}

impl Place {
    fn give_back_at_once(mut self) {
        self.permit = None;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take().filter(|_| self.pauses) else { return };
        // Without a runtime the process ends, and nobody asks any more.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                tokio::time::sleep(STRANGERS_PAUSE).await;
                drop(permit);
            });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers by token, at most [`REMEMBERED`]. Not `Debug`: tokens are nobody's to read.
#[derive(Default)]
struct Recent {
    answers: HashMap<String, (Instant, Access)>,
}

impl Recent {
    fn get(&self, token: &str) -> Option<Access> {
        let (at, access) = self.answers.get(token)?;
        (at.elapsed() < ANSWER_VALID).then(|| access.clone())
    }

    fn put(&mut self, token: String, access: &Access) {
        if self.answers.len() >= REMEMBERED && !self.answers.contains_key(&token) {
            let oldest = self.answers.iter().min_by_key(|(_, (at, _))| *at).map(|(token, _)| token.clone());
            oldest.map(|token| self.answers.remove(&token));
        }
        self.answers.insert(token, (Instant::now(), access.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_testing::{Asked, Reply, Scripted, until};
    use serde_json::json;

    /// Knows the tokens `good` (may read) and `known` (may not).
    fn answer(asked: &Asked) -> Reply {
        let spec = &asked.body["spec"];
        if asked.path.ends_with("/tokenreviews") {
            let name = spec["token"].as_str().unwrap();
            let user = json!({"username": name, "uid": "7", "groups": ["people"], "extra": {"scope": ["a"]}});
            let authenticated = ["good", "known"].contains(&name);
            let status = json!({"authenticated": authenticated, "user": if authenticated { user } else { json!({}) }});
            return Reply::json(201, json!({"spec": {}, "status": status}));
        }
        let whole = json!({"user": "good", "uid": "7", "groups": ["people"], "extra": {"scope": ["a"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
        Reply::json(201, json!({"spec": {}, "status": {"allowed": *spec == whole}}))
    }

    async fn rig() -> (Scripted, Reviews) {
        let server = Scripted::start(|asked| async move { answer(&asked) }).await;
        let reviews = Reviews::new(server.client());
        (server, reviews)
    }

    async fn access(reviews: &Reviews, token: &str) -> Access {
        reviews.access(Some(token.to_owned())).await
    }

    #[tokio::test]
    async fn the_api_server_decides_and_its_answer_holds_for_a_moment() {
        let (server, reviews) = rig().await;
        for _ in 0..3 {
            assert_eq!(access(&reviews, "good").await, Access::Granted);
            let Access::Forbidden(reason) = access(&reviews, "known").await else { panic!("known is let in") };
            assert!(reason.contains("\"known\" may not get /metrics"), "{reason}");
            assert_eq!(access(&reviews, "nobody's").await, Access::Unauthenticated);
        }
        assert_eq!((server.count("POST", "/tokenreviews"), server.count("POST", "/subjectaccessreviews")), (3, 2));
        assert_eq!(reviews.access(None).await, Access::Unauthenticated);
        assert_eq!(access(&reviews, &"a".repeat(TOKEN_BYTES + 1)).await, Access::Unauthenticated);
        assert_eq!(server.requests().len(), 5, "nothing is asked about no token and about an impossible one");
    }

    #[tokio::test]
    async fn a_missing_right_is_named_and_asked_for_again() {
        let server = Scripted::start(|_| async { Reply::status(403, "no") }).await;
        let reviews = Reviews::new(server.client());
        for asked in 1..=2 {
            let Access::Unknown(reason) = access(&reviews, "good").await else { panic!("let in or refused") };
            assert!(reason.contains("`create` on `tokenreviews.authentication.k8s.io`"), "{reason}");
            assert_eq!(server.requests().len(), asked);
        }
    }

    /// Made-up tokens wait for each other, and nobody waits for them but strangers.
    #[tokio::test]
    async fn made_up_tokens_keep_no_regular_waiting_and_take_bounded_memory() {
        let (_server, reviews) = rig().await;
        assert_eq!(access(&reviews, "good").await, Access::Granted);
        let places = reviews.strangers.clone().acquire_many_owned(AT_ONCE as u32).await.unwrap();
        if let Some(known) = lock(&reviews.granted).answers.get_mut("good") {
            known.0 = known.0.checked_sub(ANSWER_VALID).unwrap();
        }
        assert!(reviews.known("good").is_none(), "its answer is over");
        assert_eq!(access(&reviews, "good").await, Access::Granted);
        drop(places);
        for number in 0..3 * REMEMBERED {
            lock(&reviews.refused).put(number.to_string(), &Access::Unauthenticated);
        }
        assert_eq!(lock(&reviews.refused).answers.len(), REMEMBERED);
        assert!(reviews.known(&(3 * REMEMBERED - 1).to_string()).is_some() && reviews.known("0").is_none());
        assert_eq!(reviews.known("good"), Some(Access::Granted), "who was let in is remembered elsewhere");
        assert!(reviews.is_regular("good") && !reviews.is_regular("0"));
    }

    #[tokio::test]
    async fn whoever_tries_tokens_is_slowed_down() {
        let (_server, reviews) = rig().await;
        for number in 0..2 * AT_ONCE {
            assert_eq!(access(&reviews, &format!("made up {number}")).await, Access::Unauthenticated);
            assert!(reviews.strangers.available_permits() < AT_ONCE, "its place stays taken for a moment");
        }
        let _ = reviews.strangers.acquire_many(AT_ONCE as u32).await.unwrap();
    }

    /// As an attacker does who closes each connection as soon as the question is out.
    #[tokio::test]
    async fn whoever_does_not_wait_for_the_answer_is_slowed_down_too() {
        let server = Scripted::start(|_| Reply::hang()).await;
        let reviews = Reviews::new(server.client());
        for number in 1..=2 * AT_ONCE {
            let token = format!("made up {number}");
            let mut asking = Box::pin(access(&reviews, &token));
            tokio::select! {
                answer = &mut asking => panic!("{answer:?}"),
                () = until("its question", || server.requests().len() == number) => {}
            }
            let free = reviews.strangers.available_permits();
            drop(asking);
            assert_eq!(reviews.strangers.available_permits(), free, "its place stays taken for a moment");
        }
        let _ = reviews.strangers.acquire_many(AT_ONCE as u32).await.unwrap();
    }
}
