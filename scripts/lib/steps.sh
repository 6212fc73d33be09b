# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# shellcheck shell=bash
# Steps: each prints one line with the time it took; what it says goes to build/logs/<name>.log, whose end is shown when
# it fails. Sourced by scripts that have set -euo pipefail and stand in the root of the tree.

# Objects of one clone serve another one: the folder of the clone is not part of what ccache compares.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# shellcheck disable=SC2034  # the scripts that source this file use them
readonly kOk=0 kFailed=1 kUsage=2 kCannotInstall=3
readonly kBuild=build
readonly kLogs=build/logs
dry_run=no
assume_yes=no

# Minutes and seconds of a number of seconds.
clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

die() { # status message
    printf '%s\n' "$2" >&2
    exit "$1"
}

usage_error() { die "$kUsage" "scripts/${0##*/}: $1; see scripts/${0##*/} --help"; }

# A terminal on both ends is the only place where a question makes sense.
interactive() { [[ -t 0 && -t 1 && $assume_yes == no && -z ${CI:-} ]]; }

# Where something in build/ belongs to root from an earlier run, say so before a tool says it less clearly.
prepare_build_folder() {
    if mkdir -p "$kLogs" build/cache 2>/dev/null && [[ -w $kBuild && -w $kLogs && -w build/cache ]]; then
        return
    fi
    die "$kFailed" "$PWD/build cannot be written to by $(id -un), perhaps made by root; remove it and run this again"
}

print_step() { # title seconds remark
    printf '%s%*s%7s%s\n' "$1" $((62 - ${#1} > 0 ? 62 - ${#1} : 0)) '' "$(clock "$2")" "${3:+  $3}"
}

# step NAME TITLE COMMAND…: runs it, with its output in the log. Returns its status; the last lines of the log are shown
# when it fails.
step() {
    local name=$1 title=$2 begin=$SECONDS status=0
    shift 2
    if [[ $dry_run == yes ]]; then
        printf '  %s: %s\n' "$title" "$*"
        return 0
    fi
    "$@" >"$kLogs/$name.log" 2>&1 </dev/null || status=$?
    if ((status == 0)); then
        print_step "  $title" $((SECONDS - begin))
    else
        print_step "  $title" $((SECONDS - begin)) "FAILED (exit status $status)"
        printf -- '---- the end of %s\n' "$kLogs/$name.log"
        tail -n "${RUEDA_LOG_LINES:-40}" "$kLogs/$name.log" || true
        printf -- '----\n'
    fi
    return "$status"
}

# The cores that a build may use: by affinity, and one job for each 1.5 GB of memory.
build_jobs() {
    local cores memory_kb
    cores=$(nproc)
    memory_kb=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
    local by_memory=$((${memory_kb:-1500000} / 1500000))
    ((by_memory >= 1)) || by_memory=1
    printf '%d\n' $((cores < by_memory ? cores : by_memory))
}

# configure PRESET [cmake arguments…]
configure() {
    local preset=$1
    shift
    cmake --preset "$preset" "$@"
}

build() { # preset [cmake --build arguments…]
    local preset=$1
    shift
    cmake --build --preset "$preset" --parallel "$(build_jobs)" "$@"
}
