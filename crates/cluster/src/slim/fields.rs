use super::{Annotations, Pairs, Text};
use serde::{Deserialize, Deserializer};

/// Defines what is read of objects, by the names that the API has in camel case. A missing field and `null` are the
/// default value, as in Go.
macro_rules! slim {
    ($($(#[$meta:meta])* struct $name:ident<$a:lifetime> { $($(#[$attr:meta])* $field:ident: $type:ty,)* })+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Default, serde::Deserialize)]
        #[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        pub struct $name<$a> {
            $(
                $(#[$attr])*
                #[serde(deserialize_with = "crate::slim::fields::Field::read")]
                pub $field: $type,
            )*
        }

        impl<'de: $a, $a> crate::slim::fields::Field<'de> for $name<$a> {
            fn read<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::slim::fields::nullable(deserializer)
            }
        }
    )+};
}

pub(super) use slim;

/// What can be a field of a slim object.
pub(super) trait Field<'de>: Sized {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// Reads a field whose `null` means its default.
pub(super) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

macro_rules! field {
    ($(($($generics:tt)*) $type:ty: $read:path;)+) => {$(
        impl<'de $($generics)*> Field<'de> for $type {
            fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $read(deserializer)
            }
        }
    )+};
}

// The first four take `null` by themselves.
field! {
    (: 'a, 'a) Text<'a>: Deserialize::deserialize;
    (: 'a, 'a, V: Deserialize<'de>) Pairs<'a, V>: Deserialize::deserialize;
    (: 'a, 'a) Annotations<'a>: Deserialize::deserialize;
    (, T: Deserialize<'de>) Option<T>: Deserialize::deserialize;
    (, T: Deserialize<'de>) Vec<T>: nullable;
    () bool: nullable;
    () i32: nullable;
    () i64: nullable;
}
