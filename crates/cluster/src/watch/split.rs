//! Cuts the body of a LIST into its items while it arrives.

use serde::Deserialize;

/// What a list holds besides its items.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListMeta {
    pub(super) resource_version: String,
    /// Where the next page begins; empty on the last.
    #[serde(rename = "continue")]
    pub(super) token: String,
}

#[derive(Deserialize)]
struct Shell {
    metadata: ListMeta,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Outside of the items.
    Shell,
    /// Between two items.
    Gap,
    /// In an item.
    Item,
}

/// A scanner of a list's JSON that holds one unfinished item at most. It follows brackets and strings only; an
/// item's decoder judges whether it is valid.
pub(super) struct ListSplitter {
    part: Part,
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The last text of the outermost object, cut short: the key before a `[`.
    key: Vec<u8>,
    shell: Vec<u8>,
    /// What the list holds besides its items, if that stands before them.
    meta: Option<ListMeta>,
    item: Vec<u8>,
}

impl ListSplitter {
    pub(super) fn new() -> Self {
        Self {
            part: Part::Shell,
            depth: 0,
            in_string: false,
            escaped: false,
            key: Vec::new(),
            shell: Vec::new(),
            meta: None,
            item: Vec::new(),
        }
    }

    /// Takes the next bytes of the body and gives each item that they complete.
    pub(super) fn push(&mut self, chunk: &[u8], mut each: impl FnMut(&[u8])) {
        let (mut at, mut from) = (0, 0);
        while at < chunk.len() {
            if self.in_string {
                at = self.skip_string(chunk, at);
                continue;
            }
            let byte = chunk[at];
            at += 1;
            match byte {
                b'"' => {
                    self.in_string = true;
                    self.key.clear();
                }
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.part == Part::Shell && byte == b'[' && self.depth == 2 && self.key == b"items" {
                        self.shell.extend_from_slice(&chunk[from..at]);
                        self.meta = read_shell(&[&self.shell, &b"]}"[..]].concat());
                        self.part = Part::Gap;
                    } else if self.part == Part::Gap && byte == b'{' && self.depth == 3 {
                        self.part = Part::Item;
                        from = at - 1;
                    }
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.part == Part::Item && self.depth == 2 {
                        self.complete(&chunk[from..at], &mut each);
                        self.part = Part::Gap;
                    } else if self.part == Part::Gap && self.depth == 1 {
                        self.part = Part::Shell;
                        from = at - 1;
                    }
                }
                _ => {}
            }
        }
        match self.part {
            Part::Shell => self.shell.extend_from_slice(&chunk[from..]),
            Part::Item => self.item.extend_from_slice(&chunk[from..]),
            Part::Gap => {}
        }
    }

    fn complete(&mut self, end: &[u8], each: &mut impl FnMut(&[u8])) {
        if self.item.is_empty() {
            each(end);
        } else {
            self.item.extend_from_slice(end);
            each(&self.item);
            self.item.clear();
        }
    }

    /// The place behind the string that `at` is in, or the end of the chunk.
    fn skip_string(&mut self, chunk: &[u8], mut at: usize) -> usize {
        if self.escaped {
            self.escaped = false;
            return at + 1;
        }
        let rest = &chunk[at..];
        let length = rest.iter().position(|b| matches!(b, b'"' | b'\\')).unwrap_or(rest.len());
        if self.part == Part::Shell {
            let kept = 16_usize.saturating_sub(self.key.len()).min(length);
            self.key.extend_from_slice(&rest[..kept]);
        }
        at += length;
        match chunk.get(at) {
            Some(b'"') => self.in_string = false,
            Some(_) => self.escaped = true,
            None => return at,
        }
        at + 1
    }

    /// What the list holds besides the items, as soon as it is known; API servers send it first.
    pub(super) const fn meta(&self) -> Option<&ListMeta> {
        self.meta.as_ref()
    }

    /// What the list held besides the items; `None` if the body broke off or is no list.
    pub(super) fn finish(self) -> Option<ListMeta> {
        read_shell(&self.shell).filter(|meta| self.part == Part::Shell && !meta.resource_version.is_empty())
    }
}

fn read_shell(json: &[u8]) -> Option<ListMeta> {
    serde_json::from_slice::<Shell>(json).ok().map(|shell| shell.metadata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn split(body: &[u8], size: usize) -> (Vec<Value>, Option<ListMeta>) {
        let mut splitter = ListSplitter::new();
        let mut items = Vec::new();
        for chunk in body.chunks(size.max(1)) {
            splitter.push(chunk, |item| items.push(serde_json::from_slice(item).unwrap()));
        }
        (items, splitter.finish())
    }

    fn tricky() -> Vec<Value> {
        vec![
            json!({"items": [{"a": "]}\"\\"}], "b": {}}),
            json!({}),
            json!({"text": "\\\"},{\u{e9}\u{1F600}", "list": [[], [{}], "items", "["]}),
        ]
    }

    #[test]
    fn items_come_whole_however_the_body_is_cut() {
        let list = json!({"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": "t", "items": []}, "items": tricky()});
        for body in [list.to_string(), serde_json::to_string_pretty(&list).unwrap()] {
            for size in 1..=body.len() {
                let (items, meta) = split(body.as_bytes(), size);
                assert_eq!(items, tricky(), "chunks of {size}");
                assert_eq!(meta, Some(ListMeta { resource_version: "7".to_owned(), token: "t".to_owned() }));
            }
        }
    }

    #[test]
    fn metadata_may_come_last_and_items_may_be_null() {
        let meta = |body: &str| split(body.as_bytes(), 5).1.map(|m| m.resource_version);
        assert_eq!(meta(r#"{"items":[{"a":1}],"metadata":{"resourceVersion":"9"}}"#), Some("9".to_owned()));
        assert_eq!(meta(r#"{"metadata":{"resourceVersion":"9"},"items":null}"#), Some("9".to_owned()));
    }

    #[test]
    fn a_body_that_breaks_off_is_no_list() {
        let body = json!({"metadata": {"resourceVersion": "7"}, "items": tricky()}).to_string();
        for end in 0..body.len() {
            assert_eq!(split(&body.as_bytes()[..end], 4_096).1, None, "cut at {end}");
        }
        assert_eq!(split(b"{\"kind\":\"Status\"}", 4_096).1, None);
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(prop::sample::select(b"{}[]\"\\items:,x".to_vec()), 0..200), size in 1_usize..50) {
            let mut splitter = ListSplitter::new();
            for chunk in bytes.chunks(size) {
                splitter.push(chunk, |_| ());
            }
            let _ = splitter.finish();
        }
    }
}
