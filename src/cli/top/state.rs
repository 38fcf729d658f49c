//! Where the user is: the pane, the row, the filters, what is open over them. Pure: keys in, wishes out.

use super::model::Model;
use super::pane::{Filters, Pane, Target};

/// Characters of a filter.
const FILTER: usize = 100;

/// A key as far as it means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Next,
    Previous,
    Enter,
    Escape,
    Erase,
    Char(char),
    /// Ctrl-C.
    Break,
}

/// What the user wants that is not on the screen already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Quit,
    Open(Target),
}

/// A text over the panes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Detail {
    pub(super) title: String,
    pub(super) lines: Vec<String>,
    /// The first line that is shown.
    pub(super) from: usize,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) focus: Pane,
    /// The pane that shares the screen with the profiles, where not all have room.
    pub(super) lower: Pane,
    pub(super) filters: Filters,
    /// Whether keys go into the filter.
    pub(super) typing: bool,
    pub(super) help: bool,
    pub(super) detail: Option<Detail>,
    /// Rows that fit into the pane or text in front, as last drawn.
    pub(super) page: usize,
    chosen: [usize; 5],
    /// What was chosen, which other rows may overtake.
    targets: [Option<Target>; 5],
}

impl Default for State {
    fn default() -> Self {
        Self {
            focus: Pane::Profiles,
            lower: Pane::Pods,
            filters: Filters::default(),
            typing: false,
            help: false,
            detail: None,
            page: 1,
            chosen: [0; 5],
            targets: [const { None }; 5],
        }
    }
}

impl State {
    /// The chosen row of a pane.
    pub(super) const fn chosen(&self, pane: Pane) -> usize {
        self.chosen[pane as usize]
    }

    /// Goes with the chosen rows to where they are in `model`.
    pub(super) fn follow(&mut self, model: &Model) {
        for pane in Pane::ALL {
            let (rows, i) = (&model.section(pane).rows, pane as usize);
            let found = self.targets[i].as_ref().and_then(|target| rows.iter().position(|row| row.target == *target));
            self.chosen[i] = found.unwrap_or(self.chosen[i]).min(rows.len().saturating_sub(1));
        }
    }

    /// Takes a key.
    pub(super) fn key(&mut self, key: Key, model: &Model) -> Wish {
        if key == Key::Break {
            return Wish::Quit;
        }
        if self.typing {
            self.type_in(key);
        } else if self.help {
            self.help = false;
        } else if self.detail.is_some() {
            self.read(key);
        } else {
            return self.look_around(key, model);
        }
        Wish::Nothing
    }

    fn type_in(&mut self, key: Key) {
        let filter = &mut self.filters[self.focus as usize];
        match key {
            Key::Char(c) if filter.chars().count() < FILTER => filter.push(c),
            Key::Erase => drop(filter.pop()),
            Key::Escape => {
                filter.clear();
                self.typing = false;
            }
            Key::Enter => self.typing = false,
            _ => {}
        }
    }

    fn read(&mut self, key: Key) {
        let Some(detail) = &mut self.detail else { return };
        let last = detail.lines.len().saturating_sub(self.page);
        detail.from = match key {
            Key::Escape | Key::Enter | Key::Char('q') => {
                self.detail = None;
                return;
            }
            key => moved(detail.from, key, self.page, last),
        };
    }

    fn look_around(&mut self, key: Key, model: &Model) -> Wish {
        match key {
            Key::Char('q') => return Wish::Quit,
            Key::Char('?') => self.help = true,
            Key::Char('/') => self.typing = true,
            Key::Escape => self.filters[self.focus as usize].clear(),
            Key::Next => self.turn_to(1),
            Key::Previous => self.turn_to(Pane::ALL.len() - 1),
            Key::Enter => return self.open(model),
            key => {
                let (rows, i) = (&model.section(self.focus).rows, self.focus as usize);
                self.chosen[i] = moved(self.chosen[i], key, self.page, rows.len().saturating_sub(1));
                self.targets[i] = rows.get(self.chosen[i]).map(|row| row.target.clone());
            }
        }
        Wish::Nothing
    }

    fn turn_to(&mut self, further: usize) {
        self.focus = Pane::ALL[(self.focus as usize + further) % Pane::ALL.len()];
        if self.focus != Pane::Profiles {
            self.lower = self.focus;
        }
    }

    /// Opens the chosen row. A reason leads to its pods.
    fn open(&mut self, model: &Model) -> Wish {
        let row = model.section(self.focus).rows.get(self.chosen(self.focus));
        match row.map(|row| &row.target) {
            Some(Target::Reason(_, text)) => {
                (self.focus, self.lower) = (Pane::Pods, Pane::Pods);
                self.filters[Pane::Pods as usize].clone_from(text);
                Wish::Nothing
            }
            Some(target @ (Target::Pod(_) | Target::Profile(_))) => Wish::Open(target.clone()),
            Some(Target::Node(_)) | None => Wish::Nothing,
        }
    }
}

/// Where a key leads from `at`, from 0 to `last`.
fn moved(at: usize, key: Key, page: usize, last: usize) -> usize {
    let to = match key {
        Key::Up | Key::Char('k') => at.saturating_sub(1),
        Key::Down | Key::Char('j') => at + 1,
        Key::PageUp => at.saturating_sub(page),
        Key::PageDown | Key::Char(' ') => at + page,
        Key::First | Key::Char('g') => 0,
        Key::Last | Key::Char('G') => last,
        _ => at,
    };
    to.min(last)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NOW_US, apply, facts, pod, refused};
    use super::*;

    fn model(state: &State) -> Model {
        Model::of(&facts(), &state.filters, NOW_US)
    }

    fn press(state: &mut State, keys: &[Key]) -> Wish {
        let mut wish = Wish::Nothing;
        for key in keys {
            let model = model(state);
            wish = state.key(*key, &model);
        }
        wish
    }

    fn typed(state: &mut State, text: &str) {
        let keys: Vec<Key> = text.chars().map(Key::Char).collect();
        press(state, &keys);
    }

    #[test]
    fn enter_opens_what_is_chosen() {
        let mut state = State::default();
        assert_eq!(press(&mut state, &[Key::Enter]), Wish::Open(Target::Profile("batch".to_owned())));
        let wish = press(&mut state, &[Key::Next, Key::Down, Key::Char('j'), Key::Char('j'), Key::Enter]);
        let Wish::Open(Target::Pod(key)) = wish else { panic!("{wish:?}") };
        assert_eq!(key.to_string(), "ci/train", "the last one, though Down was pressed once more");
        let wish = press(&mut state, &[Key::Previous, Key::Previous, Key::Enter]);
        assert_eq!((wish, state.focus), (Wish::Nothing, Pane::Nodes));
    }

    #[test]
    fn a_reason_leads_to_its_pods() {
        let model_at_first = model(&State::default());
        for (i, row) in model_at_first.section(Pane::Reasons).rows.iter().enumerate() {
            let mut state = State::default();
            press(&mut state, &[Key::Next, Key::Next]);
            press(&mut state, &vec![Key::Down; i]);
            press(&mut state, &[Key::Enter]);
            assert_eq!(state.focus, Pane::Pods);
            assert_eq!(model(&state).section(Pane::Pods).count.to_string(), row.cells[0], "{row:?}");
        }
    }

    #[test]
    fn a_filter_is_typed_kept_and_dropped() {
        let mut state = State::default();
        press(&mut state, &[Key::Next, Key::Char('/')]);
        typed(&mut state, "TRAINq");
        press(&mut state, &[Key::Erase]);
        assert_eq!(model(&state).section(Pane::Pods).count, 1, "case does not count");
        press(&mut state, &[Key::Enter]);
        assert!(!state.typing && state.filters[Pane::Pods as usize] == "TRAIN");
        press(&mut state, &[Key::Escape]);
        assert_eq!(model(&state).section(Pane::Pods).count, 3);
        press(&mut state, &[Key::Char('/')]);
        typed(&mut state, &"x".repeat(FILTER + 9));
        assert_eq!(state.filters[Pane::Pods as usize].len(), FILTER);
        assert_eq!(press(&mut state, &[Key::Break]), Wish::Quit);
    }

    #[test]
    fn what_is_chosen_stays_chosen_when_rows_come_before_it() {
        let (mut state, mut facts) = (State::default(), facts());
        press(&mut state, &[Key::Next, Key::Last]);
        let mut earlier = refused(pod("first", "1", ""), "no");
        earlier["metadata"]["creationTimestamp"] = serde_json::json!("2025-01-01T00:00:00Z");
        apply(&mut facts, earlier, "Pod");
        state.follow(&Model::of(&facts, &state.filters, NOW_US));
        assert_eq!(state.chosen(Pane::Pods), 3);
        // It is gone: the row in its place.
        state.filters[Pane::Pods as usize] = "first".to_owned();
        state.follow(&Model::of(&facts, &state.filters, NOW_US));
        assert_eq!(state.chosen(Pane::Pods), 0);
    }

    #[test]
    fn a_text_is_read_and_left() {
        let lines = (0..10).map(|i| i.to_string()).collect();
        let detail = Some(Detail { title: "t".to_owned(), lines, from: 0 });
        let mut state = State { detail, page: 4, ..State::default() };
        let from = |state: &State| state.detail.as_ref().map(|detail| detail.from);
        press(&mut state, &[Key::PageDown, Key::Down]);
        assert_eq!(from(&state), Some(5));
        press(&mut state, &[Key::Last]);
        assert_eq!(from(&state), Some(6), "the last page is whole");
        press(&mut state, &[Key::Char('q')]);
        assert_eq!(from(&state), None);
        press(&mut state, &[Key::Char('?')]);
        assert!(state.help);
        assert_eq!(press(&mut state, &[Key::Char('q')]), Wish::Nothing, "it closes the help");
        assert_eq!(press(&mut state, &[Key::Char('q')]), Wish::Quit);
    }
}
