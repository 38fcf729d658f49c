//! The guided tour of `make demo`.
