#!/usr/bin/env bash
# Builds all tests, with the mistakes that can be planted and none made, and prints a line for each program of them: its
# name as ROOM:KIND:NAME with kind lib, bin or test, the folder of its room, and where it is. What cargo has to say goes
# to stderr.
#
#   scripts/programs.sh [ARGUMENTS OF cargo test]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# A room that is built with other features is built again, with all that leans on it: so everything is built once. What
# users get is built without (`make run`, `make package`), and the lints look at it so.
cargo test --workspace --features "$(scripts/mistakes.sh)" --no-run --message-format=json-render-diagnostics "$@" |
  jq --raw-output 'select(.executable != null and .profile.test)
    | (.manifest_path | rtrimstr("/Cargo.toml")) as $folder
    | "\($folder | split("/")[-1]):\(.target.kind[0]):\(.target.name) \($folder) \(.executable)"'
