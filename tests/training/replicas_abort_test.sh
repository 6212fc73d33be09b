#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# Usage: replicas_abort_test.sh RUEDARUN PROGRAM REASON REDUCTION SURVIVORS. Runs the program on two ranks, and counts the ranks that
# had the expected errors.
set -u
output=$("$1" --no-mpi -np 2 "$2" "$3" "$4" 2>&1)
status=$?
printf '%s\n' "$output"
lines=$(grep -c 'as expected' <<<"$output")
if ((status == 0)) || [[ $lines != "$5" ]]; then
    echo "replicas_abort_test: exit status $status and $lines ranks as expected; expected a failure and $5 ranks"
    exit 1
fi
