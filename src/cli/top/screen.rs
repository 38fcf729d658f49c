//! The screen: keys, signals and looks come in, and the terminal is put back however it ends.

use super::detail;
use super::keys;
use super::model::Model;
use super::pane::Target;
use super::read::{Reader, Shared, facts};
use super::state::{Detail, State, Wish};
use super::view::{self, Colours};
use crate::cli::live::SourceArgs;
use crate::cli::now_unix_us;
use anyhow::{Context, anyhow, bail};
use crossterm::event::{Event, EventStream};
use futures::StreamExt;
use futures::future::OptionFuture;
use ratatui::DefaultTerminal;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, oneshot};
use tokio::time::{MissedTickBehavior, interval};

/// Between two looks at what is not watched.
const LOOKS: Duration = Duration::from_secs(2);

/// Between two drawings, while no key is pressed.
const DRAWN: Duration = Duration::from_secs(1);

/// What a thread that explains has found.
type Explained = oneshot::Receiver<Vec<String>>;

/// Puts the terminal back when it goes; ratatui's hook does so for a panic.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Follows the cluster until the user or a signal ends it.
pub(super) async fn run(reader: Reader, source: SourceArgs, colours: Colours) -> anyhow::Result<()> {
    let listen = |kind| signal(kind).context("signals cannot be listened for");
    let mut term = listen(SignalKind::terminate())?;
    let (mut interrupt, mut hangup) = (listen(SignalKind::interrupt())?, listen(SignalKind::hangup())?);
    let shared = reader.shared();
    let looked = Arc::new(Notify::new());
    let tell = looked.clone();
    let mut follow = pin!(reader.follow(LOOKS, move || tell.notify_one()));
    let restored = Restored;
    let mut screen = Screen::new(shared, source, colours)?;
    let mut events = EventStream::new();
    let mut ticks = interval(DRAWN);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        screen.draw()?;
        tokio::select! {
            event = events.next() => {
                let event = event.ok_or_else(|| anyhow!("the terminal is gone"))?.context("reading keys")?;
                if screen.take(&event) == Wish::Quit {
                    break;
                }
            }
            Some(lines) = OptionFuture::from(screen.explained.as_mut()) => {
                screen.explained = None;
                // Its thread panicked, and the hook has put the terminal back.
                screen.add(lines.context("the explanation failed")?);
            }
            () = looked.notified() => screen.look(),
            _ = ticks.tick() => screen.look(),
            () = &mut follow => bail!("a watch has ended"),
            _ = term.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => break,
        }
    }
    drop(restored);
    Ok(())
}

struct Screen {
    terminal: DefaultTerminal,
    shared: Shared,
    source: SourceArgs,
    colours: Colours,
    state: State,
    model: Model,
    explained: Option<Explained>,
}

impl Screen {
    fn new(shared: Shared, source: SourceArgs, colours: Colours) -> anyhow::Result<Self> {
        let terminal = ratatui::try_init().context("this terminal cannot be drawn on; --once prints instead")?;
        let (state, model) = (State::default(), Model::default());
        let mut screen = Self { terminal, shared, source, colours, state, model, explained: None };
        screen.look();
        Ok(screen)
    }

    /// Takes the facts as they are now.
    fn look(&mut self) {
        self.model = Model::of(&facts(&self.shared), &self.state.filters, now_unix_us());
        self.state.follow(&self.model);
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        let (model, state, colours) = (&self.model, &mut self.state, self.colours);
        self.terminal.draw(|frame| view::draw(frame, model, state, colours)).context("drawing")?;
        Ok(())
    }

    fn take(&mut self, event: &Event) -> Wish {
        let Event::Key(key) = event else { return Wish::Nothing };
        let Some(key) = keys::key(key) else { return Wish::Nothing };
        let filters = self.state.filters.clone();
        let wish = self.state.key(key, &self.model);
        if let Wish::Open(target) = &wish {
            self.open(target);
        }
        if self.state.detail.is_none() {
            // Nobody waits for it any more.
            self.explained = None;
        }
        if self.state.filters != filters {
            self.look();
        }
        wish
    }

    /// Opens what is known at once, and has the rest explained by a thread: it reads the whole cluster, and searches.
    fn open(&mut self, target: &Target) {
        let (mut lines, pods) = detail::opened(&facts(&self.shared), target);
        if !pods.is_empty() {
            let (done, explained) = oneshot::channel();
            let source = self.source.clone();
            // Whoever has left does not wait for it.
            let explain = move || drop(done.send(detail::explained(source, &pods)));
            match std::thread::Builder::new().name("explain".to_owned()).spawn(explain) {
                Ok(_runs) => {
                    self.explained = Some(explained);
                    lines.push(WAIT.to_owned());
                }
                Err(error) => lines.push(format!("not explained: {error}")),
            }
        }
        self.state.detail = Some(Detail { title: detail::title(target), lines, from: 0 });
    }

    /// Puts what was explained where the wait for it was said.
    fn add(&mut self, explained: Vec<String>) {
        if let Some(detail) = &mut self.state.detail {
            detail.lines.pop();
            if !detail.lines.is_empty() {
                detail.lines.push(String::new());
            }
            detail.lines.extend(explained);
        }
    }
}

const WAIT: &str = "… reading the cluster, to ask the engine";
