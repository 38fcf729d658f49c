//! The words of an expression.

use crate::error::CompileError;
use crate::literal;
use crate::syntax::Literal;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Ident(Box<str>),
    /// Its digits, without `0x`, and their base; a sign before it may still belong to it.
    Int(Box<str>, u32),
    Literal(Literal),
    Sign(&'static str),
    /// Never in the list; what the parser sees at its end.
    End,
}

/// Longer ones first.
const SIGNS: [&str; 25] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*",
    "/", "%", "=",
];

/// The tokens with the byte at which each begins.
pub(crate) fn tokens(text: &str) -> Result<Vec<(Token, u32)>, CompileError> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        at += blank(&text[at..]);
        if at == text.len() {
            return Ok(found);
        }
        let Some((token, length)) = next(&text[at..]) else {
            let wrong: String = text[at..].chars().take(20).collect();
            return Err(CompileError::refused(format!("Syntax error: token recognition error at: '{wrong}'")));
        };
        found.push((token, at as u32));
        at += length;
    }
}

/// The bytes of white space and comments.
fn blank(text: &str) -> usize {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(['\t', ' ', '\r', '\n', '\x0c']);
        match rest.strip_prefix("//") {
            Some(comment) => rest = comment.find('\n').map_or("", |end| &comment[end..]),
            None => return text.len() - rest.len(),
        }
    }
}

fn next(text: &str) -> Option<(Token, usize)> {
    let first = *text.as_bytes().first()?;
    if let Some(found) = quoted(text) {
        return Some(found);
    }
    match first {
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
            let length = run(text, |b| b.is_ascii_alphanumeric() || b == b'_');
            Some((word(&text[..length]), length))
        }
        b'0'..=b'9' => number(text),
        b'.' if text.as_bytes().get(1).is_some_and(u8::is_ascii_digit) => number(text),
        _ => {
            let sign = SIGNS.into_iter().find(|sign| text.starts_with(sign))?;
            (sign != "=").then_some((Token::Sign(sign), sign.len()))
        }
    }
}

fn run(text: &str, is_in: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(|b| !is_in(b)).unwrap_or(text.len())
}

fn word(word: &str) -> Token {
    match word {
        "true" => Token::Literal(Literal::Bool(true)),
        "false" => Token::Literal(Literal::Bool(false)),
        "null" => Token::Literal(Literal::Null),
        "in" => Token::Sign("in"),
        _ => Token::Ident(word.into()),
    }
}

fn number(text: &str) -> Option<(Token, usize)> {
    let is_unsigned = |at: usize| matches!(text.as_bytes().get(at), Some(b'u' | b'U'));
    if let Some(hex) = text.strip_prefix("0x") {
        let length = run(hex, |b| b.is_ascii_hexdigit());
        if length > 0 {
            let digits = &hex[..length];
            return if is_unsigned(length + 2) {
                let value = u64::from_str_radix(digits, 16).ok()?;
                Some((Token::Literal(Literal::Uint(value)), length + 3))
            } else {
                Some((Token::Int(digits.into(), 16), length + 2))
            };
        }
    }
    let whole = run(text, |b| b.is_ascii_digit());
    let mut length = whole;
    if text[length..].starts_with('.') {
        let fraction = run(&text[length + 1..], |b| b.is_ascii_digit());
        length += if fraction > 0 { fraction + 1 } else { 0 };
    }
    length += exponent(&text[length..]);
    if length > whole {
        let value: f64 = text[..length].parse().ok()?;
        // Beyond what a double holds, which Go's parser refuses.
        return value.is_finite().then_some((Token::Literal(Literal::Double(value)), length));
    }
    if is_unsigned(whole) {
        return Some((Token::Literal(Literal::Uint(text[..whole].parse().ok()?)), whole + 1));
    }
    Some((Token::Int(text[..whole].into(), 10), whole))
}

fn exponent(text: &str) -> usize {
    let Some(after) = text.strip_prefix(['e', 'E']) else { return 0 };
    let sign = usize::from(after.starts_with(['+', '-']));
    match run(&after[sign..], |b| b.is_ascii_digit()) {
        0 => 0,
        digits => 1 + sign + digits,
    }
}

/// A string or bytes literal, if one begins here and ends.
fn quoted(text: &str) -> Option<(Token, usize)> {
    let is_bytes = text.starts_with(['b', 'B']);
    let after = &text[usize::from(is_bytes)..];
    let raw = after.starts_with(['r', 'R']);
    let body = &after[usize::from(raw)..];
    let quote = body.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let triple = if quote == '"' { "\"\"\"" } else { "'''" };
    let begin = text.len() - body.len();
    let long = body.strip_prefix(triple).and_then(|inner| end_of(inner, triple, raw, true).map(|end| (3, end)));
    let (width, end) = match long {
        Some(found) => found,
        None => (1, end_of(&body[1..], &triple[..1], raw, false)?),
    };
    let inner = &text[begin + width..begin + width + end];
    let value =
        if is_bytes { Literal::Bytes(literal::bytes(inner, raw)?) } else { Literal::Text(literal::text(inner, raw)?) };
    Some((Token::Literal(value), begin + 2 * width + end))
}

/// Where the closing quotes begin.
fn end_of(inner: &str, quotes: &str, raw: bool, lines: bool) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = &inner[at..];
        if rest.starts_with(quotes) {
            return Some(at);
        }
        match rest.chars().next()? {
            '\\' if !raw => at += 1 + rest[1..].chars().next()?.len_utf8(),
            '\n' | '\r' if !lines => return None,
            c => at += c.len_utf8(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Vec<Token> {
        tokens(text).unwrap().into_iter().map(|(token, _)| token).collect()
    }

    #[test]
    fn literals_of_every_kind() {
        for (text, expected) in [
            ("1.5", Literal::Double(1.5)),
            (".5e-1", Literal::Double(0.05)),
            ("1e3", Literal::Double(1000.0)),
            ("7u", Literal::Uint(7)),
            ("0xFFu", Literal::Uint(255)),
            ("null", Literal::Null),
            ("true", Literal::Bool(true)),
            ("'a\"b'", Literal::Text("a\"b".into())),
            ("'''a'b\n'''", Literal::Text("a'b\n".into())),
            ("\"\"", Literal::Text("".into())),
            ("\"\"\"\"\"\"", Literal::Text("".into())),
            (r#"r"\d""#, Literal::Text(r"\d".into())),
            (r"b'\xff'", Literal::Bytes([255].into())),
            (r"bR'\xff'", Literal::Bytes(br"\xff"[..].into())),
        ] {
            assert_eq!(plain(text), [Token::Literal(expected)], "{text}");
        }
        assert_eq!(plain("0x1F"), [Token::Int("1F".into(), 16)]);
        assert_eq!(plain("1.a"), [Token::Int("1".into(), 10), Token::Sign("."), Token::Ident("a".into())]);
        assert_eq!(plain("a // b\n"), [Token::Ident("a".into())]);
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["'a", "'a\n'", "#", "=", "a & b", r"'\q'", "`a`", "1e999", "99999999999999999999u", "\"\"\"a", "é"]
        {
            assert!(tokens(text).is_err(), "{text}");
        }
    }
}
