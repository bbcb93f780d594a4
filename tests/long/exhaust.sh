#!/bin/bash
# All that two hosts, etcd and an origin can do to each other within bounds, with the server's own state machine (stateright).
. "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/../../crates/cluster/exhaust"
cargo test --quiet --locked --target-dir ../../../target/exhaust -- --include-ignored --nocapture | tee "$WORK/said"
grep -m1 ' states, ' "$WORK/said"
