# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# shellcheck shell=bash
# Runs the steps of a script. Each step prints one line with the time that it took. Its output goes to
# build/logs/<name>.log, and the end of the log is shown if the step fails. Scripts that source this file have set -euo
# pipefail and run in the root of the tree.

# With these variables ccache ignores the folder of the clone, so all clones share their object files.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# shellcheck disable=SC2034  # the scripts that source this file use them
readonly kOk=0 kFailed=1 kUsage=2 kCannotInstall=3
readonly kBuild=build
readonly kLogs=build/logs
dry_run=no
assume_yes=no

# Prints a number of seconds as minutes and seconds.
clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

die() { # status message
    printf '%s\n' "$2" >&2
    exit "$1"
}

usage_error() { die "$kUsage" "scripts/${0##*/}: $1; see scripts/${0##*/} --help"; }

# Succeeds if the script may ask a question: both input and output are a terminal.
interactive() { [[ -t 0 && -t 1 && $assume_yes == no && -z ${CI:-} ]]; }

# Ends the script with a clear message if an earlier run as root left files in build/ that this user cannot write.
# Without this check a tool would fail with a message that is harder to understand.
prepare_build_folder() {
    if mkdir -p "$kLogs" build/cache 2>/dev/null && [[ -w $kBuild && -w $kLogs && -w build/cache ]]; then
        return
    fi
    die "$kFailed" "$PWD/build cannot be written to by $(id -un), perhaps made by root; remove it and run this again"
}

print_step() { # title seconds remark
    printf '%s%*s%7s%s\n' "$1" $((62 - ${#1} > 0 ? 62 - ${#1} : 0)) '' "$(clock "$2")" "${3:+  $3}"
}

# step NAME TITLE COMMAND…: runs the command and writes its output to the log. Returns the command's status. If the
# command fails, the last lines of the log are shown.
step() {
    local name=$1 title=$2 begin=$SECONDS status=0
    shift 2
    if [[ $dry_run == yes ]]; then
        printf '  %s:%s\n' "$title" "$(printf ' %q' "$@")"
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

# Prints the number of build jobs: the cores that this process may use, but at most one job for each 1.5 GB of memory.
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
