//! Tests of sessions: recorded files where they are at hand.

use super::{ReadOptions, Session};

#[test]
fn recorded() {
    for f in ["pi/large-session", "claude-code/init", "claude-code/with-compaction", "codex/rollout-compacted"] {
        let t = std::fs::read_to_string(format!("/work/shared/data/sessions/{f}.jsonl")).unwrap();
        let s = Session::read(&t, &ReadOptions::default()).unwrap();
        println!("{f} {} entries {} log {} ctx {} comp {:?} model {:?} usage {:?} id {:?} sys {:?}", s.format(), s.entries().len(), s.log().len(), s.context().len(),
            s.compactions().iter().map(|c| (c.line, c.before.len(), c.after.len(), c.tokens_before, c.summary.len())).collect::<Vec<_>>(), s.model(), s.usage(), s.id(), s.system().map(|s| s.len()));
        for n in s.notices().iter().take(8) { println!("   {n}"); }
    }
}
