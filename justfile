# Everything that takes longer than a test. `just --list` shows it.

# all checks, as CI runs them
test:
    scripts/test

# compacts the sample session
demo:
    scripts/demo

# quality against what really happened next, on the recordings beside the checkout
eval cases="30":
    cargo build --release --locked --quiet
    scripts/eval {{cases}}

# speed against real peers, in one run
bench:
    scripts/bench

# long fuzzing of one decoder: just fuzz document 600
fuzz target="document" seconds="300":
    cd fuzz && cargo +nightly fuzz run {{target}} -- -max_total_time={{seconds}}

# every preset on every recording, all invariants
proof:
    EPITOME_ALL_RECORDINGS=1 cargo test --release -p epitome --test invariants -- --nocapture

# rewrites the golden prompts
bless:
    EPITOME_BLESS=1 cargo test -p epitome --test golden
