/// Defines `Object`, one row a variant: what it holds, the type it is made from, and the function that applies it.
macro_rules! objects {
    ($($(#[$doc:meta])* $variant:ident($held:ty) of $type:ty => $apply:ident $(($by:tt))?),+ $(,)?) => {
        /// An object of a kind that the ledger keeps.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Object {
            $($(#[$doc])* $variant($held)),+
        }

        $(impl From<$type> for Object {
            fn from(object: $type) -> Self {
                Self::$variant(object.into())
            }
        })+

        impl Object {
            pub fn apply(self, ledger: &mut $crate::ledger::Ledger) {
                match self {
                    $(Self::$variant(object) => ledger.$apply($($by)? object),)+
                }
            }
        }
    };
}

pub(super) use objects;
