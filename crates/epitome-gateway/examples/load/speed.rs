//! Added latency: how much longer a request takes through a proxy than directly, for three sizes, streaming and not.
//!
//! The first contestant is the provider itself. They take turns: a few requests each, in another order every round.

use crate::body::{Conversation, Mode};
use crate::line::Line;
use crate::sample::{Sample, micros};
use crate::{Outcome, say};

const KB: usize = 1024;
const SIZES: [(&str, usize, usize); 3] = [("4 KB", 4 * KB, 8), ("100 KB", 100 * KB, 4), ("1 MB", 1024 * KB, 2)];
/// Requests that are sent before any is counted, so that everybody has everything at hand.
const WARM_UP: usize = 3;

/// For 4 KB, a gateway may add this many times what nginx adds, at the median.
const NGINX_FACTOR: f64 = 1.5;
/// For 1 MB, it adds at most this share of what LiteLLM adds.
const LITELLM_SHARE: f64 = 0.1;

/// One row of the table.
struct Case {
    size: &'static str,
    bytes: usize,
    mode: Mode,
    is_streamed: bool,
    burst: usize,
}

/// Measures every case; the targets that were missed.
pub async fn measure(lines: &mut [Line], rounds: usize) -> Outcome<Vec<String>> {
    let names: Vec<String> = lines.iter().skip(1).map(|line| format!("{:>22}", line.name)).collect();
    say("added latency, p50 / p99: through a proxy less direct");
    say(&format!("{:<8} {:<8} {:<7} {:>5} {:>18} {}", "body", "mode", "answer", "n", "direct", names.join(" ")));
    let mut misses = Vec::new();
    for case in cases() {
        let samples = run(lines, &case, rounds).await?;
        say(&row(&case, &samples));
        misses.extend(missed(&case, lines, &samples));
    }
    Ok(misses)
}

fn cases() -> impl Iterator<Item = Case> {
    SIZES.into_iter().flat_map(|(size, bytes, burst)| {
        Mode::ALL
            .into_iter()
            .flat_map(move |mode| [false, true].map(|is_streamed| Case { size, bytes, mode, is_streamed, burst }))
    })
}

async fn run(lines: &mut [Line], case: &Case, rounds: usize) -> Outcome<Vec<Sample>> {
    let mut samples = vec![Sample::default(); lines.len()];
    let name = |line: &Line| format!("{}{}{}{}", line.name, case.bytes / KB, case.mode.name(), case.is_streamed);
    let mut talks: Vec<_> = lines.iter().map(|line| Conversation::new(name(line), case.bytes)).collect();
    let mut turn = 0;
    for round in 0..rounds + 1 {
        for place in 0..lines.len() {
            let at = (place + round) % lines.len();
            let count = if round == 0 { WARM_UP } else { case.burst };
            for _ in 0..count {
                turn += 1;
                talks[at].next(case.mode, turn);
                let took = lines[at].ask(&talks[at].request(case.is_streamed)).await?;
                if round > 0 {
                    samples[at].push(if case.is_streamed { took.first } else { took.all });
                }
            }
        }
    }
    Ok(samples)
}

fn row(case: &Case, samples: &[Sample]) -> String {
    let both = |p50: f64, p99: f64| format!("{} / {}", micros(p50), micros(p99));
    let direct = &samples[0];
    let added = |sample: &Sample| both(sample.at(0.5) - direct.at(0.5), sample.at(0.99) - direct.at(0.99));
    let rest: Vec<String> = samples[1..].iter().map(|sample| format!("{:>22}", added(sample))).collect();
    let answer = if case.is_streamed { "stream" } else { "whole" };
    let direct_text = both(direct.at(0.5), direct.at(0.99));
    let mode = case.mode.name();
    format!("{:<8} {mode:<8} {answer:<7} {:>5} {direct_text:>18} {}", case.size, direct.len(), rest.join(" "))
}

/// What a case misses, in a sentence each. A conversation that is new each time is no target: agents go on.
fn missed(case: &Case, lines: &[Line], samples: &[Sample]) -> Vec<String> {
    let added = |name: &str| {
        let at = lines.iter().position(|line| line.name == name)?;
        Some(samples[at].at(0.5) - samples[0].at(0.5))
    };
    let (what, peer, factor) = match case.size {
        "4 KB" => ("nginx", added("nginx"), NGINX_FACTOR),
        "1 MB" => ("litellm", added("litellm"), LITELLM_SHARE),
        _ => return Vec::new(),
    };
    let (Some(own), Some(peer)) = (added("epitome"), peer) else { return Vec::new() };
    let is_met = case.mode == Mode::New || own <= peer * factor;
    let answer = if case.is_streamed { "stream" } else { "whole" };
    let sentence = format!(
        "{} {} {answer}: epitome adds {}, {what} adds {}: {:.2}x, the target is at most {factor}x.",
        case.size,
        case.mode.name(),
        micros(own),
        micros(peer),
        own / peer
    );
    if is_met { Vec::new() } else { vec![sentence] }
}
