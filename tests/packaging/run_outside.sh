# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# shellcheck shell=bash
# run_outside PREFIX LIBDIR PROGRAM: runs the program alone, then with two processes under the installed launcher. If
# the MPI plugin was installed, the function also runs the program under mpirun, and librueda.so must find the plugin in
# its own folder.
# The sum of rank + 1 over the ranks is 1 for one process, and 3 for two.
run_outside() {
    local alone
    unset RUEDA_MPI_PLUGIN
    alone=$("$3")
    [[ $alone == "rank 0 of 1: 1" ]] || { echo "alone, the program printed: $alone"; return 1; }
    two_ranks "$1/bin/ruedarun" --no-mpi -np 2 "$3" || return 1
    if [[ -e $1/$2/librueda_mpi.so ]] && mpirun --version 2>/dev/null | grep -q "Open MPI"; then
        two_ranks mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 "$3" || return 1
    fi
}

two_ranks() { # command…
    local printed
    printed=$("$@" | grep -oE 'rank [01] of 2: [0-9]+' | sort)
    [[ $printed == $'rank 0 of 2: 3\nrank 1 of 2: 3' ]] || { echo "$1: the program printed: $printed"; return 1; }
}
