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
    read -r _ failed _ < <(python3 scripts/lib/count_tests.py "$kResults/$1"*.xml 2>/dev/null) || failed=0
    ((failed > 0)) || failed_steps=$((failed_steps + 1))
}

# run_tests NAME TITLE BUILD-FOLDER [ctest arguments…]. A test folder without a test that fits is a failure. Two tests run beside
# each other, on more cores as well: one that needs more than a core says so (PROCESSORS), and runs alone then, as it also must
# where it looks for what others leave behind.
ctest_under=
run_tests() {
    local name=$1 title=$2 folder=$3
    local -a under
    shift 3
    read -r -a under <<<"$ctest_under" || true
    rm -f "$kResults/$name.xml"
    step "$name" "$title" "${under[@]}" ctest --test-dir "$folder" --parallel 2 --output-on-failure --no-tests=error \
        --timeout 300 --output-junit "$PWD/$kResults/$name.xml" "$@" || count_failure "$name"
}

# The last line, alone, and the status that belongs to it.
finish() {
    [[ $dry_run == no ]] || exit "$kOk"
    local passed=0 failed=0 skipped=0
    local -a files=("$kResults"/*.xml)
    if [[ -e ${files[0]} ]]; then
        read -r passed failed skipped < <(python3 scripts/lib/count_tests.py "${files[@]}") ||
            failed_steps=$((failed_steps + 1))
    fi
    failed=$((failed + failed_steps))
    print_step "all of it" "$SECONDS"
    printf '%d passed, %d failed' "$passed" "$failed"
    ((skipped == 0)) || printf ', %d skipped' "$skipped"
    printf '\n'
    # A run without any test has shown nothing.
    ((failed == 0 && passed > 0)) || exit "$kFailed"
}
