//! Cuts the body of a LIST in protobuf into its items while it arrives.

use super::split::ListMeta;
use crate::proto::{self, Encoded, LARGEST, Reader, Type, WireError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Before the magic number of the envelope.
    Head,
    /// Between two fields of the envelope.
    Envelope,
    /// Between two fields of the list, of which so many bytes are left.
    List { left: u64 },
    /// Behind what is no list.
    Failed,
}

/// A scanner that holds one unfinished field at most: an item's decoder judges whether it is valid.
pub(super) struct MessageSplitter {
    part: Part,
    /// The bytes of a field that is not complete.
    begun: Vec<u8>,
    meta: Option<ListMeta>,
}

const METADATA: u32 = 1;
const ITEMS: u32 = 2;

/// A field's number, the size of what stands before its value, and that of the value.
struct Header {
    number: u32,
    size: usize,
    value: u64,
}

impl Header {
    /// `None` where the bytes end before it does.
    fn read(bytes: &[u8]) -> Result<Option<Self>, WireError> {
        let mut reader = Reader(bytes);
        match reader.header() {
            Ok((number, value)) => Ok(Some(Self { number, size: bytes.len() - reader.0.len(), value })),
            Err(WireError::Cut) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// The size of the whole field, if it is one that is to be held whole.
    fn whole(&self) -> Result<usize, WireError> {
        let value = usize::try_from(self.value).ok().filter(|size| *size <= LARGEST);
        Ok(self.size + value.ok_or(WireError::TooLong)?)
    }
}

impl MessageSplitter {
    pub(super) fn new() -> Self {
        Self { part: Part::Head, begun: Vec::new(), meta: None }
    }

    /// Takes the next bytes of the body and gives each item that they complete.
    pub(super) fn push(&mut self, chunk: &[u8], mut each: impl FnMut(Encoded<'_>)) {
        if self.begun.is_empty() {
            let used = self.take(chunk, &mut each);
            self.begun.extend_from_slice(&chunk[used..]);
            return;
        }
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(chunk);
        let used = self.take(&bytes, &mut each);
        bytes.drain(..used);
        self.begun = bytes;
    }

    /// Returns how many bytes are done with.
    fn take(&mut self, bytes: &[u8], each: &mut impl FnMut(Encoded<'_>)) -> usize {
        let mut used = 0;
        loop {
            match self.step(&bytes[used..], each) {
                Ok(Some(size)) => used += size,
                Ok(None) => return used,
                Err(_) => {
                    self.part = Part::Failed;
                    return bytes.len();
                }
            }
        }
    }

    /// Takes one step and returns the size of what it took; `None` where more bytes are needed for it.
    fn step(&mut self, bytes: &[u8], each: &mut impl FnMut(Encoded<'_>)) -> Result<Option<usize>, WireError> {
        match self.part {
            Part::Failed => Ok((!bytes.is_empty()).then_some(bytes.len())),
            Part::Head if bytes.len() < proto::MAGIC.len() => Ok(None),
            Part::Head if !bytes.starts_with(proto::MAGIC) => Err(WireError::OtherType),
            Part::Head => {
                self.part = Part::Envelope;
                Ok(Some(proto::MAGIC.len()))
            }
            Part::Envelope => {
                let Some(header) = Header::read(bytes)? else { return Ok(None) };
                if header.number == proto::OBJECT {
                    self.part = Part::List { left: header.value };
                    return Ok(Some(header.size));
                }
                Ok(Some(header.whole()?).filter(|whole| *whole <= bytes.len()))
            }
            Part::List { left: 0 } => {
                self.part = Part::Envelope;
                Ok(Some(0))
            }
            Part::List { left } => {
                let Some(header) = Header::read(bytes)? else { return Ok(None) };
                let whole = header.whole()?;
                let Some(value) = bytes.get(header.size..whole) else { return Ok(None) };
                let left = left.checked_sub(whole as u64).ok_or(WireError::Cut)?;
                self.part = Part::List { left };
                match header.number {
                    METADATA => self.meta = Some(list_meta(value)?),
                    ITEMS => each(Encoded::Protobuf(value)),
                    _ => {}
                }
                Ok(Some(whole))
            }
        }
    }

    /// What the list holds besides the items, as soon as it is known; API servers send it first.
    pub(super) const fn meta(&self) -> Option<&ListMeta> {
        self.meta.as_ref()
    }

    /// What the list held besides the items; `None` if the body broke off or is no list.
    pub(super) fn finish(self) -> Option<ListMeta> {
        let is_whole = matches!(self.part, Part::Envelope | Part::List { left: 0 }) && self.begun.is_empty();
        self.meta.filter(|meta| is_whole && !meta.resource_version.is_empty())
    }
}

fn list_meta(bytes: &[u8]) -> Result<ListMeta, WireError> {
    let kind = Type::named("ListMeta").unwrap_or_default();
    Encoded::Protobuf(bytes).read(kind).map_err(|_| WireError::OtherType)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(number: u8, value: &[u8]) -> Vec<u8> {
        let mut size = Vec::new();
        let mut left = value.len();
        while left > 0x7f {
            size.push((left & 0x7f) as u8 | 0x80);
            left >>= 7;
        }
        size.push(left as u8);
        [&[number << 3 | 2][..], &size, value].concat()
    }

    /// A list of these items as an API server sends it.
    fn list(items: &[&[u8]]) -> Vec<u8> {
        let meta = [field(1, b""), field(2, b"7"), field(3, b"t")].concat();
        let items: Vec<u8> = items.iter().flat_map(|item| field(2, item)).collect();
        let list = [field(1, &meta), items].concat();
        let kind = [field(1, b"v1"), field(2, b"PodList")].concat();
        [proto::MAGIC, &field(1, &kind), &field(2, &list), &field(3, b""), &field(4, b"")].concat()
    }

    fn split(body: &[u8], size: usize) -> (Vec<Vec<u8>>, Option<ListMeta>) {
        let mut splitter = MessageSplitter::new();
        let mut items = Vec::new();
        for chunk in body.chunks(size.max(1)) {
            splitter.push(chunk, |item| {
                let Encoded::Protobuf(item) = item else { panic!("JSON") };
                items.push(item.to_vec());
            });
        }
        (items, splitter.finish())
    }

    #[test]
    fn items_come_whole_however_the_body_is_cut() {
        let items: [&[u8]; 4] = [b"one", b"", &[2; 300], b"k8s\0"];
        let body = list(&items);
        for size in 1..=body.len() {
            let (found, meta) = split(&body, size);
            assert_eq!(found, items, "chunks of {size}");
            assert_eq!(meta, Some(ListMeta { resource_version: "7".to_owned(), token: "t".to_owned() }));
        }
    }

    #[test]
    fn a_body_that_breaks_off_is_no_list() {
        let body = list(&[b"one", &[2; 300]]);
        // What follows the list in the envelope says nothing that is read.
        let needed = body.len() - 4;
        for end in 0..needed {
            assert_eq!(split(&body[..end], 4_096).1, None, "cut at {end}");
        }
        assert_eq!(split(b"{\"kind\":\"Status\"}", 4_096).1, None);
        let endless = [proto::MAGIC, &[0x12, 0xff, 0xff, 0xff, 0x7f, 0x12, 0xff, 0xff, 0xff, 0x7f]].concat();
        assert_eq!(split(&endless, 4_096), (vec![], None), "an item of a quarter of a gigabyte is not waited for");
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), size in 1_usize..50, magic in any::<bool>()) {
            let body = if magic { [proto::MAGIC, &bytes].concat() } else { bytes };
            let _ = split(&body, size);
        }
    }
}
