#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# distributed_hosts.sh PYTHON: runs the tests of torch.distributed over MPI as if this machine was two hosts;
# RUEDA_HOSTNAME gives the ranks different host names. First each host has one rank, then two ranks.
set -euo pipefail
mpirun --version 2>/dev/null | grep -q "Open MPI" || { echo "no Open MPI here: skipped"; exit 77; }
python=$1
folder=$(dirname "${BASH_SOURCE[0]}")
export MASTER_ADDR=localhost OMP_NUM_THREADS=1
for each in 1 2; do
    for name in collectives messages orders training; do
        program=("$python" -B "$folder/test_distributed_$name.py")
        mpirun --allow-run-as-root --oversubscribe --bind-to none \
            -np $each -x RUEDA_HOSTNAME=a "${program[@]}" : -np $each -x RUEDA_HOSTNAME=b "${program[@]}" \
            || { echo "$name with $each ranks on each of two hosts"; exit 1; }
    done
done
