//! The terminal's keys, as [`Key`] has them.

use super::state::Key;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The key that was pressed, if it means something here.
pub(super) fn key(event: &KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let with = |modifier| event.modifiers.contains(modifier);
    Some(match event.code {
        KeyCode::Char('c') if with(KeyModifiers::CONTROL) => Key::Break,
        KeyCode::Char(_) if with(KeyModifiers::CONTROL) || with(KeyModifiers::ALT) => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::First,
        KeyCode::End => Key::Last,
        KeyCode::Tab | KeyCode::Right => Key::Next,
        KeyCode::BackTab | KeyCode::Left => Key::Previous,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Erase,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_a_pager() {
        let of = |code, modifiers| key(&KeyEvent::new(code, modifiers));
        let plain = KeyModifiers::NONE;
        assert_eq!(of(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Break));
        assert_eq!(of(KeyCode::Char('c'), plain), Some(Key::Char('c')));
        assert_eq!(of(KeyCode::Char('G'), KeyModifiers::SHIFT), Some(Key::Char('G')));
        assert_eq!(of(KeyCode::Char('x'), KeyModifiers::ALT), None);
        assert_eq!((of(KeyCode::Tab, plain), of(KeyCode::BackTab, plain)), (Some(Key::Next), Some(Key::Previous)));
        assert_eq!(of(KeyCode::F(1), plain), None);
    }
}
