use super::report::{Compared, Read};
use anyhow::{Context, anyhow, bail};
use axum::http::{Request, Uri};
use berth_api::ShadowStatus;
use kube::{Client, Config};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::timeout;

/// Longest wait for one page.
const WITHIN: Duration = Duration::from_secs(10);

/// Comparisons of a page, as many as the door gives.
const PER_PAGE: usize = 1_000;

/// Most pages: what is kept changes while it is read, and has an end all the same.
const PAGES: usize = 32;

/// A page as the door gives it.
#[derive(Debug, Deserialize)]
struct Page {
    #[serde(default)]
    figures: ShadowStatus,
    #[serde(rename = "continue")]
    next: Option<String>,
    #[serde(default)]
    comparisons: Vec<Compared>,
}

/// What the process behind `door` has compared for `profile`.
pub(super) async fn shadow(door: &Uri, profile: &str) -> anyhow::Result<Read> {
    let is_of_a_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    if profile.is_empty() || !profile.chars().all(is_of_a_name) {
        bail!("{profile:?} is no profile's name: write one of kubectl get sprof");
    }
    let client = connect(door)?;
    let mut read = Read { profile: profile.to_owned(), ..Read::default() };
    let mut after = 0;
    for _ in 0..PAGES {
        let page = page(&client, door, profile, after).await?;
        read.figures = page.figures;
        read.comparisons.extend(page.comparisons);
        match page.next {
            Some(next) => after = next.parse().with_context(|| format!("{door}: continue: {next}"))?,
            None => break,
        }
    }
    Ok(read)
}

fn connect(door: &Uri) -> anyhow::Result<Client> {
    if door.scheme().is_none() || door.host().is_none() {
        bail!("--debug-url {door}: write a whole URL, such as {}", super::DOOR);
    }
    let mut config = Config::new(door.clone());
    config.default_retry = false;
    Client::try_from(config).context("--debug-url")
}

async fn page(client: &Client, door: &Uri, profile: &str, after: u64) -> anyhow::Result<Page> {
    let path = format!("/debug/shadow?profile={profile}&limit={PER_PAGE}&continue={after}");
    let request = Request::get(path).body(Vec::new())?;
    let answer = timeout(WITHIN, client.request_text(request)).await;
    let answer = answer.map_err(|_| anyhow!("{door}: no answer within {} s", WITHIN.as_secs()))?;
    let text = answer.map_err(|error| refused(door, profile, error))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{door}: what answers is not this version of Berth's pages for debugging"))
}

fn refused(door: &Uri, profile: &str, error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(answer) if answer.code == 404 => anyhow!(
            "no profile {profile} in mode DryRun at {door}: ask the replica that leads, whose pod begins the holder of the Lease \
             (kubectl -n kube-system get lease berth.scheduling.berth.dev), and see the profile's conditions (kubectl get sprof)"
        ),
        error => anyhow!(error).context(format!(
            "{door}: forward the port of the replica that leads (kubectl -n berth-system port-forward POD 8082), or give --debug-url"
        )),
    }
}
