//! Entries: one request, what it cost, and what it would have cost.

use epitome::budget::Tokens;
use epitome_runtime::ids::{Moment, ThreadId, ThreadKey};
use epitome_runtime::model::Usage;
use serde::{Deserialize, Serialize};

use super::previous::{Original, Previous};
use super::price::{Marks, Price, PriceList, Unit};

/// The most by which the provider's count may differ from ours for the same prompt.
const FACTOR_MAX: f64 = 4.0;

/// The facts of one request, for the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// When it was sent.
    pub at: Moment,
    /// Its thread.
    pub key: ThreadKey,
    /// The thread it was forked from, where this is the fork's first request.
    pub forked_from: Option<ThreadId>,
    /// Its id; unique within the thread.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// The most input that the model takes.
    pub window: Tokens,
    /// The client's request.
    pub original: Original,
    /// The cache marks of the client's request.
    pub marks: Marks,
    /// The tokens that were sent, by our count, system prompt and tools included.
    pub sent: Tokens,
    /// True if it was sent changed.
    pub changed: bool,
    /// The calls that were made besides the one that the usage is of.
    pub extra: Vec<Extra>,
}

/// A request, and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Charge {
    /// The request.
    pub request: Request,
    /// The usage that the provider reported.
    pub usage: Usage,
    /// True if the provider did not report all of it, and the rest is our count.
    pub is_estimated: bool,
}

/// A call that the client knows nothing of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Extra {
    /// Its purpose.
    pub kind: ExtraKind,
    /// The model that was called.
    pub model: String,
    /// The usage that the provider reported; absent for a refused call.
    pub usage: Usage,
}

/// The purpose of a call that the gateway made by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ExtraKind {
    /// The model called one of the gateway's own tools.
    OwnTool,
    /// The prompt was too long, and was sent again.
    Retry,
    /// A model wrote a summary.
    Summary,
}

/// One request in the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// When it was sent.
    pub at: Moment,
    /// Its thread.
    pub thread: ThreadId,
    /// Its id.
    pub request: String,
    /// The model.
    pub model: String,
    /// True if it was sent changed.
    pub changed: bool,
    /// The prompt as the client sent it, in the provider's tokens.
    pub tokens_original: u64,
    /// The part of it that would have been read from the cache.
    pub tokens_original_cached: u64,
    /// The usage that the provider reported for the request.
    pub usage: Usage,
    /// Whether the provider did not say all of that: the stream broke off, or told no usage. Then it is our own count, as if
    /// nothing had been cached.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// The calls besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<Extra>,
    /// The prompt as the client sent it is larger than the window: the provider would have refused it, and `without` is
    /// what a full window would have cost.
    pub impossible: bool,
    /// The unit of the amounts.
    pub unit: Unit,
    /// Its cost, additional calls included.
    pub paid: f64,
    /// Its cost without the gateway.
    pub without: f64,
    /// The difference; below zero when the gateway made it dearer.
    pub saved: f64,
}

impl Charge {
    /// Writes it down, and remembers it as the previous one.
    pub fn entry(&self, prices: &PriceList, previous: &mut Previous) -> Entry {
        let Charge { request, usage, is_estimated } = self;
        let price = prices.of(&request.model);
        let elsewhere = Elsewhere::of(&price, previous, request, usage);
        let besides: f64 = request.extra.iter().map(|extra| besides(prices, &price, request.marks, extra)).sum();
        let paid = price.amount(price.units(usage, request.marks)) + besides;
        let without = price.amount(price.units(&elsewhere.usage, request.marks));
        *previous = Previous::of(&request.original, request.at, request.changed);
        Entry {
            at: request.at,
            thread: request.key.thread.clone(),
            request: request.id.clone(),
            model: request.model.clone(),
            changed: request.changed,
            tokens_original: elsewhere.original,
            tokens_original_cached: elsewhere.usage.cached,
            usage: *usage,
            estimated: *is_estimated,
            extra: request.extra.clone(),
            impossible: elsewhere.original > request.window.get(),
            unit: price.unit(),
            paid,
            without,
            saved: without - paid,
        }
    }
}

/// What a call besides cost, in the unit of the request. One of a model whose price cannot be told in that unit is taken
/// to cost as much as the request's own model.
fn besides(prices: &PriceList, price: &Price, marks: Marks, extra: &Extra) -> f64 {
    let own = prices.of(&extra.model);
    let price = if own.unit() == Unit::Usd && price.unit() == Unit::Usd { &own } else { price };
    price.amount(price.units(&extra.usage, marks))
}

/// The same request in a world without the gateway.
struct Elsewhere {
    /// The prompt, in the provider's tokens, whether it fits or not.
    original: u64,
    /// The usage that the provider would have reported.
    usage: Usage,
}

impl Elsewhere {
    fn of(price: &Price, previous: &Previous, request: &Request, usage: &Usage) -> Elsewhere {
        let is_warm = previous.is_warm(request.at, price.ttl_s(request.marks));
        let is_same = !request.changed && (!is_warm || !previous.changed());
        if is_same {
            // Both worlds have sent the same: what happened here is what would have happened there.
            return Elsewhere { original: usage.input, usage: *usage };
        }
        let factor = factor(request, usage);
        let original = request.original.tokens().scaled(factor).get();
        let input = original.min(request.window.get());
        let known = match previous.is_none() {
            true => usage.cached,
            false if is_warm => previous.shared_with(&request.original).share(factor).get(),
            false => 0,
        };
        let is_cached = price.caches(request.marks);
        let cached = if is_cached && known >= price.cached_min { known.min(input) } else { 0 };
        let written = if is_cached { input - cached } else { 0 };
        Elsewhere { original, usage: Usage { input, cached, written, output: usage.output } }
    }
}

/// The factor from our count to the provider's.
fn factor(request: &Request, usage: &Usage) -> f64 {
    if request.sent == Tokens::ZERO || usage.input == 0 {
        return 1.0;
    }
    (usage.input as f64 / request.sent.get() as f64).clamp(1.0 / FACTOR_MAX, FACTOR_MAX)
}

#[cfg(test)]
mod tests {
    use super::{Charge, Entry, Extra, ExtraKind, Request};
    use crate::ledger::{Marks, Original, Previous, PriceList, Unit};
    use epitome::budget::Tokens;
    use epitome::thread::MessageId;
    use epitome_runtime::ids::{Moment, TenantId, ThreadKey};
    use epitome_runtime::model::Usage;

    /// A step of a thread: a thousand tokens in each message.
    struct Step {
        at_s: i64,
        messages: usize,
        sent: u64,
        usage: Usage,
        extra: Vec<Extra>,
    }

    fn step(at_s: i64, messages: usize, sent: u64, usage: [u64; 4]) -> Step {
        Step { at_s, messages, sent, usage: used(usage), extra: Vec::new() }
    }

    fn used([input, cached, written, output]: [u64; 4]) -> Usage {
        Usage { input, cached, written, output }
    }

    fn request(model: &str, marks: Marks, step: &Step) -> Request {
        let id = |place: usize| MessageId::from_bytes([place as u8 + 1; 32]);
        let messages = (0..step.messages).map(|place| (id(place), Tokens::new(1000))).collect();
        let original = Original { head: 1, head_tokens: Tokens::ZERO, messages };
        Request {
            at: Moment(step.at_s * 1000),
            key: ThreadKey::new(TenantId::local(), "t".parse().expect("a name")),
            forked_from: None,
            id: format!("r{}", step.at_s),
            model: model.to_owned(),
            window: Tokens::new(100_000),
            changed: original.tokens().get() != step.sent,
            sent: Tokens::new(step.sent),
            original,
            marks,
            extra: step.extra.clone(),
        }
    }

    fn run(model: &str, marks: Marks, steps: &[Step]) -> Vec<Entry> {
        let (prices, mut previous) = (PriceList::shipped(), Previous::default());
        let one = |step: &Step| {
            let charge = Charge { request: request(model, marks, step), usage: step.usage, is_estimated: false };
            charge.entry(&prices, &mut previous)
        };
        steps.iter().map(one).collect()
    }

    /// Paid and without, for each step, rounded to whole input tokens.
    fn check(claim: &str, model: &str, marks: Marks, steps: &[Step], expected: &[(i64, i64)]) {
        let entries = run(model, marks, steps);
        let found: Vec<(i64, i64)> =
            entries.iter().map(|entry| (entry.paid.round() as i64, entry.without.round() as i64)).collect();
        assert_eq!(found, expected, "{claim}");
        for entry in &entries {
            assert_eq!(entry.saved, entry.without - entry.paid, "{claim}");
        }
    }

    /// A model with Anthropic's ratios whose price in money is not known.
    const CLAUDE: &str = "claude-opus-5";

    #[test]
    fn what_is_passed_through_saves_nothing_whatever_the_cache_did() {
        let steps = [
            step(0, 10, 10_000, [10_500, 0, 10_500, 100]),
            step(10, 20, 20_000, [21_000, 10_500, 10_500, 100]),
            step(20, 30, 30_000, [31_000, 0, 31_000, 100]),
        ];
        let amounts = [(13_625, 13_625), (14_675, 14_675), (39_250, 39_250)];
        check("the usage decides", CLAUDE, Marks::Short, &steps, &amounts);
    }

    #[test]
    fn a_compaction_costs_at_first_and_saves_from_then_on() {
        let steps = [
            step(0, 60, 60_000, [60_000, 0, 60_000, 0]),
            step(10, 62, 10_000, [10_000, 0, 10_000, 0]),
            step(20, 64, 12_000, [12_000, 10_000, 2_000, 0]),
            step(30, 66, 14_000, [14_000, 12_000, 2_000, 0]),
        ];
        // Without: 60 000 read at 0.1 and 2 000 written at 1.25, and so on.
        let amounts = [(75_000, 75_000), (12_500, 8_500), (3_500, 8_700), (3_700, 8_900)];
        check("a compaction", CLAUDE, Marks::Short, &steps, &amounts);
    }

    #[test]
    fn a_prompt_that_is_rewritten_at_every_step_is_a_loss_and_is_told_as_one() {
        let steps = [
            step(0, 60, 60_000, [60_000, 0, 60_000, 0]),
            step(10, 62, 20_000, [20_000, 0, 20_000, 0]),
            step(20, 64, 20_000, [20_000, 0, 20_000, 0]),
        ];
        let entries = run(CLAUDE, Marks::Short, &steps);
        let saved: Vec<i64> = entries.iter().map(|entry| entry.saved.round() as i64).collect();
        assert_eq!(saved, [0, -16_500, -16_300]);
    }

    #[test]
    fn the_other_worlds_cache_dies_as_ours_does() {
        let steps =
            |gap: i64| [step(0, 60, 60_000, [60_000, 0, 60_000, 0]), step(gap, 62, 10_000, [10_000, 0, 10_000, 0])];
        let cold = [(75_000, 75_000), (12_500, 77_500)];
        check("after five minutes", CLAUDE, Marks::Short, &steps(300), &cold);
        check("just before", CLAUDE, Marks::Short, &steps(299), &[(75_000, 75_000), (12_500, 8_500)]);
        let long = [(120_000, 120_000), (20_000, 10_000)];
        check("an hour was asked for", CLAUDE, Marks::Long, &steps(300), &long);
    }

    #[test]
    fn a_client_without_cache_marks_would_have_paid_in_full() {
        let steps = [step(0, 60, 60_000, [60_000, 0, 0, 0]), step(10, 62, 10_000, [10_000, 0, 0, 0])];
        check("no marks", CLAUDE, Marks::None, &steps, &[(60_000, 60_000), (10_000, 62_000)]);
        // A model that nobody knows is taken to cache by itself.
        check("automatic", "my-own-model", Marks::None, &steps, &[(60_000, 60_000), (10_000, 8_000)]);
    }

    #[test]
    fn the_providers_count_calibrates_ours() {
        let steps = [step(0, 60, 60_000, [72_000, 0, 72_000, 0]), step(10, 62, 10_000, [12_000, 0, 12_000, 0])];
        let entries = run(CLAUDE, Marks::Short, &steps);
        assert_eq!((entries[1].tokens_original, entries[1].tokens_original_cached), (74_400, 72_000));
    }

    #[test]
    fn what_does_not_fit_is_called_impossible_and_counts_as_a_full_window() {
        let steps = [
            step(0, 90, 90_000, [90_000, 0, 90_000, 0]),
            step(10, 110, 20_000, [20_000, 0, 20_000, 0]),
            step(20, 120, 30_000, [30_000, 20_000, 10_000, 0]),
        ];
        let entries = run(CLAUDE, Marks::Short, &steps);
        assert_eq!(entries.iter().map(|entry| entry.impossible).collect::<Vec<_>>(), [false, true, true]);
        // 90 000 read and 10 000 written; then a full window read.
        let amounts = [(112_500, 112_500), (25_000, 21_500), (14_500, 10_000)];
        check("a full window", CLAUDE, Marks::Short, &steps, &amounts);
    }

    #[test]
    fn every_call_besides_is_paid_and_none_of_them_would_have_been_made() {
        let extra = |kind, model: &str, usage| Extra { kind, model: model.to_owned(), usage: used(usage) };
        let first = step(0, 60, 60_000, [60_000, 0, 60_000, 0]);
        let second = Step {
            extra: vec![
                extra(ExtraKind::OwnTool, CLAUDE, [10_000, 0, 10_000, 20]),
                extra(ExtraKind::Retry, CLAUDE, [0, 0, 0, 0]),
                extra(ExtraKind::Summary, "gpt-5-nano", [50_000, 0, 0, 1_000]),
            ],
            ..step(10, 62, 11_000, [11_000, 10_000, 1_000, 50])
        };
        // 2 250 + 250 of output; 12 500 + 100; nothing; and 55 000 at the request's own price.
        check("besides", CLAUDE, Marks::Short, &[first, second], &[(75_000, 75_000), (70_100, 8_750)]);
    }

    #[test]
    fn two_models_with_known_prices_are_each_paid_at_their_own() {
        let usage = used([1_000_000, 0, 0, 0]);
        let extra = vec![Extra { kind: ExtraKind::Summary, model: "gpt-5-nano".to_owned(), usage }];
        let steps = [Step { extra, ..step(0, 60, 10_000, [10_000, 0, 10_000, 0]) }];
        let entry = run("claude-sonnet-4-5", Marks::Short, &steps).remove(0);
        assert_eq!(entry.unit, Unit::Usd);
        assert!((entry.paid - (0.0375 + 0.05)).abs() < 1e-9, "{}", entry.paid);
    }

    #[test]
    fn a_thread_that_begins_large_is_not_said_to_have_been_uncached_where_its_prefix_was_read() {
        let steps = [step(0, 60, 10_000, [10_000, 8_000, 2_000, 0])];
        check("the first request", CLAUDE, Marks::Short, &steps, &[(3_300, 65_800)]);
    }
}
