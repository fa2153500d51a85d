//! Answers: whole and in pieces, they become the same messages.
