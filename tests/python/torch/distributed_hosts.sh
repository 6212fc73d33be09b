#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# distributed_hosts.sh PYTHON [all]: runs tests of torch.distributed over MPI as if this machine was two hosts;
# RUEDA_HOSTNAME gives the ranks different host names. The collectives run with two ranks on each host, and the messages
# with one. With "all", all tests run with one and with two ranks on each host.
set -euo pipefail
mpirun --version 2>/dev/null | grep -q "Open MPI" || { echo "no Open MPI here: skipped"; exit 77; }
python=$1
folder=$(dirname "${BASH_SOURCE[0]}")
export MASTER_ADDR=localhost OMP_NUM_THREADS=1
runs=("1 messages" "2 collectives")
if [[ ${2:-} == all ]]; then
    runs=({1,2}" "{collectives,messages,orders,training})
fi
for run in "${runs[@]}"; do
    read -r each name <<<"$run"
    program=("$python" -B "$folder/test_distributed_$name.py")
    mpirun --allow-run-as-root --oversubscribe --bind-to none \
        -np "$each" -x RUEDA_HOSTNAME=a "${program[@]}" : -np "$each" -x RUEDA_HOSTNAME=b "${program[@]}" \
        || { echo "$name with $each ranks on each of two hosts"; exit 1; }
done
