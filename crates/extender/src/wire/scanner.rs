//! A JSON scanner that takes a text in pieces, passes its tokens to a visitor, and keeps one string or number at most.
//!
//! It accepts what Go's decoder accepts: one value, followed by anything; bytes that are not UTF-8 are replaced.

use crate::error::Fault;

/// How deep values may be nested: more than twice as deep as a node with all its field managers.
pub const DEPTH: u32 = 32;

/// Bytes kept of one string; the rest is read and dropped. No name, uid or message that is used is longer.
pub const TEXT_BYTES: usize = 2_048;

/// Bytes kept of one number: no 64-bit number is longer.
const NUMBER_BYTES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Token<'a> {
    BeginObject,
    EndObject,
    BeginArray,
    EndArray,
    Key(&'a str),
    /// A string, cut to [`TEXT_BYTES`].
    Text(&'a str),
    /// As it is written.
    Number(&'a str),
    Bool(bool),
    Null,
}

/// What to do with the value that begins here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Pass its tokens to the visitor.
    Go,
    /// Pass none of its tokens, not even its end: the value after this key, or the object or array that begins here.
    Skip,
}

/// Takes the tokens of a text.
pub trait Visit {
    /// # Errors
    /// The token does not belong there.
    fn token(&mut self, token: Token<'_>) -> Result<Step, Fault>;
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Want {
    #[default]
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Start,
    Minus,
    Zero,
    Whole,
    Dot,
    Fraction,
    E,
    Sign,
    Exponent,
}

impl Number {
    const fn next(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Start, b'-') => Some(Self::Minus),
            (Self::Start | Self::Minus, b'0') => Some(Self::Zero),
            (Self::Start | Self::Minus, b'1'..=b'9') | (Self::Whole, b'0'..=b'9') => Some(Self::Whole),
            (Self::Zero | Self::Whole, b'.') => Some(Self::Dot),
            (Self::Dot | Self::Fraction, b'0'..=b'9') => Some(Self::Fraction),
            (Self::Zero | Self::Whole | Self::Fraction, b'e' | b'E') => Some(Self::E),
            (Self::E, b'+' | b'-') => Some(Self::Sign),
            (Self::E | Self::Sign | Self::Exponent, b'0'..=b'9') => Some(Self::Exponent),
            _ => None,
        }
    }

    const fn may_end(self) -> bool {
        matches!(self, Self::Zero | Self::Whole | Self::Fraction | Self::Exponent)
    }
}

#[derive(Debug, Clone, Copy, Default)]
enum Lex {
    #[default]
    Gap,
    Text,
    Escape,
    Hex {
        unit: u16,
        left: u8,
    },
    Number(Number),
    Word {
        rest: &'static [u8],
        token: Token<'static>,
    },
}

/// The scanner's state between two pieces.
#[derive(Debug, Default)]
pub struct Scanner {
    lex: Lex,
    want: Want,
    depth: u32,
    /// Bit `d` is set if an object, and not an array, is open at depth `d`.
    objects: u64,
    /// No token is passed until a value ends at this depth.
    skip: Option<u32>,
    text: Vec<u8>,
    /// The first of two surrogates.
    half: Option<u16>,
    read: u64,
}

impl Scanner {
    /// Whether the value is complete: nothing after it is read.
    pub fn is_done(&self) -> bool {
        self.want == Want::Nothing
    }

    /// # Errors
    /// The text is not JSON, or the visitor refuses it.
    pub fn feed(&mut self, piece: &[u8], visit: &mut impl Visit) -> Result<(), Fault> {
        let mut at = 0;
        while at < piece.len() && !self.is_done() {
            at = match self.lex {
                Lex::Gap => self.gap(piece, at, visit)?,
                Lex::Text => self.in_text(piece, at, visit)?,
                Lex::Escape => self.escape(piece, at)?,
                Lex::Hex { unit, left } => self.hex(piece, at, unit, left)?,
                Lex::Number(state) => self.number(piece, at, state, visit)?,
                Lex::Word { rest, token } => self.word(piece, at, rest, token, visit)?,
            };
        }
        self.read += piece.len() as u64;
        Ok(())
    }

    /// # Errors
    /// The value is not complete.
    pub fn finish(&mut self, visit: &mut impl Visit) -> Result<(), Fault> {
        if let Lex::Number(state) = self.lex
            && state.may_end()
        {
            self.end_number(&[], visit)?;
        }
        if self.is_done() { Ok(()) } else { Err(Fault::Cut { read: self.read }) }
    }

    const fn syntax(&self, at: usize, wanted: &'static str) -> Fault {
        Fault::Syntax { at: self.read + at as u64, wanted }
    }

    fn in_object(&self) -> bool {
        self.objects & (1 << self.depth) != 0
    }

    fn gap(&mut self, piece: &[u8], mut at: usize, visit: &mut impl Visit) -> Result<usize, Fault> {
        while piece.get(at).is_some_and(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')) {
            at += 1;
        }
        let Some(&byte) = piece.get(at) else { return Ok(at) };
        match (self.want, byte) {
            (Want::Value | Want::ValueOrEnd, b'{') => self.open(true, visit)?,
            (Want::Value | Want::ValueOrEnd, b'[') => self.open(false, visit)?,
            (Want::Value | Want::ValueOrEnd | Want::Key | Want::KeyOrEnd, b'"') => {
                self.text.clear();
                self.half = None;
                self.lex = Lex::Text;
            }
            (Want::Value | Want::ValueOrEnd, b'-' | b'0'..=b'9') => {
                self.text.clear();
                return self.number(piece, at, Number::Start, visit);
            }
            (Want::Value | Want::ValueOrEnd, b't') => self.lex = Lex::Word { rest: b"rue", token: Token::Bool(true) },
            (Want::Value | Want::ValueOrEnd, b'f') => self.lex = Lex::Word { rest: b"alse", token: Token::Bool(false) },
            (Want::Value | Want::ValueOrEnd, b'n') => self.lex = Lex::Word { rest: b"ull", token: Token::Null },
            (Want::Colon, b':') => self.want = Want::Value,
            (Want::CommaOrEnd, b',') => self.want = if self.in_object() { Want::Key } else { Want::Value },
            (Want::KeyOrEnd | Want::CommaOrEnd, b'}') if self.in_object() => self.close(Token::EndObject, visit)?,
            (Want::ValueOrEnd | Want::CommaOrEnd, b']') if !self.in_object() => self.close(Token::EndArray, visit)?,
            (want, _) => return Err(self.syntax(at, wanted(want))),
        }
        Ok(at + 1)
    }

    fn open(&mut self, object: bool, visit: &mut impl Visit) -> Result<(), Fault> {
        if self.depth == DEPTH {
            return Err(Fault::Deep { limit: DEPTH });
        }
        self.depth += 1;
        let bit = 1_u64 << self.depth;
        self.objects = if object { self.objects | bit } else { self.objects & !bit };
        let (token, want) =
            if object { (Token::BeginObject, Want::KeyOrEnd) } else { (Token::BeginArray, Want::ValueOrEnd) };
        self.want = want;
        if self.emit(token, visit)? == Step::Skip {
            self.skip = Some(self.depth - 1);
        }
        Ok(())
    }

    fn close(&mut self, token: Token<'_>, visit: &mut impl Visit) -> Result<(), Fault> {
        self.depth -= 1;
        self.emit(token, visit)?;
        self.end_value();
        Ok(())
    }

    fn emit(&self, token: Token<'_>, visit: &mut impl Visit) -> Result<Step, Fault> {
        if self.skip.is_some() { Ok(Step::Go) } else { visit.token(token) }
    }

    fn end_value(&mut self) {
        self.lex = Lex::Gap;
        self.want = if self.depth == 0 { Want::Nothing } else { Want::CommaOrEnd };
        if self.skip == Some(self.depth) {
            self.skip = None;
        }
    }

    fn in_text(&mut self, piece: &[u8], at: usize, visit: &mut impl Visit) -> Result<usize, Fault> {
        let rest = &piece[at..];
        let length = rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f));
        let (plain, stop) = length.map_or((rest, None), |n| (&rest[..n], Some(rest[n])));
        let end = at + plain.len();
        match stop {
            Some(b'"') if self.text.is_empty() && self.half.is_none() => {
                self.end_text(&plain[..plain.len().min(TEXT_BYTES)], visit)?;
                Ok(end + 1)
            }
            Some(b'"') => {
                self.keep(plain);
                self.end_half();
                let text = std::mem::take(&mut self.text);
                self.end_text(&text, visit)?;
                self.text = text;
                Ok(end + 1)
            }
            Some(b'\\') => {
                self.keep(plain);
                self.lex = Lex::Escape;
                Ok(end + 1)
            }
            Some(_) => Err(self.syntax(end, "a text without control characters")),
            None => {
                self.keep(plain);
                Ok(end)
            }
        }
    }

    fn end_text(&mut self, text: &[u8], visit: &mut impl Visit) -> Result<(), Fault> {
        let is_key = matches!(self.want, Want::Key | Want::KeyOrEnd);
        let mut step = Step::Go;
        if self.skip.is_none() {
            let text = String::from_utf8_lossy(text);
            step = visit.token(if is_key { Token::Key(&text) } else { Token::Text(&text) })?;
        }
        if is_key {
            self.lex = Lex::Gap;
            self.want = Want::Colon;
            if step == Step::Skip {
                self.skip = Some(self.depth);
            }
        } else {
            self.end_value();
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) {
        if bytes.is_empty() || self.skip.is_some() {
            return;
        }
        self.end_half();
        let room = TEXT_BYTES.saturating_sub(self.text.len());
        self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_half(&mut self) {
        if self.half.take().is_some() {
            self.keep("\u{fffd}".as_bytes());
        }
    }

    fn escape(&mut self, piece: &[u8], at: usize) -> Result<usize, Fault> {
        let plain = match piece[at] {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                self.lex = Lex::Hex { unit: 0, left: 4 };
                return Ok(at + 1);
            }
            _ => return Err(self.syntax(at, "an escape")),
        };
        self.keep(&[plain]);
        self.lex = Lex::Text;
        Ok(at + 1)
    }

    fn hex(&mut self, piece: &[u8], at: usize, unit: u16, left: u8) -> Result<usize, Fault> {
        let Some(digit) = char::from(piece[at]).to_digit(16) else {
            return Err(self.syntax(at, "a hexadecimal digit"));
        };
        let unit = unit << 4 | digit as u16;
        if left > 1 {
            self.lex = Lex::Hex { unit, left: left - 1 };
            return Ok(at + 1);
        }
        self.lex = Lex::Text;
        match (self.half.take(), unit) {
            (Some(high), 0xdc00..=0xdfff) => {
                let code = 0x1_0000 + ((u32::from(high) - 0xd800) << 10) + (u32::from(unit) - 0xdc00);
                self.keep_char(code);
            }
            (earlier, _) => {
                self.half = earlier;
                self.end_half();
                if (0xd800..=0xdbff).contains(&unit) {
                    self.half = Some(unit);
                } else {
                    self.keep_char(u32::from(unit));
                }
            }
        }
        Ok(at + 1)
    }

    fn keep_char(&mut self, code: u32) {
        let char = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.keep(char.encode_utf8(&mut [0; 4]).as_bytes());
    }

    /// Continues a number, of which the piece has more from `from` on.
    fn number(&mut self, piece: &[u8], from: usize, mut state: Number, visit: &mut impl Visit) -> Result<usize, Fault> {
        for (at, &byte) in piece.iter().enumerate().skip(from) {
            let Some(next) = state.next(byte) else {
                if !state.may_end() {
                    return Err(self.syntax(at, "a digit"));
                }
                self.end_number(&piece[from..at], visit)?;
                return Ok(at);
            };
            state = next;
        }
        self.keep_number(&piece[from..]);
        self.lex = Lex::Number(state);
        Ok(piece.len())
    }

    fn keep_number(&mut self, digits: &[u8]) {
        let room = NUMBER_BYTES.saturating_sub(self.text.len());
        self.text.extend_from_slice(&digits[..digits.len().min(room)]);
    }

    fn end_number(&mut self, rest: &[u8], visit: &mut impl Visit) -> Result<(), Fault> {
        self.keep_number(rest);
        if self.skip.is_none() {
            visit.token(Token::Number(&String::from_utf8_lossy(&self.text)))?;
        }
        self.end_value();
        Ok(())
    }

    fn word(
        &mut self,
        piece: &[u8],
        at: usize,
        rest: &'static [u8],
        token: Token<'static>,
        visit: &mut impl Visit,
    ) -> Result<usize, Fault> {
        match rest.split_first() {
            Some((first, rest)) if *first == piece[at] => {
                if rest.is_empty() {
                    self.emit(token, visit)?;
                    self.end_value();
                } else {
                    self.lex = Lex::Word { rest, token };
                }
                Ok(at + 1)
            }
            _ => Err(self.syntax(at, "true, false or null")),
        }
    }
}

const fn wanted(want: Want) -> &'static str {
    match want {
        Want::Value | Want::ValueOrEnd => "a value",
        Want::Key | Want::KeyOrEnd => "a key",
        Want::Colon => "a colon",
        Want::CommaOrEnd => "a comma or the end of the object or array",
        Want::Nothing => "nothing",
    }
}
