//! URLs as Go reads them. After `net/url`.

use super::printf::put;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::signatures::{Evaluated, Run, Shape, Signature, TEXTS};
use crate::text::Text;
use crate::value::{Key, Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

const fn of_url(name: &'static str, run: Run) -> Signature {
    Signature::member(name, &[Shape::Url], Shape::Text, run)
}

pub(crate) const SIGNATURES: &[Signature] = &[
    Signature::global("url", &[Shape::Text], Shape::Url, url),
    Signature::global("isURL", &[Shape::Text], Shape::Bool, is_url),
    of_url("getScheme", scheme),
    of_url("getHost", host),
    of_url("getHostname", hostname),
    of_url("getPort", port),
    of_url("getEscapedPath", escaped_path),
    Signature::member("getQuery", &[Shape::Url], Shape::Map(&Shape::Text, &TEXTS), query),
];

/// The parts of a URL; two are equal if they are written the same.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    /// Instead of host and path, as in `mailto:someone`.
    opaque: String,
    user: Option<String>,
    host: String,
    path: String,
    query: Option<String>,
    fragment: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    User,
    Host,
    Path,
    Query,
    Fragment,
}

/// Reads the target of a request: a path, or a URL without fragment.
pub(crate) fn parse_request(text: &str) -> Option<Url> {
    if text.is_empty() { None } else { parse(text, true) }
}

/// Reads what [`parse_request`] takes, with its fragment.
fn parse_both(text: &str) -> Option<Url> {
    parse_request(text)?;
    let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
    let url = parse(text, false)?;
    unescape(fragment, Place::Fragment)?;
    Some(Url { fragment: fragment.to_owned(), ..url })
}

fn parse(text: &str, is_request: bool) -> Option<Url> {
    if text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return None;
    }
    if text == "*" {
        return Some(Url { path: "*".to_owned(), ..Url::default() });
    }
    let (scheme, rest) = split_scheme(text)?;
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query.to_owned())));
    let mut url = Url { scheme: scheme.to_ascii_lowercase(), query, ..Url::default() };
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            rest.clone_into(&mut url.opaque);
            return Some(url);
        }
        // Without a scheme, a colon may only come behind a slash.
        let is_path = !is_request && !rest.split('/').next().is_some_and(|first| first.contains(':'));
        if !is_path {
            return None;
        }
    }
    let mut path = rest;
    let may_have_host = !scheme.is_empty() || (!is_request && !rest.starts_with("///"));
    if may_have_host && let Some(after) = rest.strip_prefix("//") {
        let end = after.find('/').unwrap_or(after.len());
        path = &after[end..];
        (url.user, url.host) = authority(&url.scheme, &after[..end])?;
    }
    url.path = escaped(path)?;
    Some(url)
}

fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, b) in text.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at > 0 => return Some((&text[..at], &text[at + 1..])),
            b':' => return None,
            _ => break,
        }
    }
    Some(("", text))
}

fn authority(scheme: &str, text: &str) -> Option<(Option<String>, String)> {
    let (user, host) = text.rsplit_once('@').map_or((None, text), |(user, host)| (Some(user), host));
    if let Some(user) = user {
        let is_valid = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
        if !user.bytes().all(is_valid) {
            return None;
        }
        unescape(user, Place::User)?;
    }
    let bracket = host.rfind('[');
    let colon = if bracket == Some(0) {
        host.rfind(']')? + 1
    } else if matches!(scheme, "http" | "https") {
        // A second colon is wrong here, and allowed in other schemes.
        host.find(':').unwrap_or(host.len())
    } else {
        host.rfind(':').unwrap_or(host.len())
    };
    if bracket.is_some_and(|at| at > 0) || !is_port(&host[colon..]) {
        return None;
    }
    if bracket == Some(0) {
        let inner = &host[1..colon - 1];
        let address = inner.split_once("%25").map_or(inner, |(address, _)| address);
        address.parse::<core::net::Ipv6Addr>().ok()?;
    }
    Some((user.map(str::to_owned), unescape(host, Place::Host)?))
}

/// Nothing, or a colon and digits.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
}

/// The path as it is sent: as written if that is right, else escaped anew.
fn escaped(path: &str) -> Option<String> {
    let plain = unescape(path, Place::Path)?;
    let is_right = |b: u8| b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@[]%/".contains(&b);
    if path.bytes().all(is_right) {
        return Some(path.to_owned());
    }
    let is_kept = |b: u8| b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&b);
    let mut out = String::new();
    for b in plain.bytes() {
        if is_kept(b) { out.push(char::from(b)) } else { put(&mut out, format_args!("%{b:02X}")) }
    }
    Some(out)
}

fn unescape(text: &str, place: Place) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(b) = bytes.get(at) {
        match b {
            b'%' => {
                let digits = text.get(at + 1..at + 3).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
                let value = u8::from_str_radix(digits, 16).ok()?;
                // A host escapes only what is not ASCII, and the sign before a zone.
                if place == Place::Host && value < 0x80 && digits != "25" {
                    return None;
                }
                out.push(value);
                at += 3;
                continue;
            }
            b'+' if place == Place::Query => out.push(b' '),
            b if place == Place::Host && b.is_ascii() && !is_host_byte(*b) => return None,
            b => out.push(*b),
        }
        at += 1;
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

fn is_host_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&b)
}

fn text<'v>(args: &'v [Value<'_>]) -> Result<&'v str, EvalError> {
    if let [Value::Text(text)] = args { Ok(text) } else { Err(EvalError::NoSuchOverload) }
}

fn one<'v>(args: &'v [Value<'_>]) -> Result<&'v Url, EvalError> {
    if let [Value::Url(url)] = args { Ok(url) } else { Err(EvalError::NoSuchOverload) }
}

fn url<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let text = text(args)?;
    meter.bytes(text.len())?;
    let url = parse_both(text).ok_or_else(|| EvalError::failed("URL parse error during conversion from string"))?;
    Ok(Value::Url(Arc::new(url)))
}

fn is_url<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let text = text(args)?;
    meter.bytes(text.len())?;
    Ok(Value::Bool(parse_request(text).is_some()))
}

fn scheme<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::text(&*one(args)?.scheme))
}

fn host<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::text(&*one(args)?.host))
}

/// Host and port, brackets around an address aside.
fn split_host(host: &str) -> (&str, &str) {
    let colon = host.rfind(':').filter(|colon| is_port(&host[*colon..])).unwrap_or(host.len());
    let (name, port) = host.split_at(colon);
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    (inner.unwrap_or(name), port.strip_prefix(':').unwrap_or(port))
}

fn hostname<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::text(split_host(&one(args)?.host).0))
}

fn port<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::text(split_host(&one(args)?.host).1))
}

fn escaped_path<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::text(&*one(args)?.path))
}

fn query<'a>(meter: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let query = one(args)?.query.as_deref().unwrap_or("");
    meter.steps(query.len())?;
    let mut found: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
    // What is wrong with one pair does not touch the others.
    for pair in query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(key), Some(value)) = (unescape(key, Place::Query), unescape(value, Place::Query)) {
            found.entry(key).or_default().push(Value::text(value));
        }
    }
    let entry = |(key, values): (String, Vec<Value<'a>>)| (Key::Text(Text::Shared(key.into())), Value::list(values));
    Ok(Value::Map(Arc::new(found.into_iter().map(entry).collect::<Map<'a>>())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_fall_into_their_parts() {
        for (text, scheme, host, path) in [
            ("https://example.com:80/a%20b?c=d#e", "https", "example.com:80", "/a%20b"),
            ("/path/only", "", "", "/path/only"),
            ("HTTP://[::1]:8080", "http", "[::1]:8080", ""),
            ("mailto:a@b", "mailto", "", ""),
            ("http://u:p@h/é", "http", "h", "/%C3%A9"),
        ] {
            let url = parse_both(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((&*url.scheme, &*url.host, &*url.path), (scheme, host, path), "{text}");
        }
        for text in ["", "a", "../x", ":a", "http://a b", "http://h:x", "http://[::1", "/%zz", "/a\n", "http://%41/"] {
            assert_eq!(parse_both(text), None, "{text}");
        }
        assert_eq!(split_host("[::1]:8080"), ("::1", "8080"));
    }
}
