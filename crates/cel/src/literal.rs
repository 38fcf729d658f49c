//! What quoted texts say.

/// The text between the quotes of a string literal, its escapes resolved; nothing if one of them is wrong.
pub(crate) fn text(body: &str, raw: bool) -> Option<Box<str>> {
    String::from_utf8(unescape(body, raw, false)?).ok().map(String::into_boxed_str)
}

/// The same of a bytes literal, in which `\x` and octal escapes are bytes and `\u` is none.
pub(crate) fn bytes(body: &str, raw: bool) -> Option<Box<[u8]>> {
    unescape(body, raw, true).map(Vec::into_boxed_slice)
}

fn unescape(body: &str, raw: bool, is_bytes: bool) -> Option<Vec<u8>> {
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    if raw || !body.contains('\\') {
        return Some(body.into_bytes());
    }
    let mut rest = body.as_str();
    let mut out = Vec::with_capacity(body.len());
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = escape(&rest[at + 1..], is_bytes, &mut out)?;
    }
    out.extend_from_slice(rest.as_bytes());
    Some(out)
}

/// Resolves the escape that begins behind a backslash, and returns what follows it.
fn escape<'a>(text: &'a str, is_bytes: bool, out: &mut Vec<u8>) -> Option<&'a str> {
    let first = text.chars().next()?;
    let plain = match first {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' | '\'' | '"' | '`' | '?' => first as u8,
        'x' | 'X' => return number(text, 1, 2, 16, is_bytes, out),
        'u' if !is_bytes => return number(text, 1, 4, 16, false, out),
        'U' if !is_bytes => return number(text, 1, 8, 16, false, out),
        '0'..='3' => return number(text, 0, 3, 8, is_bytes, out),
        _ => return None,
    };
    out.push(plain);
    Some(&text[1..])
}

fn number<'a>(
    text: &'a str,
    from: usize,
    count: usize,
    radix: u32,
    is_byte: bool,
    out: &mut Vec<u8>,
) -> Option<&'a str> {
    let digits = text.get(from..from + count).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
    let value = u32::from_str_radix(digits, radix).ok()?;
    if is_byte {
        out.push(u8::try_from(value).ok()?);
    } else {
        out.extend_from_slice(char::from_u32(value)?.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(&text[from + count..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_resolved() {
        for (body, raw, expected) in [
            ("plain", false, Some("plain")),
            (r#"\a\b\f\n\r\t\v\\\'\"\`\?"#, false, Some("\x07\x08\x0c\n\r\t\x0b\\'\"`?")),
            (r"\x41\X4a\u00e9\U0001F600\101", false, Some("AJé😀A")),
            (r"\xff", false, Some("ÿ")),
            (r"\n", true, Some(r"\n")),
            ("a\r\nb\rc", false, Some("a\nb\nc")),
            (r"\q", false, None),
            (r"\x4", false, None),
            (r"\ud800", false, None),
            (r"\400", false, None),
            (r"\18", false, None),
            ("\\", false, None),
            (r"\x+1", false, None),
        ] {
            assert_eq!(text(body, raw).as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn escapes_of_bytes_are_bytes() {
        assert_eq!(bytes(r"\xff\377é", false).as_deref(), Some(&[255, 255, 0xc3, 0xa9][..]));
        assert_eq!(bytes(r"\u0041", false), None);
    }
}
