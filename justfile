# Everything that takes longer than a test. `just --list` shows it.

# all checks, as CI runs them
test:
    scripts/test

# the tests again and again, alone and beside two busy loops: which one fails now and then? just flaky 5 30 -- -p epitome-gateway
flaky *arguments:
    scripts/repeat {{arguments}}

# compacts the sample session
demo:
    scripts/demo

# quality against what really happened next, on the recordings beside the checkout
eval cases="30":
    cargo build --release --locked --quiet
    scripts/eval {{cases}}

# speed against real peers, in one run: the library, then the gateway
bench:
    scripts/bench
    scripts/bench-gateway

# ten minutes of everything that can go wrong around a gateway; then nothing may be lost, and nothing may have grown
soak seconds="600":
    cargo build --release --locked --quiet -p epitome-cli
    SOAK_SECONDS={{seconds}} scripts/soak

# kills a gateway on SQLite at any moment, this often, and looks whether the store has what was answered
kill rounds="60":
    KILL_ROUNDS={{rounds}} cargo test --locked -p epitome-cli --all-features --test kill -- --nocapture

# what policies cost with the provider's cache priced in, beside the peers', on the recordings beside the checkout
cost:
    scripts/cost

# long fuzzing of one decoder (chat responses anthropic ai_sdk pi claude codex policy …): just fuzz chat 600
fuzz target="chat" seconds="300":
    command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked
    cd fuzz && cargo +nightly fuzz run {{target}} -- -max_total_time={{seconds}} -max_len=65536

# every preset on every recording in every dialect, all invariants; at most half an hour
proof:
    EPITOME_FULL=1 timeout 1800 cargo test --release -p epitome --test proof recordings -- --nocapture

# rewrites the golden prompts
bless:
    EPITOME_BLESS=1 cargo test -p epitome --test proof golden
