//! Time to the first byte and to the first token of a stream whose provider takes its time.

use crate::body::{Conversation, Mode};
use crate::line::Line;
use crate::sample::{Sample, micros};
use crate::{Outcome, say};

/// The first token through a proxy comes at most this many times later than directly.
const TOKEN_FACTOR: f64 = 1.05;
const BODY_BYTES: usize = 4096;

/// Measures it; the targets that were missed.
pub async fn measure(lines: &mut [Line], rounds: usize) -> Outcome<Vec<String>> {
    let mut firsts = vec![[Sample::default(), Sample::default(), Sample::default()]; lines.len()];
    let mut talks: Vec<_> =
        lines.iter().map(|line| Conversation::new(format!("first{}", line.name), BODY_BYTES)).collect();
    for round in 0..rounds + 1 {
        for (at, line) in lines.iter_mut().enumerate() {
            talks[at].next(Mode::Growing, round);
            let took = line.ask(&talks[at].request(true)).await?;
            if round > 0 {
                let [first, token, all] = &mut firsts[at];
                first.push(took.first);
                token.push(took.token);
                all.push(took.all);
            }
        }
    }
    say("a slow stream, p50: first byte, first token, last byte");
    for (line, samples) in lines.iter().zip(&firsts) {
        let [first, token, all] = samples.each_ref().map(|sample| micros(sample.at(0.5)));
        say(&format!("{:<10} {first:>10} {token:>10} {all:>10}", line.name));
    }
    let direct = firsts[0][1].at(0.5);
    let late = |(line, samples): (&Line, &[Sample; 3])| {
        let token = samples[1].at(0.5);
        (line.name == "epitome" && token > direct * TOKEN_FACTOR)
            .then(|| format!("The first token comes after {}, directly after {}.", micros(token), micros(direct)))
    };
    Ok(lines.iter().zip(&firsts).filter_map(late).collect())
}
