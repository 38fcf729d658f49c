//! By what requests go out.

use crate::connections::Connections;
use crate::send::{Answer, Call, NoAnswer, answer_within};
use kube::Client;
use std::sync::Arc;
use std::time::Duration;

/// By what requests go out. None of it sends anything again.
#[derive(Clone)]
pub enum Transport {
    /// Connections of our own: the cheapest.
    Own(Arc<Connections>),
    /// kube's client: through a proxy, and in tests that replace the connections.
    Kube(Client),
}

impl From<Client> for Transport {
    fn from(client: Client) -> Self {
        Self::Kube(client)
    }
}

impl Transport {
    /// Sends a request and reads the whole answer, so that the connection can be used again.
    pub async fn send(&self, call: &Call, limit: Duration) -> Result<Answer, NoAnswer> {
        match self {
            Self::Own(connections) => answer_within(limit, connections.send(call)).await,
            Self::Kube(client) => call.send(client, limit).await,
        }
    }
}
