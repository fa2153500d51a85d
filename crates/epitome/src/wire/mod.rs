//! The wire: requests and message lists of four dialects, decoded into messages and written back byte for byte.

mod dialect;

pub use dialect::Dialect;
