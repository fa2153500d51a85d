//! The thread: an append-only log of messages.
