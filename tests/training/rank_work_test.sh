#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# Usage: rank_work_test.sh RUEDARUN NP PROGRAM. Runs the program, and looks for the lines about rank 1's wait and
# about the work of rank 0.
set -u
output=$(RUEDA_LOG_LEVEL=info "$1" --no-mpi -np "$2" "$3" 2>&1)
status=$?
printf '%s\n' "$output"
if ((status != 0)); then
    exit "$status"
fi
lines=$(grep -cE "Rank 1 waited for rank 0 for [0-9]+\.[0-9] s, because rank 0 worked on 'waited for'\." <<<"$output")
expected=$(($2 > 1 ? 1 : 0))
if [[ $lines != "$expected" ]] || grep -q "Rank 1 .*short work'" <<<"$output"; then
    echo "rank_work_test: $lines lines about the wait; expected $expected, and none about the short work"
    exit 1
fi
# Rank 0's work sleeps for half a second, so the log must report at least this time.
if ! grep -qE "Rank 0 worked on 'waited for' for ([1-9][0-9]*\.[0-9]|0\.[5-9]) s" <<<"$output"; then
    echo "rank_work_test: rank 0 did not log how long its work took"
    exit 1
fi
