use berth_core::model::{Quantity, QuantityError};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

/// A text borrowed from the bytes it was read from where it holds no escapes; `null` is the empty text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

/// A map as the pairs it holds, in the order given; `null` is the empty map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairs<'a, V>(pub Vec<(Text<'a>, V)>);

impl<V> Default for Pairs<'_, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'a, V> Deref for Pairs<'a, V> {
    type Target = [(Text<'a>, V)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

struct PairsVisitor<'a, V>(PhantomData<Pairs<'a, V>>);

impl<'de: 'a, 'a, V: Deserialize<'de>> Visitor<'de> for PairsVisitor<'a, V> {
    type Value = Pairs<'a, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Pairs::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Pairs<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PairsVisitor(PhantomData))
    }
}

/// A quantity, or why the text is none. Numbers without quotes are taken too, and `null` is nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount(pub Result<Quantity, QuantityError>);

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }

    fn visit_str<E>(self, text: &str) -> Result<Amount, E> {
        Ok(Amount(Quantity::parse(text)))
    }

    fn visit_unit<E>(self) -> Result<Amount, E> {
        Ok(Amount(Ok(Quantity::ZERO)))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Amount, E> {
        Ok(Amount(Quantity::parse(&number.to_string())))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Amount, E> {
        Ok(Amount(Quantity::parse(&number.to_string())))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Amount, E> {
        Ok(Amount(Quantity::parse(&number.to_string())))
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}
