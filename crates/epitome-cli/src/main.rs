//! The `epitome` binary.
use epitome::budget::{Bpe, Meter, Tokens};
use epitome::plan::{Ask, Room, Verdict, decide};
use epitome::policy::preset;
use epitome::render::render;
use epitome::thread::Thread;
use epitome::wire::Document;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let get = |flag: &str| args.iter().position(|a| a == flag).map(|at| args[at + 1].clone());
    let text = std::fs::read_to_string(&args[2]).unwrap();
    let budget: u64 = get("--budget").unwrap().parse().unwrap();
    let document = Document::decode(&text, None).unwrap();
    let counter = Bpe::O200k;
    let meter = Meter::new(&counter, document.dialect());
    let mut thread = Thread::new();
    thread.extend(document.messages(), &meter);
    let policy = preset(&get("--policy").unwrap_or("ladder".into())).unwrap();
    let system: Tokens =
        thread.messages().iter().filter(|m| m.role() == epitome::thread::Role::System).map(|m| m.tokens()).sum();
    let room = Room::exactly(Tokens::new(budget).share(0.95) + system);
    let ask = Ask { force: true, ..Ask::default() };
    let verdict = decide(&thread, room, &policy, meter, &ask);
    let Verdict::Act(draft) = verdict else {
        eprintln!("{verdict:?}");
        std::process::exit(1)
    };
    let compaction = draft.finish();
    for step in &compaction.plan.steps {
        eprintln!("{step:?}");
    }
    eprintln!("{} -> {} {:?}", compaction.plan.before, compaction.plan.after, compaction.plan.shortfall);
    let prompt = render(&thread, Some(&compaction), &policy, document.dialect(), meter, &[]);
    eprintln!("{}", epitome::render::layout(&prompt, &thread));
    eprintln!("rendered {}", prompt.tokens(&thread, meter));
    let out = document.encode(&prompt.items(&thread));
    std::fs::write(get("-o").unwrap(), out).unwrap();
}
