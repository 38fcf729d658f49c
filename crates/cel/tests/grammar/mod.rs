//! Random expressions of the types that they should have, and small random devices.

mod rules;

use rules::{LEAVES, RULES};
use serde_json::{Value, json};

/// A generator of numbers: the same seed gives the same ones for ever.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64, case: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ case.wrapping_mul(0xD1B5_4A32_D192_ED03))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

struct Writer<'r> {
    random: &'r mut Random,
    /// The variables in scope, with their types.
    variables: Vec<(String, String)>,
    introduced: usize,
    /// What may still be written.
    left: usize,
}

/// An expression that should be a bool, or one with a few tokens exchanged.
pub(crate) fn expression(random: &mut Random) -> String {
    let most = 4 << random.below(4);
    let left = 2 + random.below(most);
    let mut writer = Writer { random, variables: Vec::new(), introduced: 0, left };
    let mut text = writer.of("bool", 0);
    // Upstream allocates whatever range it is asked for, before it counts.
    if random.chance(8) && !text.contains("range(") {
        text = mutated(random, &text);
    }
    text
}

impl Writer<'_> {
    fn of(&mut self, wanted: &str, depth: usize) -> String {
        self.left = self.left.saturating_sub(1);
        let known: Vec<String> =
            self.variables.iter().filter(|(_, of)| of == wanted).map(|(name, _)| name.clone()).collect();
        if !known.is_empty() && self.random.chance(40) {
            return self.random.pick(&known).clone();
        }
        // An attribute fits everywhere, and at run time may not.
        if self.random.chance(2) && wanted != "any" && !wanted.starts_with("lit") {
            return self.of("any", depth);
        }
        let is_end = depth > 7 || self.left == 0;
        let table = if is_end { LEAVES } else { RULES };
        let rules = table.iter().find(|(of, _)| *of == wanted).or_else(|| LEAVES.iter().find(|(of, _)| *of == wanted));
        let (_, templates) = rules.unwrap_or_else(|| panic!("no rule for {wanted}"));
        let template = *self.random.pick(templates);
        let text = self.expand(template, depth + 1);
        // Without brackets another operator may take its operands.
        let is_operation = template.starts_with(['-', '!']) || template.contains("> ");
        if depth > 0 && is_operation && self.random.chance(90) { format!("({text})") } else { text }
    }

    /// `<T>` is an expression of that type; `$T` a new variable of it, which the rest of the template may use; `&T` the same
    /// behind the next expression.
    fn expand(&mut self, template: &str, depth: usize) -> String {
        let scope = self.variables.len();
        let mut out = String::new();
        let mut rest = template;
        let mut late = None;
        while let Some(at) = rest.find(['<', '$', '&']) {
            let is_hole = rest[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic());
            out.push_str(&rest[..at]);
            if !is_hole {
                out.push_str(&rest[at..=at]);
                rest = &rest[at + 1..];
                continue;
            }
            let name_at = at + 1;
            let length =
                rest[name_at..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len() - name_at);
            let name = rest[name_at..name_at + length].to_owned();
            if rest.as_bytes()[at] == b'<' {
                out.push_str(&self.of(&name, depth));
                rest = &rest[name_at + length + 1..];
                self.variables.extend(late.take());
            } else {
                self.introduced += 1;
                let variable = format!("v{}", self.introduced);
                out.push_str(&variable);
                if rest.as_bytes()[at] == b'&' {
                    late = Some((variable, name));
                } else {
                    self.variables.push((variable, name));
                }
                rest = &rest[name_at + length..];
            }
        }
        out.push_str(rest);
        self.variables.truncate(scope);
        out
    }
}

/// The text with some of its characters and words missing, doubled or exchanged.
fn mutated(random: &mut Random, text: &str) -> String {
    let mut words: Vec<String> = vec![String::new()];
    for c in text.chars() {
        let goes_on =
            c.is_ascii_alphanumeric() && words.last().is_some_and(|w| w.ends_with(|l: char| l.is_ascii_alphanumeric()));
        if goes_on {
            words.last_mut().unwrap().push(c);
        } else {
            words.push(c.to_string());
        }
    }
    for _ in 0..=random.below(2) {
        let (a, b) = (random.below(words.len()), random.below(words.len()));
        match random.below(4) {
            0 => words[a].clear(),
            1 => words.swap(a, b),
            2 => {
                let copied = words[b].clone();
                words[a] = copied;
            }
            _ => {
                let extra = *random.pick(&[
                    "?", "!", "-", ".", "(", ")", "[", "]", "{", "}", ",", ":", "1", "x", "'", "\\", "in", "&&", "||",
                    "null", "0x", "u", "e",
                ]);
                words.insert(a, extra.to_owned());
            }
        }
    }
    words.concat()
}

/// A device as the API has it.
pub(crate) fn device(random: &mut Random) -> Value {
    let mut attributes = serde_json::Map::new();
    for name in ["model", "cores", "fast", "version", "other.example.com/model", "other.example.com/numa"] {
        if random.chance(15) {
            continue;
        }
        let usual = match name.rsplit('/').next().unwrap() {
            "model" => 0,
            "cores" | "numa" => 1,
            "fast" => 2,
            _ => 3,
        };
        let kind = if random.chance(85) { usual } else { random.below(4) };
        let value = match kind {
            0 => {
                json!({ "string": random.pick(&["A100", "H100", "a100", "", "A100-SXM4-80GB", "été", "1.2.3", "10"]) })
            }
            1 => json!({ "int": random.pick(&[0_i64, 1, 2, 40, -1, 108, i64::MAX, i64::MIN]) }),
            2 => json!({ "bool": random.chance(50) }),
            _ => json!({ "version": random.pick(&["1.2.3", "1.0.0", "2.0.0-rc.1", "1.2.3+build", "0.0.1", "10.0.0"]) }),
        };
        attributes.insert(name.to_owned(), value);
    }
    let mut capacity = serde_json::Map::new();
    for name in ["memory", "share", "other.example.com/memory"] {
        if random.chance(85) {
            let value = *random.pick(&["40Gi", "80Gi", "0", "1", "500m", "1k", "100", "1536Mi", "1e3", "128974848"]);
            capacity.insert(name.to_owned(), json!({ "value": value }));
        }
    }
    let mut device = json!({ "name": "device" });
    if !attributes.is_empty() {
        device["attributes"] = attributes.into();
    }
    if !capacity.is_empty() {
        device["capacity"] = capacity.into();
    }
    if random.chance(30) {
        device["allowMultipleAllocations"] = random.chance(70).into();
    }
    device
}
