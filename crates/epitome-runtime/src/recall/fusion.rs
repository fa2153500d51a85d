//! Two rankings made one: by the words of a query, and by its meaning.

use std::collections::BTreeMap;

use crate::store::{Candidate, Neighbor};

/// How much less the second rank is worth than the first: the constant that reciprocal rank fusion was published with.
const RANK_OFFSET: f64 = 60.0;

/// A passage that a search found, and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RankedPassage {
    pub(super) place: u64,
    pub(super) passage: u32,
    pub(super) score: f64,
    /// True if it is near to the query, whether it holds one of its words or not.
    pub(super) by_meaning: bool,
}

impl From<&Candidate> for RankedPassage {
    fn from(candidate: &Candidate) -> Self {
        let Candidate { place, passage, score, .. } = *candidate;
        RankedPassage { place, passage, score, by_meaning: false }
    }
}

/// Merges two rankings, the best first, by reciprocal rank: a passage that both found comes before one that only one did.
///
/// Scores of the two are of no common measure, ranks are. Passages that were found by words and not scored, because they are
/// the newest, keep a rank behind those that were.
pub(super) fn fuse(by_words: &[Candidate], by_meaning: &[Neighbor]) -> Vec<RankedPassage> {
    let worth = |rank: usize| 1.0 / (RANK_OFFSET + rank as f64 + 1.0);
    let mut merged: BTreeMap<(u64, u32), RankedPassage> = BTreeMap::new();
    for (rank, candidate) in by_words.iter().enumerate() {
        let passage = RankedPassage { score: worth(rank), ..candidate.into() };
        merged.entry((passage.place, passage.passage)).or_insert(passage);
    }
    for (rank, near) in by_meaning.iter().enumerate() {
        let (place, passage) = (near.place, near.passage);
        let found = RankedPassage { place, passage, score: 0.0, by_meaning: true };
        let found = merged.entry((place, passage)).or_insert(found);
        (found.score, found.by_meaning) = (found.score + worth(rank), true);
    }
    let mut merged: Vec<RankedPassage> = merged.into_values().collect();
    merged.sort_by(|one, other| {
        let newer = (other.place, other.passage).cmp(&(one.place, one.passage));
        other.score.total_cmp(&one.score).then(newer)
    });
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_words(places: &[u64]) -> Vec<Candidate> {
        let thread = "t".parse().expect("a thread's name");
        let first = Candidate { thread, place: 0, passage: 0, first_line: 1, last_line: 9, score: 9.0 };
        places.iter().map(|place| Candidate { place: *place, ..first.clone() }).collect()
    }

    fn by_meaning(places: &[u64]) -> Vec<Neighbor> {
        places.iter().map(|place| Neighbor { place: *place, passage: 0, similarity: 0.5 }).collect()
    }

    #[test]
    fn what_both_found_comes_first_and_each_ranking_keeps_its_order() {
        for (words, meaning, expected) in [
            (vec![1, 2, 3], vec![3, 8, 9], vec![3, 1, 8, 2, 9]),
            (vec![1, 2], vec![], vec![1, 2]),
            (vec![], vec![8, 9], vec![8, 9]),
            (vec![5], vec![5], vec![5]),
            (vec![1, 2, 3, 4], vec![4, 3, 2, 1], vec![4, 1, 3, 2]),
            (vec![], vec![], vec![]),
        ] {
            let merged = fuse(&by_words(&words), &by_meaning(&meaning));
            let places: Vec<u64> = merged.iter().map(|one| one.place).collect();
            assert_eq!(places, expected, "{words:?} and {meaning:?}");
            for one in &merged {
                assert_eq!(one.by_meaning, meaning.contains(&one.place));
            }
        }
    }

    #[test]
    fn a_passage_that_is_named_twice_by_words_keeps_its_better_rank() {
        let merged = fuse(&by_words(&[1, 2, 1]), &[]);
        assert_eq!(merged.iter().map(|one| one.place).collect::<Vec<_>>(), [1, 2]);
    }
}
