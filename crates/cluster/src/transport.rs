//! By what requests go out.

use crate::connections::Connections;
use crate::paced::Paced;
use crate::send::{Answer, Call, NoAnswer};
use kube::Client;
use std::sync::Arc;
use std::time::Duration;

static UNSENT: Paced = Paced::new();

/// By what requests go out. Nothing is sent again of which a byte was written.
#[derive(Clone)]
pub enum Transport {
    Own(Arc<Connections>),
    /// kube's client, over what a test puts in the place of connections.
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
        let sent = match self {
            Self::Own(connections) => connections.send(call, limit).await,
            Self::Kube(client) => call.send(client, limit).await,
        };
        match &sent {
            Err(NoAnswer::NotSent(why)) => {
                if let Some(left_out) = UNSENT.line() {
                    tracing::warn!(why, left_out, "no connection to the API server");
                }
            }
            Err(NoAnswer::Lost(why)) => tracing::debug!(method = %call.method, uri = call.uri, why, "no answer"),
            Ok(answer) if !answer.is_success() => {
                tracing::debug!(method = %call.method, uri = call.uri, code = answer.code, "refused");
            }
            Ok(_) => {}
        }
        sent
    }
}
