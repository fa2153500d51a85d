//! Two rankings made one: by the words of a query, and by its meaning.
//!
//! ```text
//! "how fast does the car go"      by words                     by meaning                      together
//!                                 m7  … the blue form          m3  An automobile moves at …    m3   1/61
//!                                 m36 … the zephyr is fine                                     m7   1/61, but "the" is common
//! ```
//!
//! Scores of the two have no common measure, ranks do: that is reciprocal rank fusion. But where a question is asked in other
//! words than the answer was given in, words rank whatever holds "the", and a rank alone does not tell that. So a rank by words
//! counts for as much as the words do: fully if a passage holds more than half of them or one that is rare, else less.

use std::collections::{BTreeMap, BTreeSet};

use super::found::Found;
use crate::store::{Candidate, Neighbor};

/// How much less the second rank is worth than the first: the constant that reciprocal rank fusion was published with.
const RANK_OFFSET: f64 = 60.0;

/// The ranks of a passage, from 0, in the rankings that it is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranks {
    pub(super) by_words: Option<usize>,
    pub(super) by_meaning: Option<usize>,
}

impl Ranks {
    /// The fused score, where the words that it was found by are of this weight from 0 to 1.
    fn score(self, words_weight: f64) -> f64 {
        let worth = |rank: Option<usize>| rank.map_or(0.0, |rank| 1.0 / (RANK_OFFSET + rank as f64 + 1.0));
        worth(self.by_meaning) + worth(self.by_words) * words_weight
    }
}

/// A passage that a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RankedPassage {
    pub(super) place: u64,
    pub(super) passage: u32,
    pub(super) score: f64,
    pub(super) ranks: Ranks,
}

/// Merges two rankings, each with the best first. Without a near passage the scores stay those of the words.
///
/// Passages that were found by words and not scored, because they are the newest, keep a rank behind those that were.
pub(super) fn fuse(by_words: &[Candidate], near: &[Neighbor]) -> Vec<RankedPassage> {
    let mut merged: BTreeMap<(u64, u32), RankedPassage> = BTreeMap::new();
    let mut order = Vec::new();
    for (rank, candidate) in by_words.iter().enumerate() {
        let Candidate { place, passage, score, .. } = *candidate;
        let ranks = Ranks { by_words: Some(rank), by_meaning: None };
        order.push((place, passage));
        merged.entry((place, passage)).or_insert(RankedPassage { place, passage, score, ranks });
    }
    if near.is_empty() {
        return order.into_iter().filter_map(|at| merged.remove(&at)).collect();
    }
    for (rank, Neighbor { place, passage, .. }) in near.iter().enumerate() {
        let (place, passage) = (*place, *passage);
        let found = RankedPassage { place, passage, score: 0.0, ranks: Ranks::default() };
        merged.entry((place, passage)).or_insert(found).ranks.by_meaning = Some(rank);
    }
    let scored = |one: RankedPassage| RankedPassage { score: one.ranks.score(1.0), ..one };
    let mut merged: Vec<RankedPassage> = merged.into_values().map(scored).collect();
    merged.sort_by(|one, other| {
        let newer = (other.place, other.passage).cmp(&(one.place, one.passage));
        other.score.total_cmp(&one.score).then(newer)
    });
    merged
}

/// Scores passages anew by what the words weigh that each holds, now that they were read.
pub(super) fn weigh(found: &mut [Found], wanted: &BTreeSet<String>) {
    let weights: Vec<f64> = found.iter().map(|one| words_weight(one, found, wanted)).collect();
    for (one, weight) in found.iter_mut().zip(weights) {
        one.score = one.ranks.score(weight);
        one.words_weight = weight;
    }
}

/// The weight of the words that a passage holds: 1 for more than half of all; else the rarity of its rarest, among what was
/// found, between that of one that all hold and of one that no other holds.
fn words_weight(one: &Found, found: &[Found], wanted: &BTreeSet<String>) -> f64 {
    if 2 * one.coverage() > wanted.len() {
        return 1.0;
    }
    let rarity = |holding: usize| {
        let (all, holding) = (found.len() as f64, holding as f64);
        ((all - holding + 0.5) / (holding + 0.5)).ln_1p()
    };
    let holding = |term: &String| found.iter().filter(|other| other.held.contains(term)).count();
    let rarest = one.held.iter().map(|term| rarity(holding(term))).fold(0.0, f64::max);
    (rarest / rarity(1)).min(1.0)
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
            (vec![2, 1], vec![], vec![2, 1]),
            (vec![], vec![9, 8], vec![9, 8]),
            (vec![5], vec![5], vec![5]),
            (vec![1, 2, 3, 4], vec![4, 3, 2, 1], vec![4, 1, 3, 2]),
            (vec![], vec![], vec![]),
        ] {
            let merged = fuse(&by_words(&words), &by_meaning(&meaning));
            let places: Vec<u64> = merged.iter().map(|one| one.place).collect();
            assert_eq!(places, expected, "{words:?} and {meaning:?}");
            for one in &merged {
                let rank = |places: &[u64]| places.iter().position(|place| *place == one.place);
                assert_eq!((one.ranks.by_words, one.ranks.by_meaning), (rank(&words), rank(&meaning)));
            }
        }
    }

    #[test]
    fn words_alone_keep_their_scores() {
        assert!(fuse(&by_words(&[4, 2]), &[]).iter().all(|one| one.score == 9.0));
    }

    #[test]
    fn a_rank_by_words_counts_for_as_much_as_the_words_do() {
        let both = Ranks { by_words: Some(0), by_meaning: Some(0) };
        let words = Ranks { by_meaning: None, ..both };
        let near = Ranks { by_words: None, ..both };
        assert!(both.score(0.0) == near.score(1.0) && words.score(1.0) == near.score(0.0));
        assert!(words.score(0.2) < Ranks { by_meaning: Some(23), ..near }.score(0.0));
    }
}
