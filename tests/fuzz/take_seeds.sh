#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# take_seeds.sh PROGRAM FOLDER…: runs a fuzz program once with every input in the given folders, and with no other
# input. Folders that do not exist are ignored.
set -euo pipefail
program=$1
shift
folders=()
for folder; do
    [[ ! -d $folder ]] || folders+=("$folder")
done
((${#folders[@]} > 0)) || { echo "${program##*/} has no seed: give it one in tests/fuzz/seeds or tests/fuzz/seeds_main.cpp"; exit 1; }
exec "$program" -runs=0 -timeout=10 -rss_limit_mb=2048 "${folders[@]}"
