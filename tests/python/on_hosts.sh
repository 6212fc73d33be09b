#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# on_hosts.sh LAYOUT… -- PROGRAM ARGUMENT…: runs the program as if this machine was several hosts; RUEDA_HOSTNAME gives
# the ranks different host names. The layout "2,1" means two ranks on the first host and one on the second.
set -euo pipefail
mpirun --version 2>/dev/null | grep -q "Open MPI" || { echo "no Open MPI here: skipped"; exit 77; }
layouts=()
while [[ $1 != -- ]]; do
    layouts+=("$1")
    shift
done
shift
for layout in "${layouts[@]}"; do
    job=()
    host=0
    for ranks in ${layout//,/ }; do
        job+=(-np "$ranks" -x "RUEDA_HOSTNAME=host$((++host))" "$@" :)
    done
    echo "== $layout"
    mpirun --allow-run-as-root --oversubscribe --bind-to none "${job[@]:0:${#job[@]}-1}"
done
