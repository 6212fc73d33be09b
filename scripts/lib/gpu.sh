# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# shellcheck shell=bash
# shellcheck disable=SC2154  # scripts/gpu sets builds, programs, python, report, budget, only and gpus
# The parts of scripts/gpu. Needs lib/steps.sh.

# shellcheck disable=SC2034  # scripts/gpu uses them
readonly kNoGpu=77
readonly kGpuSteps=(doctor kernels check-1 check-1-own-gpu check-2-shared check-2-shared-nccl check-2-shared-nccl-dies
    check-2-ipc-dies check-2 check-2-ipc replicas-1 replicas-2-shared digits torch-check-1 torch-check-2-shared
    bench-kernels bench-1 bench-2-shared bench-2-staged bench-2 bench-2-ipc bench-torch-1 bench-torch-2-shared deepfm sanitizer)
failed_steps=0

# Prints the number of GPUs that a process may use here.
count_gpus() {
    if [[ ${CUDA_VISIBLE_DEVICES-all} != all ]]; then
        tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c . || true
    elif command -v nvidia-smi >/dev/null; then
        nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU' || true
    else
        { find /proc/driver/nvidia/gpus -mindepth 1 -maxdepth 1 2>/dev/null || true; } | wc -l
    fi
}

# Prints where a program is in a build folder.
path_in_build() {
    case $1 in
        gpu_check) echo tests/core/devices/gpu_check ;;
        device_replicas_check) echo tests/training/device_replicas_check ;;
        cuda_kernels_test) echo tests/ops/cuda/cuda_kernels_test ;;
        *) echo "bin/$1" ;;
    esac
}

# The examples digits and deepfm are built only if their libraries are there, so they may be missing.
readonly kNotCollected='/(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|librueda)\.so'
readonly kGpuPrograms=(ruedarun rueda gpu_check device_replicas_check cuda_kernels_test gpu_bench)

# collect_programs BUILD FOLDER: copies what the steps need into FOLDER/bin, FOLDER/lib and FOLDER/python. The machine
# with the GPU needs the driver, NCCL, and a glibc and a libstdc++ that are not older than those of this machine. glibc
# and libstdc++ are not copied, because the PyTorch of that machine may need newer versions.
collect_programs() {
    local build=$1 folder=$2 program file
    mkdir -p "$folder/bin" "$folder/lib" "$folder/python"
    for program in "${kGpuPrograms[@]}"; do
        file=$build/$(path_in_build "$program")
        [[ -x $file ]] || die "$kFailed" "scripts/gpu: $file does not exist; build it with ninja -C $build"
        strip -o "$folder/bin/$program" "$file"
    done
    cp --dereference "$build"/lib/librueda.so.0 "$build"/lib/librueda_cuda.so "$folder/lib/"
    strip --strip-unneeded "$folder"/lib/librueda*
    ldd "$folder"/bin/* "$build/lib/librueda_cuda.so" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
        grep -Ev "$kNotCollected" | xargs cp --dereference --target-directory="$folder/lib"
    if [[ -x $build/bin/deepfm_data ]]; then
        strip -o "$folder/bin/deepfm_data" "$build/bin/deepfm_data"
    fi
    if [[ -x $build/bin/digits ]]; then
        strip -o "$folder/bin/digits" "$build/bin/digits"
        ldd "$build/bin/digits" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | grep -Ev "$kNotCollected" |
            xargs cp --dereference --update --target-directory="$folder/lib"
        [[ ! -e build/cache/digits.csv.gz ]] || cp build/cache/digits.csv.gz "$folder"
    fi
    if [[ -e $build/python/rueda/_native.abi3.so ]]; then
        cp --recursive --dereference "$build/python/rueda" "$folder/python/"
        find "$folder/python" -name __pycache__ -prune -exec rm -r {} +
        strip --strip-unneeded "$folder/python/rueda/_native.abi3.so"
    fi
    du -sh "$folder"
}

# Sets the paths of the programs and the environment of the steps.
find_programs() {
    declare -gA path=()
    local program
    [[ -z $programs || -d $programs ]] || usage_error "--programs: '$programs' is no folder; make it with --collect"
    for program in "${kGpuPrograms[@]}"; do
        path[$program]=${programs:+$programs/bin/$program}
        [[ -n $programs ]] || path[$program]=$builds/$(path_in_build "$program")
        [[ -x ${path[$program]} || $dry_run == yes ]] ||
            die "$kFailed" "scripts/gpu: ${path[$program]} does not exist; see scripts/gpu --help for how to make it"
    done
    path[digits]=${programs:-$builds}/bin/digits
    path[deepfm_data]=${programs:-$builds}/bin/deepfm_data
    if [[ -n $programs ]]; then
        programs=$(realpath "$programs")
        export LD_LIBRARY_PATH=$programs/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    fi
    local package=${programs:-$builds}/python
    export PYTHONPATH=$PWD/$package${PYTHONPATH:+:$PYTHONPATH}
    [[ $package != /* ]] || export PYTHONPATH=$package${PYTHONPATH:+:$PYTHONPATH}
    # A C++ program finds the NCCL of a Python package only by the path in RUEDA_NCCL_LIBRARY.
    if [[ -z ${RUEDA_NCCL_LIBRARY:-} && $dry_run == no ]]; then
        local nccl
        nccl=$("$python" -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0] + "/lib/libnccl.so.2")' 2>/dev/null) || nccl=
        [[ -z $nccl ]] || export RUEDA_NCCL_LIBRARY=$nccl
    fi
}

# Succeeds if the Python has a PyTorch that sees a GPU. The result is kept in a variable, because finding it out takes
# seconds.
has_torch() {
    [[ $dry_run == no ]] || return 0
    if [[ -z ${torch_answer:-} ]]; then
        torch_answer=no
        ! timeout 60 "$python" -c 'import torch; assert torch.cuda.is_available()' >/dev/null 2>&1 || torch_answer=yes
    fi
    [[ $torch_answer == yes ]]
}

# Prints the path of compute-sanitizer, or nothing.
sanitizer_program() {
    command -v compute-sanitizer || find /usr/local/cuda/bin -name compute-sanitizer 2>/dev/null || true
}

# Prints the folders of NVIDIA's libraries in the Python's packages, in the form of LD_LIBRARY_PATH.
nvidia_folders() {
    "$python" -c 'import nvidia, pathlib
print(*(lib for path in nvidia.__path__ for lib in sorted(pathlib.Path(path).glob("*/lib"))), sep=":")' 2>/dev/null || true
}

# Prints which NCCL the programs in C++ use.
nccl_description() {
    local file=${RUEDA_NCCL_LIBRARY:-}
    if [[ ! -r $file ]]; then
        echo "as the loader finds it"
    else
        # The file of NCCL's library contains the version of NCCL as text.
        printf '%s (%s)\n' "$(grep -a -o -m 1 'NCCL version [0-9][0-9.]*' "$file" | head -n 1)" "$file"
    fi
}

# Trains examples/digits on the CPU and on the GPU, and compares the curves.
digits_step() {
    local data=build/cache/digits.csv.gz
    [[ -z $programs ]] || data=$programs/digits.csv.gz
    is_wanted digits || return 0
    if [[ ! -x ${path[digits]} && $dry_run == no ]]; then
        skip_gpu_step digits "because ${path[digits]} does not exist"
        return
    fi
    if [[ ! -e $data && $dry_run == no ]]; then
        skip_gpu_step digits "because there is no $data; scripts/quickstart gets it"
        return 0
    fi
    gpu_step digits 60 env LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(nvidia_folders)" \
        DIGITS="$(realpath -m "${path[digits]}")" RUEDARUN="$(realpath -m "${path[ruedarun]}")" \
        DIGITS_DATA="$(realpath -m "$data")" DIGITS_RANKS=1,2 DIGITS_SHARE_GPU=1 DIGITS_EPOCHS=1 "$python" -B tests/digits/test_devices.py
}

# Trains the PyTorch program of examples/deepfm on the CPU and on the GPU, and compares the AUCs.
deepfm_step() {
    is_wanted deepfm || return 0
    if [[ ! -x ${path[deepfm_data]} && $dry_run == no ]]; then
        skip_gpu_step deepfm "because ${path[deepfm_data]} does not exist"
    elif ! has_torch; then
        skip_gpu_step deepfm "because $python has no PyTorch that sees a GPU"
    else
        gpu_step deepfm 90 env DEEPFM=unused DEEPFM_DATA="$(realpath -m "${path[deepfm_data]}")" \
            DEEPFM_TRAIN="$PWD/examples/deepfm/train.py" RUEDARUN="$(realpath -m "${path[ruedarun]}")" \
            DEEPFM_RANKS=1,2 DEEPFM_SHARE_GPU=1 "$python" -B tests/deepfm/test_torch_devices.py
    fi
}

begin_report() {
    mkdir -p "$(dirname "$report")"
    outputs=$(mktemp -d)
    trap 'rm -rf "$outputs"' EXIT
    {
        printf '# Rueda on a GPU\n\n| | |\n|---|---|\n| date | %s |\n' "$(date --utc '+%Y-%m-%d %H:%M UTC')"
        printf '| commit | %s |\n' "$(git describe --always --dirty 2>/dev/null || echo unknown)"
        if command -v nvidia-smi >/dev/null; then
            nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv,noheader |
                sed 's/^\([0-9]*\), \(.*\), \(.*\), \(.*\)$/| GPU \1 | \2, driver \3, \4 |/'
            nvidia-smi | sed -n 's/.*CUDA[^:]*Version: *\([0-9.]*\).*/| CUDA of the driver | \1 |/p'
        fi
        printf '| NCCL | %s |\n' "$(nccl_description)"
        printf '| CPU | %s cores, %s |\n' "$(nproc)" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
        printf '| system | %s, Linux %s |\n' "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)" "$(uname -r)"
        if has_torch; then
            "$python" -c 'import torch; print(f"| PyTorch | {torch.__version__}, CUDA {torch.version.cuda}, NCCL",
                ".".join(map(str, torch.cuda.nccl.version())), "|")'
        fi
        printf '\n| step | result | seconds | last line |\n|---|---|---|---|\n'
    } >"$report"
}

end_report() {
    [[ ! -e $outputs/all.md ]] || cat "$outputs/all.md" >>"$report"
}

# report_step NAME RESULT SECONDS [LAST-LINE]: adds a row to the table of steps.
report_step() {
    printf '| %s | %s | %s | %s |\n' "$1" "$2" "$3" "$(tr '|' ' ' <<<"${4:-}" | tail -c 160)" >>"$report"
}

# skip_gpu_step NAME REASON
skip_gpu_step() {
    is_wanted "$1" || return 0
    if [[ $dry_run == no ]]; then
        report_step "$1" "left out" 0 "$2"
    fi
    printf '  %s: left out, %s\n' "$1" "$2"
}

is_wanted() { ((${#only[@]} == 0)) || [[ " ${only[*]} " == *" $1 "* ]]; }

# gpu_step NAME SECONDS COMMAND…: runs a command for at most this time, and at most until the budget is used up. A step
# that fails does not stop the others.
gpu_step() {
    local name=$1 limit=$2 begin=$SECONDS status=0 result=passed left=$((budget - SECONDS)) log
    shift 2
    is_wanted "$name" || return 0
    if [[ $dry_run == yes ]]; then
        printf '  %s (at most %s s):%s\n' "$name" "$limit" "$(printf ' %q' "$@")"
        return 0
    fi
    if ((left < 5)); then
        skip_gpu_step "$name" "because the time is used up (--budget)"
        failed_steps=$((failed_steps + 1))
        return 0
    fi
    log=$outputs/$name.txt
    timeout --kill-after=5 "$((limit < left ? limit : left))" "$@" >"$log" 2>&1 </dev/null || status=$?
    if ((status == 0)) && [[ -n ${wanted_way:-} ]] &&
        { ! grep --quiet -E "$wanted_way" "$log" || grep --quiet "because the ranks cannot share GPU memory" "$log"; }; then
        printf 'the tensors did not move in the expected way; expected in the log: %s\n' "$wanted_way" >>"$log"
        status=1
    fi
    case $status in
        0) ;;
        77) result=skipped ;;
        124 | 137) result="FAILED (timeout)" ;;
        1 | 2) [[ $name != doctor ]] && result="FAILED ($status)" || result="found something" ;;
        *) result="FAILED ($status)" ;;
    esac
    [[ $result != FAILED* ]] || failed_steps=$((failed_steps + 1))
    print_step "  $name" $((SECONDS - begin)) "$result"
    [[ $result != FAILED* ]] || tail -n "${RUEDA_LOG_LINES:-40}" "$log"
    report_step "$name" "$result" $((SECONDS - begin)) "$(grep -v '^=*$' "$log" | tail -n 1)"
    # shellcheck disable=SC2016  # the backquotes are Markdown's
    {
        printf '\n## %s\n\n```sh\n%s\n```\n\n```text\n' "$name" "$*"
        tail -n 200 "$log"
        printf '```\n'
    } >>"$outputs/all.md"
}

# Patterns of the log lines that say how tensors are moved. Process set 0 has all ranks.
readonly kByNccl='process set 0 moves tensors on GPUs by NCCL'
readonly kByIpc='process set 0 moves batches of [0-9]+ bytes and more on GPUs through GPU memory that the ranks share \(CUDA IPC\)'

# way_step NAME WAY COMMAND…: runs a command, and checks in its log how Rueda moved the tensors. WAY is a regular
# expression for the log line of the expected way. Without this line the step fails, even if the command succeeds. (If
# NCCL or CUDA IPC cannot be used, Rueda moves the tensors in another way.) The step also fails if the ranks found out
# later that they cannot share GPU memory.
way_step() {
    local wanted_way=$2 # for gpu_step
    gpu_step "$1" 30 "${@:3}"
}

# shared_nccl_step NAME COMMAND…: runs two ranks that share a GPU, and turns on NCCL's experimental setting for such
# ranks. The step passes only if the log says that NCCL was used. (RUEDA_GPU_PATH cannot force the use of NCCL, because
# the program also has operations that NCCL does not have.) If the last word of the command is "dies", a rank kills
# itself, so the job fails. Rank 0 must then still be able to use its GPU. Without NCCL, or with NCCL before 2.30, Rueda
# moves the tensors in another way, and logs this. The step then counts as skipped.
shared_nccl_step() {
    # shellcheck disable=SC2016  # the inner bash expands the variables
    gpu_step "$1" 30 env NCCL_MULTI_RANK_GPU_ENABLE=1 bash -c \
        'out=$("$@" 2>&1); status=$?; printf "%s\n" "$out"
        ! grep -E "install NCCL 2\.30|because not all ranks can take part" <<<"$out" || exit 77
        if [[ ${!#} == dies ]]; then
            grep "the GPU of rank 0 still works" <<<"$out" || exit 1
        else
            ((status == 0)) || exit "$status"
        fi
        grep "NCCL_MULTI_RANK_GPU_ENABLE=1 allows this" <<<"$out"' - "${@:2}"
}

# Runs all steps: the checks first, and the steps that take the longest last.
all_gpu_steps() {
    local run=("${path[ruedarun]}" --no-mpi) shared=(--share-gpu -x CUDA_VISIBLE_DEVICES=0) sanitizer
    gpu_step doctor 20 "${path[rueda]}" doctor -np 1
    gpu_step kernels 60 env RUEDA_TEST_DEVICE=1 "${path[cuda_kernels_test]}"
    way_step check-1 "$kByNccl" "${run[@]}" -np 1 -x RUEDA_LOG_LEVEL=info "${path[gpu_check]}"
    way_step check-1-own-gpu "$kByNccl" "${run[@]}" -np 1 --gpus-per-rank 1 -x RUEDA_LOG_LEVEL=info "${path[gpu_check]}"
    way_step check-2-shared "$kByIpc" "${run[@]}" -np 2 "${shared[@]}" -x RUEDA_LOG_LEVEL=info "${path[gpu_check]}" share
    local nccl=("${run[@]}" -np 2 "${shared[@]}" -x NCCL_MULTI_RANK_GPU_ENABLE "${path[gpu_check]}" share-nccl)
    shared_nccl_step check-2-shared-nccl "${nccl[@]}"
    shared_nccl_step check-2-shared-nccl-dies "${nccl[@]}" dies
    # Rank 1 kills itself, so the job fails. The step passes if rank 0 can still use its GPU.
    # shellcheck disable=SC2016  # the inner bash expands the variables
    gpu_step check-2-ipc-dies 30 bash -c \
        'out=$("$@" 2>&1); printf "%s\n" "$out"; grep "the GPU of rank 0 still works" <<<"$out"' - \
        "${run[@]}" -np 2 "${shared[@]}" "${path[gpu_check]}" share dies
    if ((gpus > 1)) || [[ $dry_run == yes ]]; then
        way_step check-2 "$kByNccl" "${run[@]}" -np 2 -x RUEDA_LOG_LEVEL=info "${path[gpu_check]}"
        way_step check-2-ipc "$kByIpc" "${run[@]}" -np 2 -x RUEDA_LOG_LEVEL=info -x RUEDA_GPU_PATH=ipc "${path[gpu_check]}" ipc
    else
        skip_gpu_step check-2 "because there is one GPU"
        skip_gpu_step check-2-ipc "because there is one GPU"
    fi
    gpu_step replicas-1 30 "${run[@]}" -np 1 "${path[device_replicas_check]}" 4 "$((gpus > 4 ? 4 : gpus > 0 ? gpus : 1))"
    gpu_step replicas-2-shared 30 "${run[@]}" -np 2 "${shared[@]}" "${path[device_replicas_check]}" 2 1
    digits_step
    torch_steps torch-check 40 tests/gpu/torch_cuda_check.py
    gpu_step bench-kernels 30 "${path[gpu_bench]}" kernels
    gpu_step bench-1 30 "${run[@]}" -np 1 "${path[gpu_bench]}" allreduce --seconds 0.2
    gpu_step bench-2-shared 30 "${run[@]}" -np 2 "${shared[@]}" "${path[gpu_bench]}" allreduce --seconds 0.2
    # Like bench-2-shared, but without CUDA IPC.
    gpu_step bench-2-staged 30 "${run[@]}" -np 2 "${shared[@]}" -x RUEDA_GPU_PATH=host "${path[gpu_bench]}" allreduce \
        --seconds 0.2 --sizes 1M 2M 4M 16M 64M 256M
    if ((gpus > 1)) || [[ $dry_run == yes ]]; then
        gpu_step bench-2 30 "${run[@]}" -np 2 "${path[gpu_bench]}" allreduce --seconds 0.2
        gpu_step bench-2-ipc 30 "${run[@]}" -np 2 -x RUEDA_GPU_PATH=ipc "${path[gpu_bench]}" allreduce --seconds 0.2
    else
        skip_gpu_step bench-2 "because there is one GPU"
        skip_gpu_step bench-2-ipc "because there is one GPU"
    fi
    torch_steps bench-torch 40 benchmarks/python/torch_gpu_bench.py
    deepfm_step
    sanitizer=$(sanitizer_program)
    if [[ -n $sanitizer || $dry_run == yes ]]; then
        gpu_step sanitizer 40 "${sanitizer:-compute-sanitizer}" --tool memcheck --error-exitcode 9 "${path[gpu_bench]}" \
            kernels --tensor 1M --samples 1
    else
        skip_gpu_step sanitizer "because there is no compute-sanitizer"
    fi
}

# torch_steps NAME SECONDS PROGRAM: runs a program for PyTorch with one rank, and with two ranks that share GPU 0.
torch_steps() {
    local name seconds=$2 program=$3 options
    for name in "$1-1" "$1-2-shared"; do
        options=(-np 1)
        [[ $name == *-1 ]] || options=(-np 2 --share-gpu -x CUDA_VISIBLE_DEVICES=0)
        if ! is_wanted "$name"; then
            continue
        elif [[ ! -e $program && $dry_run == no ]]; then
            skip_gpu_step "$name" "because $program does not exist"
        elif ! has_torch; then
            skip_gpu_step "$name" "because $python has no PyTorch that sees a GPU"
        else
            gpu_step "$name" "$seconds" "${path[ruedarun]}" --no-mpi "${options[@]}" "$python" "$program"
        fi
    done
}
