# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# shellcheck shell=bash
# Counts passed and failed tests and steps. Tests are counted from ctest's JUnit files. Every other step that fails
# counts as one failure. Needs lib/steps.sh.

readonly kResults=build/results
failed_steps=0

# check NAME TITLE COMMAND…: runs a step. A failure is counted and does not end the script.
check() {
    step "$@" || failed_steps=$((failed_steps + 1))
}

skip() { # title reason
    print_step "  $1" 0 "skipped: $2"
}

# count_failure NAME: counts one failure for a failed step. Counts nothing if tests of the step failed, because these
# tests are counted one by one.
count_failure() {
    local failed=0
    read -r _ failed _ < <(python3 scripts/lib/test_results.py counts "$kResults/$1"*.xml 2>/dev/null) || failed=0
    ((failed > 0)) || failed_steps=$((failed_steps + 1))
}

# The number of tests that run at the same time. It is the number of cores, but at least three, because most tests wait
# more than they compute. Tests that need several cores have the property PROCESSORS, and tests that must run alone have
# RUN_SERIAL.
test_jobs() {
    local cores
    cores=$(nproc)
    echo $((cores > 3 ? cores : 3))
}

# run_tests NAME TITLE BUILD-FOLDER [ctest arguments…]: runs tests. If no test matches, this counts as a failure.
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

# Prints the results of the script in one line. Ends the script with an error if a test or a step failed.
finish() {
    [[ $dry_run == no ]] || exit "$kOk"
    local line
    local -a files=("$kResults"/*.xml)
    [[ -e ${files[0]} ]] || files=()
    print_step "all of it" "$SECONDS"
    line=$(python3 scripts/lib/test_results.py line "$failed_steps" "${files[@]}") || exit "$kFailed"
    printf '%s\n' "$line"
    # a run without any passed test is a failure, because it has shown nothing
    [[ $line =~ ^[1-9][0-9]*\ passed,\ 0\ failed ]] || exit "$kFailed"
}
