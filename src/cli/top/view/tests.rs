use super::super::facts::Facts;
use super::super::state::{Detail, Key};
use super::super::testing::{NOW_US, apply, facts, node, pod, refused};
use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

fn buffer(facts: &Facts, state: &mut State, size: (u16, u16), colours: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    let model = Model::of(facts, &state.filters, NOW_US);
    state.follow(&model);
    terminal.draw(|frame| draw(frame, &model, state, Colours(colours))).unwrap();
    terminal.backend().buffer().clone()
}

/// The lines of the screen.
fn drawn(facts: &Facts, state: &mut State, size: (u16, u16)) -> Vec<String> {
    let buffer = buffer(facts, state, size, false);
    let cells = buffer.content().chunks(usize::from(size.0));
    cells.map(|line| line.iter().map(ratatui::buffer::Cell::symbol).collect()).collect()
}

fn press(facts: &Facts, state: &mut State, keys: &[Key]) {
    for key in keys {
        let model = Model::of(facts, &state.filters, NOW_US);
        state.key(*key, &model);
    }
}

/// The line that has `text`.
fn line<'l>(lines: &'l [String], text: &str) -> &'l str {
    lines.iter().find(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text} in\n{}", lines.join("\n")))
}

#[test]
fn a_small_screen_has_the_profiles_and_one_more_pane() {
    let (facts, mut state) = (facts(), State::default());
    let lines = drawn(&facts, &mut state, (100, 24));
    assert!(lines[0].starts_with("berth top · https://10.0.0.1 · berth-0_1-2 leads"), "{lines:#?}");
    assert!(line(&lines, "▸ Profiles (1)").starts_with('┌'));
    assert!(line(&lines, "batch").contains("Serving"));
    assert!(line(&lines, "Waiting pods (3)").starts_with('└') || line(&lines, "Waiting pods (3)").starts_with('┌'));
    assert!(line(&lines, "ci/train").contains("Unschedulable"));
    assert!(!lines.iter().any(|line| line.contains("Nodes by fill")), "{lines:#?}");
    press(&facts, &mut state, &[Key::Previous]);
    let lines = drawn(&facts, &mut state, (100, 24));
    assert!(line(&lines, "small").contains("███████░░░  75 %  cpu"), "{lines:#?}");
    assert!(line(&lines, "large").contains("cordoned"));
}

#[test]
fn a_large_screen_has_all_panes() {
    let (facts, mut state) = (facts(), State::default());
    let lines = drawn(&facts, &mut state, (180, 50));
    for pane in Pane::ALL {
        line(&lines, pane.title());
    }
    // A column is whole, or not there.
    assert!(line(&lines, "gpu").contains("Degraded"), "{lines:#?}");
    assert!(line(&lines, "EXTENDER").trim_end_matches(['│', ' ']).ends_with("CALLS/S  FAILED/S"), "{lines:#?}");
}

#[test]
fn a_screen_that_is_too_small_says_so_and_none_panics() {
    let (facts, mut state) = (facts(), State::default());
    state.filters[Pane::Pods as usize] = "é".repeat(90);
    for width in [1, 2, 3, 39, 40, 41, 80, 139, 140, 300] {
        for height in [1, 2, 3, 9, 10, 11, 31, 37, 80] {
            for detail in [None, Some(Detail { title: "t".to_owned(), lines: vec!["l".repeat(500); 99], from: 90 })] {
                state.detail = detail;
                let lines = drawn(&facts, &mut state, (width, height));
                assert_eq!(lines.len(), usize::from(height));
            }
        }
    }
    state.detail = None;
    assert!(drawn(&facts, &mut state, (39, 12)).concat().contains("needs 40 columns"));
}

#[test]
fn what_is_chosen_is_reversed_and_its_page_is_shown() {
    let (mut facts, mut state) = (facts(), State::default());
    for i in 0..60 {
        apply(&mut facts, node(&format!("n{i:02}"), "1"), "Node");
    }
    press(&facts, &mut state, &[Key::Previous, Key::Last]);
    let lines = drawn(&facts, &mut state, (100, 24));
    line(&lines, "n59");
    let buffer = buffer(&facts, &mut state, (100, 24), false);
    let reversed = buffer.content().iter().filter(|cell| cell.modifier.contains(Modifier::REVERSED));
    let text: String = reversed.map(ratatui::buffer::Cell::symbol).collect();
    assert!(text.contains("n59"), "{text}");
}

#[test]
fn without_colours_there_are_none_and_with_them_a_refused_pod_is_red() {
    let facts = facts();
    let coloured = |colours| {
        let buffer = buffer(&facts, &mut State::default(), (120, 30), colours);
        buffer.content().iter().any(|cell| cell.fg == Color::Red)
    };
    assert_eq!((coloured(true), coloured(false)), (true, false));
}

#[test]
fn notes_filters_help_and_texts_are_shown() {
    let (mut facts, mut state) = (facts(), State::default());
    facts.not_scraped("no".to_owned());
    press(&facts, &mut state, &[Key::Next, Key::Char('/'), Key::Char('t')]);
    let lines = drawn(&facts, &mut state, (100, 24));
    assert!(line(&lines, "! metrics not read: no.").starts_with('!'));
    assert!(line(&lines, "Waiting pods").contains("/t"));
    assert_eq!(lines.last().unwrap().trim_end(), "/t▏");
    press(&facts, &mut state, &[Key::Enter, Key::Char('?')]);
    line(&drawn(&facts, &mut state, (100, 24)), "what berth explain says");
    state.help = false;
    let lines = (0..90).map(|i| format!("line {i}")).collect();
    state.detail = Some(Detail { title: "Pod ci/train".to_owned(), lines, from: 7 });
    let lines = drawn(&facts, &mut state, (100, 24));
    line(&lines, "Pod ci/train");
    assert!(line(&lines, "line 7").starts_with("│line 7"), "{lines:#?}");
}

#[test]
fn hostile_names_are_drawn_as_text() {
    let (mut facts, mut state) = (facts(), State::default());
    apply(&mut facts, refused(pod("evil", "1", ""), "\u{1b}[2J\u{202e}\nline"), "Pod");
    press(&facts, &mut state, &[Key::Next]);
    let lines = drawn(&facts, &mut state, (120, 30));
    assert!(line(&lines, "ci/evil").contains(r"\u{1b}[2J\u{202e}\nline"), "{lines:#?}");
    assert!(!lines.concat().contains(['\u{1b}', '\u{202e}']));
}
