//! The file: a shell with style, script and data inside, and a policy by which the browser runs this script and nothing else.
//!
//! The data is JSON in a script element of another type, which ends at the first `</script`: so `<` never stands in it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::digest::{SHA256, digest};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};

const SHELL: &str = include_str!("assets/page.html");
pub(super) const STYLE: &str = include_str!("assets/page.css");
pub(super) const SCRIPT: &str = concat!(
    "\"use strict\";\n(() => {\n",
    include_str!("assets/js/data.js"),
    include_str!("assets/js/text.js"),
    include_str!("assets/js/list.js"),
    include_str!("assets/js/layout.js"),
    include_str!("assets/js/map.js"),
    include_str!("assets/js/timeline.js"),
    include_str!("assets/js/detail.js"),
    include_str!("assets/js/main.js"),
    "})();\n",
);

/// Writes the page that shows `data`.
pub(super) fn write(out: &mut dyn Write, data: &impl Serialize) -> io::Result<()> {
    // Only the shell has places to fill: what is filled in is not looked at again.
    for part in SHELL.split("{{") {
        let Some((place, after)) = part.split_once("}}") else {
            out.write_all(part.as_bytes())?;
            continue;
        };
        match place {
            "policy" => out.write_all(policy().as_bytes())?,
            "style" => out.write_all(STYLE.as_bytes())?,
            "script" => out.write_all(SCRIPT.as_bytes())?,
            _ => data.serialize(&mut Serializer::with_formatter(&mut *out, Escaping))?,
        }
        out.write_all(after.as_bytes())?;
    }
    Ok(())
}

/// The Content-Security-Policy: nothing is loaded, and text never becomes markup, whatever the script does with it.
pub(super) fn policy() -> String {
    let (script, style) = (source(SCRIPT), source(STYLE));
    format!(
        "default-src 'none'; script-src {script}; style-src {style}; base-uri 'none'; form-action 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    )
}

/// How a policy names an element with this very content.
pub(super) fn source(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(digest(&SHA256, text.as_bytes())))
}

/// Compact JSON in which nothing has a meaning for the reader of HTML or of JavaScript around it.
struct Escaping;

/// What is escaped beyond JSON's own: the ends of elements and entities, and the line ends that only JavaScript knew.
const ESCAPED: [char; 5] = ['<', '>', '&', '\u{2028}', '\u{2029}'];

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(ESCAPED) {
            let (plain, from) = rest.split_at(at);
            let mut characters = from.chars();
            out.write_all(plain.as_bytes())?;
            write!(out, "\\u{:04x}", characters.next().map_or(0, u32::from))?;
            rest = characters.as_str();
        }
        out.write_all(rest.as_bytes())
    }
}
