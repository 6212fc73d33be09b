# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# shellcheck shell=bash
# The checks of scripts/test. Needs lib/steps.sh and lib/results.sh.

readonly kPython=build/python
readonly kRooms='^(base|ops|collectives|core|data|conformance|fuzz)$'

# tree_files PATTERN…: prints the files of the tree whose paths match a pattern; a * also matches the slashes of a path.
# In a clone, git lists the files, including new files. Without git, all files outside of build folders are listed.
tree_files() {
    local file pattern
    {
        git ls-files --cached --others --exclude-standard 2>/dev/null ||
            find . \( -name build -o -name 'build-*' -o -name '.?*' \) -prune -o -type f -printf '%P\n'
    } | sort -u | while IFS= read -r file; do
        for pattern; do
            # shellcheck disable=SC2053  # a pattern it is
            [[ $file != $pattern || ! -f $file ]] || printf '%s\n' "$file"
        done
    done
}

check_format() { tree_files '*.cpp' '*.hpp' '*.h' '*.c' | xargs -r clang-format --dry-run --Werror; }

check_scripts() {
    shellcheck --external-sources --check-sourced scripts/gpu scripts/quickstart scripts/test scripts/wheel .ci/run scripts/long.d/* &&
        tree_files 'tests/*.sh' | xargs -r shellcheck --external-sources
}

# Installs tools that Debian does not have into a virtual environment under build/. Without a network these tools are
# missing.
python_tools() {
    [[ $kPython/installed -nt scripts/python-tools.txt ]] && return
    python3 -m venv "$kPython" &&
        "$kPython/bin/pip" install --quiet --disable-pip-version-check --retries 1 -r scripts/python-tools.txt &&
        touch "$kPython/installed"
}

check_python() {
    "$kPython/bin/ruff" check --quiet . && "$kPython/bin/ruff" format --check --quiet .
}

static_checks() {
    check format "form of the code (clang-format)" check_format
    check shellcheck "scripts (shellcheck)" check_scripts
    if [[ $dry_run == yes ]] || python_tools >"$kLogs/python-tools.log" 2>&1; then
        check ruff "Python (ruff)" check_python
    else
        skip "Python (ruff)" "not packaged by Debian, and pip could not get it ($kLogs/python-tools.log)"
    fi
}

# Needs the build of the preset ci.
check_reference() {
    check docs "reference of the interface (doxygen)" cmake --build --preset ci --target docs
}

# build_preset PRESET WHAT [cmake --build arguments…]: builds a preset. If that fails, the tests of the preset cannot
# run either.
build_preset() {
    local preset=$1 what=$2
    shift 2
    if step "$preset-configure" "$what: configure" configure "$preset" &&
        step "$preset-build" "$what: build" build "$preset" "$@"; then
        return 0
    fi
    failed_steps=$((failed_steps + 1))
    return 1
}

gcc_build_and_tests() {
    build_preset ci "g++" || return 0
    run_tests ci "g++: all tests" build/ci --label-exclude '^extended$'
}

# The checks for an ordinary change: all tests without the label "full", and only the programs that these tests need.
fast_build_and_tests() {
    build_preset ci "g++" --target default_tests || return 0
    run_tests ci "g++: tests" build/ci --label-exclude '^full$'
}

# Prints the folders under tests/ that have tests, in the form that --only takes.
test_folders() {
    find tests -name CMakeLists.txt -mindepth 2 -printf '%P\n' | sed 's,/CMakeLists.txt$,,' | sort | tr '\n' ' '
}

# build_and_tests_of FOLDER…: runs all tests in these folders of tests/ and in their subfolders.
build_and_tests_of() {
    local folder targets=() pattern=""
    for folder; do
        targets+=("tests/$folder/all")
        pattern+="${pattern:+|}$folder(/.*)?"
    done
    build_preset ci "g++" --target "${targets[@]}" programs_of_tests || return 0
    run_tests ci "g++: tests of $*" build/ci --label-regex "^($pattern)\$"
}

# check_with_clang_tidy [OPTION]…: checks all sources. The options are those of run_clang_tidy.py, which remembers
# clean sources in a cache. The cache is outside of the tree, so all clones share it.
check_with_clang_tidy() {
    local cache=${XDG_CACHE_HOME:-$HOME/.cache}/rueda/clang-tidy
    configure tidy &&
        python3 scripts/lib/run_clang_tidy.py --build build/tidy --cache "$cache" --jobs "$(build_jobs)" "$@" \
            base ops collectives core training data launcher
}

# Prints the command that runs a program without address randomisation, or nothing if that is not allowed. With
# randomisation, some kernels may load a program where ThreadSanitizer needs to map its shadow memory. Some containers
# do not allow turning randomisation off, but in most of them the problem does not occur.
no_randomisation() {
    ! setarch --addr-no-randomize true 2>/dev/null || echo setarch --addr-no-randomize
}

sanitizer_runs() {
    export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_stack_use_after_return=1
    export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
    # Builds only the programs that the tests below run, which takes half as long as building all programs. The stage
    # scripts/long.d/sanitizers builds all programs. It also runs tests that take many minutes: the conformance suite,
    # the tests with processes as ranks, and the tests over MPI.
    local rooms=(tests/{base,ops,collectives,core,data}/all rueda_config_doc)
    if build_preset asan "clang, address and undefined behaviour" --target "${rooms[@]}" fuzzers; then
        run_tests asan "address and undefined behaviour: tests of the rooms" build/asan --label-regex "$kRooms" \
            --label-exclude '^(processes|mpi|conformance|extended)$'
    fi
    if build_preset tsan "clang, threads" --target "${rooms[@]}"; then
        ctest_under=$(no_randomisation)
        # Leaves out tests with one thread. Also leaves out tests with processes as ranks: threads may synchronise
        # through another process there, which ThreadSanitizer cannot see. The conformance suite runs in
        # scripts/long.d/sanitizers.
        run_tests tsan "threads: tests of the rooms" build/tsan --label-regex "$kRooms" \
            --label-exclude '^(unit|processes|conformance|extended)$'
        ctest_under=
    fi
}

# long_stages SECONDS STAGE…: runs the stages and gives each of them the same time. Each stage writes JUnit files
# build/results/<stage>*.xml.
long_stages() {
    local seconds=$1 stage
    shift
    export STAGE_SECONDS=$seconds
    for stage; do
        step "long-$stage" "$stage ($(clock "$seconds"))" "scripts/long.d/$stage" || count_failure "$stage"
    done
}
