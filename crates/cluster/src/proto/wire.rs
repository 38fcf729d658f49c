/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("the message breaks off")]
    Cut,
    #[error("a number of more than ten bytes")]
    LongNumber,
    #[error("wire type {0}, which ended or was never begun")]
    WireType(u8),
    #[error("a value of another wire type than its field has")]
    OtherType,
    #[error("a value longer than any object can be")]
    TooLong,
}

/// The value of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// One of four or eight bytes, which no published type has.
    Fixed,
}

impl<'a> Wire<'a> {
    pub const fn number(self) -> Result<u64, WireError> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) | Self::Fixed => Err(WireError::OtherType),
        }
    }

    pub const fn bytes(self) -> Result<&'a [u8], WireError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Fixed => Err(WireError::OtherType),
        }
    }

    /// Whether it is the zero of its type: 0, false, the empty text, the empty message.
    pub const fn is_zero(self) -> bool {
        matches!(self, Self::Number(0) | Self::Bytes([]))
    }
}

/// Reads a message field by field. Wire types are those of <https://protobuf.dev/programming-guides/encoding/>; of them
/// Kubernetes uses numbers and bytes alone; others are skipped.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

const NUMBER: u8 = 0;
const EIGHT_BYTES: u8 = 1;
const BYTES: u8 = 2;
const FOUR_BYTES: u8 = 5;

/// The size up to which an object is taken, in bytes: many times what etcd stores in one.
pub const LARGEST: usize = 64 << 20;

/// A field number has 29 bits; a larger one is of no field that we know.
fn number_in(tag: u64) -> u32 {
    u32::try_from(tag >> 3).ok().filter(|number| *number < 1 << 29).unwrap_or(u32::MAX)
}

impl<'a> Reader<'a> {
    /// The number and value of the next field; `None` at the end of the message.
    pub fn field(&mut self) -> Result<Option<(u32, Wire<'a>)>, WireError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.number()?;
        let value = match (tag & 7) as u8 {
            NUMBER => Wire::Number(self.number()?),
            BYTES => {
                let length = usize::try_from(self.number()?).map_err(|_| WireError::Cut)?;
                Wire::Bytes(self.bytes(length)?)
            }
            EIGHT_BYTES => self.bytes(8).map(|_| Wire::Fixed)?,
            FOUR_BYTES => self.bytes(4).map(|_| Wire::Fixed)?,
            other => return Err(WireError::WireType(other)),
        };
        Ok(Some((number_in(tag), value)))
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(WireError::Cut)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The number of the next field and the size of its value. A value that is no message has no size in front of it: such fields are an error.
    pub fn header(&mut self) -> Result<(u32, u64), WireError> {
        let tag = self.number()?;
        match (tag & 7) as u8 {
            BYTES => Ok((number_in(tag), self.number()?)),
            other => Err(WireError::WireType(other)),
        }
    }

    /// A number in base 128, the lowest seven bits first.
    pub fn number(&mut self) -> Result<u64, WireError> {
        if let [byte @ ..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok(u64::from(*byte));
        }
        let mut number = 0;
        for (at, byte) in self.0.iter().enumerate() {
            if at == 10 {
                return Err(WireError::LongNumber);
            }
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(number);
            }
        }
        Err(if self.0.len() > 9 { WireError::LongNumber } else { WireError::Cut })
    }

    /// The value of the field, if it comes next.
    pub fn next_if(&mut self, number: u32) -> Result<Option<Wire<'a>>, WireError> {
        let mut ahead = *self;
        Ok(match ahead.field()? {
            Some((found, value)) if found == number => {
                *self = ahead;
                Some(value)
            }
            _ => None,
        })
    }
}

/// The value that a message holds for the field last.
pub(super) fn field_of(message: &[u8], number: u32) -> Result<Option<Wire<'_>>, WireError> {
    let (mut reader, mut value) = (Reader(message), None);
    while let Some((found, wire)) = reader.field()? {
        if found == number {
            value = Some(wire);
        }
    }
    Ok(value)
}

/// The bytes that a message holds for the field; empty without it.
pub(super) fn bytes_of(message: &[u8], number: u32) -> Result<&[u8], WireError> {
    field_of(message, number)?.map_or(Ok(&[]), Wire::bytes)
}

/// The number that a message holds for the field; 0 without it.
pub(super) fn number_of(message: &[u8], number: u32) -> Result<u64, WireError> {
    field_of(message, number)?.map_or(Ok(0), Wire::number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_come_in_order_and_numbers_have_up_to_ten_bytes() {
        let mut reader = Reader(&[
            0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
        ]);
        assert_eq!(reader.field(), Ok(Some((1, Wire::Number(150)))));
        assert_eq!(reader.next_if(1), Ok(None));
        assert_eq!(reader.next_if(2), Ok(Some(Wire::Bytes(b"hi"))));
        assert_eq!(reader.field(), Ok(Some((3, Wire::Number(u64::MAX)))), "minus one");
        assert_eq!(reader.field(), Ok(None));
        let mut reader = Reader(&[0x0d, 1, 2, 3, 4, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x18, 7]);
        assert_eq!(reader.field(), Ok(Some((1, Wire::Fixed))));
        assert_eq!(reader.field(), Ok(Some((2, Wire::Fixed))));
        assert_eq!(reader.field(), Ok(Some((3, Wire::Number(7)))));
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for (bytes, error) in [
            (&[0x08][..], WireError::Cut),
            (&[0x12, 5, b'a'], WireError::Cut),
            (&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], WireError::Cut),
            (&[0x80; 11], WireError::LongNumber),
            (&[0x0d, 0, 0, 0], WireError::Cut),
            (&[0x0b], WireError::WireType(3)),
        ] {
            assert_eq!(Reader(bytes).field(), Err(error), "{bytes:?}");
        }
        assert_eq!(number_of(&[0x0a, 0], 1), Err(WireError::OtherType));
    }

    proptest! {
        #[test]
        fn any_bytes_come_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = Reader(&bytes);
            for _ in 0..=bytes.len() {
                if !matches!(reader.field(), Ok(Some(_))) {
                    return Ok(());
                }
            }
            prop_assert!(false, "more fields than bytes");
        }
    }
}
