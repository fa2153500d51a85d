//! Matching an incoming history against a known thread.
