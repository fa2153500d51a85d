//! Amounts of rows, in words.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SealedRow {
    Message,
    Plan,
    Event,
    Label,
    Document,
    Artifact,
    Vector,
}

/// Counts of rows by their sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    messages: u64,
    plans: u64,
    events: u64,
    labels: u64,
    documents: u64,
    artifacts: u64,
    vectors: u64,
}

impl Tally {
    pub(super) fn add(&mut self, row: SealedRow, count: u64) {
        *match row {
            SealedRow::Message => &mut self.messages,
            SealedRow::Plan => &mut self.plans,
            SealedRow::Event => &mut self.events,
            SealedRow::Label => &mut self.labels,
            SealedRow::Document => &mut self.documents,
            SealedRow::Artifact => &mut self.artifacts,
            SealedRow::Vector => &mut self.vectors,
        } += count;
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Tally::default()
    }

    /// The amounts that there are any of: `270 messages, 1 plan and 3 documents`.
    pub(super) fn words(&self) -> String {
        let all = [
            (self.messages, "message"),
            (self.plans, "plan"),
            (self.events, "event"),
            (self.labels, "label"),
            (self.documents, "document"),
            (self.artifacts, "artifact"),
            (self.vectors, "vector"),
        ];
        let some = all.into_iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = some.map(|(n, name)| format!("{n} {name}{}", if n == 1 { "" } else { "s" })).collect();
        match words.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, before)) => format!("{} and {last}", before.join(", ")),
            None => "nothing".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SealedRow, Tally};

    #[test]
    fn amounts_are_told_in_words_and_none_that_is_nothing() {
        let mut tally = Tally::default();
        assert_eq!((tally.words(), tally.is_empty()), ("nothing".to_owned(), true));
        tally.add(SealedRow::Document, 1);
        assert_eq!((tally.words(), tally.is_empty()), ("1 document".to_owned(), false));
        tally.add(SealedRow::Message, 2);
        tally.add(SealedRow::Artifact, 1);
        assert_eq!(tally.words(), "2 messages, 1 document and 1 artifact");
    }
}
