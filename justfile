# The commands of this repository. `just --list` shows them.

# format, lints and unit tests: what to run before every commit; needs no network and no services
check:
    cargo fmt --all -- --check
    cargo clippy --quiet --workspace --all-targets --all-features --locked -- -D warnings
    cargo test --quiet --workspace --all-features --locked --lib --bins

# the whole test suite; starts Postgres, an S3 server and small models unless they run already
test *arguments:
    #!/usr/bin/env bash
    set -euo pipefail
    if [ ! -e target/services/env ]; then
        trap 'scripts/services stop' EXIT
        scripts/services start
    fi
    set -a
    . target/services/env
    set +a
    cargo test --workspace --all-features --locked {{arguments}}

# everything that CI runs: checks, docs, dependencies, all tests, real SDKs and real agents
ci:
    scripts/test

# build epitome and compact the sample session
demo:
    scripts/demo

# rewrite the golden prompts, the OpenAPI document and its page; read the diff before you commit it
bless:
    EPITOME_BLESS=1 cargo test --quiet --workspace --all-features --locked --test proof golden
    EPITOME_BLESS=1 cargo test --quiet --workspace --all-features --locked --test api document

# repeat the tests, alone and beside two busy loops, to find those that fail now and then: just flaky 5 30 -- --workspace --test proxy
flaky *arguments:
    scripts/repeat {{arguments}}

# kill a gateway on SQLite at random moments and check that the store has every answered message
kill rounds="60":
    KILL_ROUNDS={{rounds}} cargo test --workspace --all-features --locked --test kill -- --nocapture

# run a gateway through ten minutes of failing clients, providers and stores; nothing may be lost or grow
soak seconds="600":
    cargo build --release --locked --quiet -p epitome-cli
    SOAK_SECONDS={{seconds}} scripts/soak

# check every preset on every recording in every dialect, against all invariants; half an hour at most
proof:
    EPITOME_FULL=1 timeout 1800 cargo test --release -p epitome --test proof recordings -- --nocapture

# fuzz one decoder (chat responses anthropic ai_sdk pi pi_events claude_code codex policy): just fuzz chat 600
fuzz target="chat" seconds="300":
    command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked
    cd fuzz && cargo +nightly fuzz run {{target}} -- -max_total_time={{seconds}} -max_len=65536

# score the embedded summarizer against what happened next in the recordings beside the checkout
eval cases="30":
    cargo build --release --locked --quiet
    scripts/eval {{cases}}

# measure speed against other libraries and proxies: the library, then the gateway
bench:
    scripts/bench
    scripts/bench-gateway

# measure time and memory of plan and compact on files of 200 MB and on one message: just size 20 for smaller files
size megabytes="200":
    scripts/size {{megabytes}}

# price the policies with the provider's cache, beside other libraries, on the recordings beside the checkout
cost:
    scripts/cost
