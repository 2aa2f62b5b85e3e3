#!/usr/bin/env bash
# Prints the features that build rooms with the mistakes that can be planted in them: each in its own words.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
grep --files-with-matches '^mutants = ' crates/*/Cargo.toml |
  sed 's|^crates/\(.*\)/Cargo.toml$|drystone-\1/mutants|' | paste --serial --delimiters=,
