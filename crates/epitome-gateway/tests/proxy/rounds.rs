//! A hundred compactions of one conversation through the gateway: what the user said once stays, prompts do not grow, and
//! numbers in the last prompt are those of the log.

use epitome::wire::Dialect;
use serde_json::Value;

use crate::talk::Talk;
use crate::world::Plan;

const ROUNDS: u64 = 100;
const FACTS: [&str; 2] = ["I prefer Python.", "My budget is $1000."];
const BUDGET: u64 = 3_000;

/// The words of the prompt's messages, one after the other.
fn words(body: &Value) -> String {
    let messages = body["messages"].as_array().unwrap();
    messages.iter().map(|message| format!("{}\n", message["content"].as_str().unwrap_or_default())).collect()
}

#[tokio::test]
async fn a_hundred_rounds_through_the_gateway_lose_no_fact_and_no_number() {
    let world = Plan::new().window(12_000).budget(BUDGET).start().await;
    let mut talk = Talk::about(Dialect::Chat, "Help me with the files.").header("x-session-id", "s");
    talk.hears("Gladly.").says(&FACTS.join(" "));
    let (mut plan, mut thread) = (0, String::new());
    for _ in 0..4 * ROUNDS {
        for _ in 0..12 {
            talk.works(150);
        }
        let got = talk.send(&world.gate).await.fine();
        (plan, thread) = (got.plan(), got.placed().0);
        let sent: Value = world.newest().json().unwrap();
        let number = |name| got.told(name).and_then(|number| number.parse::<u64>().ok());
        assert_eq!(number("rounds"), (plan > 0).then_some(plan));
        // Every so many rounds a person is told what that costs.
        let warning = got.told("warning");
        assert_eq!(warning.is_some(), plan > 0 && plan % 5 == 0, "plan {plan}: {warning:?}");
        assert!(warning.is_none_or(|words| words.contains(&format!("compacted {plan} times"))), "{warning:?}");
        if plan > 0 {
            let said = words(&sent);
            for fact in FACTS {
                assert!(said.contains(fact), "plan {plan}: {fact}\n{said}");
            }
            assert!(sent.to_string().len() < 8 * BUDGET as usize, "plan {plan}: it grows\n{said}");
        }
        if plan >= ROUNDS {
            break;
        }
    }
    assert!(plan >= ROUNDS, "{plan} rounds");
    world.assert_lawful();
    let said = words(&world.newest().json().unwrap());
    let mut read_back = 0;
    // `src/file7.rs (read m41)`
    for named in said.split("src/file").skip(1) {
        let Some((file, rest)) = named.split_once(".rs (read m") else { continue };
        let Some(number) = rest.split(')').next().and_then(|number| number.parse::<u64>().ok()) else { continue };
        let path = format!("/api/threads/{thread}/messages?from={number}&to={number}");
        let message = world.gate.ask(&path).await["messages"][0]["message"].to_string();
        // The call that reads it.
        assert!(message.contains(&format!("src/file{file}.rs")), "m{number} is not file {file} but {message}");
        read_back += 1;
    }
    assert!(read_back > 5, "the prompt names too little to be a test: {read_back}\n{said}");
}
