#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# hosts.sh PYTHON: runs tests with several hosts on this machine; RUEDA_HOSTNAME gives the ranks different host names.
# - jobs of three ranks and of two ranks on two hosts; joins in jobs of three ranks and of four ranks
# - compressed tensors between three hosts, one of which has two ranks
# - process sets that only their members create
# - jobs that contain only some of the four launched ranks, on two hosts, if mpi4py is installed
set -euo pipefail
mpirun --version 2>/dev/null | grep -q "Open MPI" || { echo "no Open MPI here: skipped"; exit 77; }
program='
import numpy, os, rueda
rueda.init()
total = rueda.allreduce(numpy.full(5, rueda.rank() + 1.0), "sum", rueda.Sum)
# Sends messages around the ring of ranks, small and large. Some receivers are on the same host as the sender, others
# are on the other host.
for elements in (3, 50_000):
    sent = rueda.send_async(numpy.full(elements, 1.0 * rueda.rank()), (rueda.rank() + 1) % rueda.size())
    got = numpy.empty(elements)
    before = (rueda.rank() - 1) % rueda.size()
    assert rueda.receive(got) == before and (got == before).all()
    sent.wait()
line = rueda.rank(), rueda.local_size(), rueda.cross_size(), rueda.is_homogeneous(), total[0]
# one write for the whole line, so that the lines of the ranks do not mix
os.write(1, (" ".join(map(str, line)) + "\n").encode())
rueda.shutdown()
'
run() { # mpirun's arguments…
    mpirun --allow-run-as-root --oversubscribe --bind-to none "$@" | sort
}
python=$1
test_join="$(dirname "${BASH_SOURCE[0]}")/test_join.py"
joins() { # ranks on the first host, and on the second
    run -np "$1" -x RUEDA_HOSTNAME=a "$python" -B "$test_join" : -np "$2" -x RUEDA_HOSTNAME=b "$python" -B "$test_join"
}
uneven=$(run -np 2 -x RUEDA_HOSTNAME=a "$python" -B -c "$program" : -np 1 -x RUEDA_HOSTNAME=b "$python" -B -c "$program")
[[ $uneven == $'0 2 2 False 6.0\n1 2 1 False 6.0\n2 1 2 False 6.0' ]] || { echo "two and one: $uneven"; exit 1; }
even=$(run -np 1 -x RUEDA_HOSTNAME=a "$python" -B -c "$program" : -np 1 -x RUEDA_HOSTNAME=b "$python" -B -c "$program")
[[ $even == $'0 1 2 True 3.0\n1 1 2 True 3.0' ]] || { echo "one and one: $even"; exit 1; }
compression=("$python" -B "$(dirname "$0")/test_compression.py")
mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 -x RUEDA_HOSTNAME=a "${compression[@]}" : \
    -np 1 -x RUEDA_HOSTNAME=b "${compression[@]}" : -np 1 -x RUEDA_HOSTNAME=c "${compression[@]}"
for hosts in "2 1" "2 2"; do
    read -r first second <<<"$hosts"
    joins "$first" "$second" || { echo "joins on $hosts"; exit 1; }
done
member_sets=("$python" -B "$(dirname "$0")/test_member_sets.py")
for hosts in "1 1" "2 2"; do
    read -r first second <<<"$hosts"
    run -np "$first" -x RUEDA_HOSTNAME=a "${member_sets[@]}" : -np "$second" -x RUEDA_HOSTNAME=b "${member_sets[@]}" \
        || { echo "sets of members on two hosts: $hosts"; exit 1; }
done
if "$python" -c "import mpi4py" 2> /dev/null; then
    parts=("$python" -B "$(dirname "$0")/test_mpi4py.py" mpi4py)
    mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 -x RUEDA_HOSTNAME=a "${parts[@]}" : -np 2 -x RUEDA_HOSTNAME=b "${parts[@]}"
fi
