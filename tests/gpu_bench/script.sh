#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# Tests scripts/gpu without a GPU. Usage: script.sh SOURCE BUILD STAND-IN
set -euo pipefail
source=$1 build=$2 stand_in=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    printf 'FAILED: %s\n' "$1" >&2
    exit 1
}

# expect STATUS COMMAND…: runs the command, and keeps its output in $printed.
expect() {
    local expected=$1 status=0
    shift
    printed=$("$@" 2>&1) || status=$?
    [[ $status == "$expected" ]] || fail "$* ended with $status and not with $expected; it printed: $printed"
}

# expect_text TEXT…: requires that all texts were printed.
expect_text() {
    local text
    for text; do
        [[ $printed == *"$text"* ]] || fail "'$text' is missing in: $printed"
    done
}

expect 0 "$source/scripts/gpu" --help
expect_text "Examples:" "Exit status:"
expect 2 "$source/scripts/gpu" --only nothing
expect_text "'nothing' is no step"
expect 77 env CUDA_VISIBLE_DEVICES= "$source/scripts/gpu" --build "$build"
expect_text "no NVIDIA GPU"

# A dry run must print every step that the help lists.
expect 0 "$source/scripts/gpu" --build "$build" --dry-run
for step in doctor kernels check-1 check-1-own-gpu check-2-shared check-2-shared-nccl check-2-shared-nccl-dies check-2-ipc-dies check-2 check-2-ipc replicas-1 replicas-2-shared digits deepfm \
    torch-check-1 torch-check-2-shared bench-kernels bench-1 bench-2-shared bench-2-staged bench-2 bench-2-ipc bench-torch-1 bench-torch-2-shared sanitizer; do
    expect_text "  $step (at most "
done

# On a simulated device, bench-1 fails, because Rueda asks NVML for GPU 63, which does not exist. The failure does not
# stop the other steps, and the report shows it.
export LD_LIBRARY_PATH=$stand_in GPU_STAND_IN_DEVICES=1 CUDA_VISIBLE_DEVICES=63
expect 0 "$source/scripts/gpu" --build "$build" --collect "$folder/programs"
for file in bin/gpu_bench bin/gpu_check bin/ruedarun lib/librueda.so.0 lib/librueda_cuda.so; do
    [[ -s $folder/programs/$file ]] || fail "--collect did not copy $file"
done
[[ ! -e $folder/programs/lib/libcuda.so.1 ]] || fail "--collect copied the driver"
expect 1 "$source/scripts/gpu" --programs "$folder/programs" --report "$folder/report.md" --only bench-1 --only sanitizer
expect_text "bench-1" "FAILED (1)" "the report is"
grep -q '^| bench-1 | FAILED (1) |' "$folder/report.md" || fail "the report has no row of bench-1: $(cat "$folder/report.md")"
grep -q 'gpu_bench allreduce --seconds' "$folder/report.md" || fail "the report does not show the command"

# Each check step expects one method of moving tensors, for example NCCL. The step must fail if Rueda uses another
# method, although the job succeeds. In this test, a script replaces ruedarun: it starts no job, and prints the log
# lines that the test wants.
cat >"$folder/programs/bin/ruedarun" <<'TEXT'
#!/usr/bin/env bash
printf '%s\n' "$LOG_OF_JOB"
TEXT
ways=(check-1 check-1-own-gpu check-2-shared check-2 check-2-ipc)
by_nccl='process set 0 moves tensors on GPUs by NCCL 2.28.9'
by_host="process set 0 moves tensors on GPUs through the host's memory: rank 0: no NCCL"
by_ipc='process set 0 moves batches of 3145728 bytes and more on GPUs through GPU memory that the ranks share (CUDA IPC), and'
not_shared="process set 0 moves all tensors on GPUs through the host's memory, because the ranks cannot share GPU memory (CUDA IPC)"

# expect_steps LINES STEP…: runs the checks with these lines in the log. Only the given steps may pass.
expect_steps() {
    local step only=() status=1 expected
    for step in "${ways[@]}"; do
        only+=(--only "$step")
    done
    (($# - 1 < ${#ways[@]})) || status=0
    expect "$status" env CUDA_VISIBLE_DEVICES=62,63 LOG_OF_JOB="$1" "$source/scripts/gpu" --programs "$folder/programs" \
        --report "$folder/report.md" "${only[@]}"
    for step in "${ways[@]}"; do
        expected='FAILED (1)'
        [[ " ${*:2} " != *" $step "* ]] || expected=passed
        grep -q "^| $step | $expected |" "$folder/report.md" || fail "'$step' should be '$expected' with '$1': $(cat "$folder/report.md")"
    done
}

expect_steps "$by_nccl" check-1 check-1-own-gpu check-2
expect_steps "$by_ipc" check-2-shared check-2-ipc
expect_steps "$by_host"
expect_text "the tensors did not move in the expected way"
expect_steps "$by_nccl"$'\n'"$by_ipc" "${ways[@]}"
expect_steps "$by_nccl"$'\n'"$by_ipc"$'\n'"$not_shared"
