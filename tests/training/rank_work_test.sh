#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# Usage: rank_work_test.sh RUEDARUN NP PROGRAM. Runs the program, and looks for the line about rank 1's wait.
set -u
output=$("$1" --no-mpi -np "$2" "$3" 2>&1)
status=$?
printf '%s\n' "$output"
if ((status != 0)); then
    exit "$status"
fi
lines=$(grep -cE "Rank 1 waited for rank 0 for [0-9]+\.[0-9] s, because rank 0 worked on 'waited for'\." <<<"$output")
expected=$(($2 > 1 ? 1 : 0))
if [[ $lines != "$expected" ]] || grep -q "short work'" <<<"$output"; then
    echo "rank_work_test: $lines lines about the wait; expected $expected, and none about the short work"
    exit 1
fi
