#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# take_seeds.sh PROGRAM FOLDER…: gives a fuzz program every input of those folders that are there, each once, and none of its own.
set -euo pipefail
program=$1
shift
folders=()
for folder; do
    [[ ! -d $folder ]] || folders+=("$folder")
done
((${#folders[@]} > 0)) || { echo "${program##*/} has no seed: give it one in tests/fuzz/seeds or tests/fuzz/seeds_main.cpp"; exit 1; }
exec "$program" -runs=0 -timeout=10 -rss_limit_mb=2048 "${folders[@]}"
