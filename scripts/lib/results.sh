# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# shellcheck shell=bash
# What passed and what failed: tests from ctest's JUnit files, and each other step that failed counts as one failure.
# Needs lib/steps.sh.

readonly kResults=build/results
failed_steps=0

# check NAME TITLE COMMAND…: a step whose failure is counted, and does not end the script.
check() {
    step "$@" || failed_steps=$((failed_steps + 1))
}

skip() { # title reason
    print_step "  $1" 0 "skipped: $2"
}

# count_failure NAME: what failed counts as one, unless its tests are counted one by one.
count_failure() {
    local failed=0
    read -r _ failed _ < <(python3 scripts/lib/test_results.py counts "$kResults/$1"*.xml 2>/dev/null) || failed=0
    ((failed > 0)) || failed_steps=$((failed_steps + 1))
}

# How many tests run beside each other: as many as there are cores, and at least two, since most of them wait more than they
# compute. A test that needs more than one core says so (PROCESSORS), and so does one that has to be alone (RUN_SERIAL).
test_jobs() {
    local cores
    cores=$(nproc)
    echo $((cores > 2 ? cores : 2))
}

# run_tests NAME TITLE BUILD-FOLDER [ctest arguments…]. A test folder without a test that fits is a failure.
ctest_under=
run_tests() {
    local name=$1 title=$2 folder=$3
    local -a under
    shift 3
    read -r -a under <<<"$ctest_under" || true
    rm -f "$kResults/$name.xml"
    step "$name" "$title" "${under[@]}" ctest --test-dir "$folder" --parallel "$(test_jobs)" --output-on-failure --no-tests=error \
        --timeout 300 --output-junit "$PWD/$kResults/$name.xml" "$@" || count_failure "$name"
}

# The last line, alone, and the status that belongs to it.
finish() {
    [[ $dry_run == no ]] || exit "$kOk"
    local line
    local -a files=("$kResults"/*.xml)
    [[ -e ${files[0]} ]] || files=()
    print_step "all of it" "$SECONDS"
    line=$(python3 scripts/lib/test_results.py line "$failed_steps" "${files[@]}") || exit "$kFailed"
    printf '%s\n' "$line"
    # A run without any test has shown nothing.
    [[ $line =~ ^[1-9][0-9]*\ passed,\ 0\ failed ]] || exit "$kFailed"
}
