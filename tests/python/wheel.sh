#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# wheel.sh SOURCE WORK PYTHON: builds the wheel in WORK and installs it into a new environment without other packages.
# Then it uses the wheel from outside the source tree: alone, with two processes, under mpirun, with every other Python
# of this machine, and with every PyTorch of this machine. The wheel itself was built without PyTorch. If scripts/wheel
# has built a wheel since the sources last changed, this test checks that wheel, too. The variables CC, CXX, CXXFLAGS,
# BUILD_TYPE, TYPE_FLAGS and STRICT have the values of the build that runs this test, so that ccache finds its objects.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$1 work=$2 python=$3
export CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH RUEDA_MPI_PLUGIN RUEDA_UCX_PLUGIN
"$python" -c 'import scikit_build_core' 2>/dev/null || { echo "scikit-build-core is not installed: skipped"; exit 77; }
mkdir -p "$work"
rm -rf "$work/environment" "$work/portable" "$work/wheels" "$work/renamed"  # the compiled objects stay

begin=$SECONDS
# If CXXFLAGS were set in the environment, they would come before CMake's flags of the build type. Then ccache would not
# recognise the objects.
flags=$CXXFLAGS
unset CXXFLAGS
"$python" -m pip wheel "$source" --quiet --no-deps --no-build-isolation --no-index --wheel-dir "$work/wheels" \
    -C build-dir="$work" -C cmake.build-type="$BUILD_TYPE" -C cmake.define.CMAKE_CXX_FLAGS="$flags" \
    -C cmake.define."CMAKE_CXX_FLAGS_${BUILD_TYPE^^}"="$TYPE_FLAGS" -C cmake.define.CMAKE_UNITY_BUILD=ON \
    -C cmake.define.RUEDA_WARNINGS_AS_ERRORS="$STRICT"
echo "built in $((SECONDS - begin)) s"
wheels=("$work"/wheels/rueda-*-cp310-abi3-linux_*.whl)
[[ -e ${wheels[0]} && ${#wheels[@]} == 1 ]] || { echo "no wheel of the limited API in $work/wheels"; ls "$work/wheels"; exit 1; }

begin=$SECONDS
install_into() { # python environment wheel: makes the environment, without a pip of its own, which would take seconds
    "$1" -m venv --without-pip "$2"
    "$python" -m pip --python "$2/bin/python" install --quiet --no-index "$3"
}
install_into "$python" "$work/environment" "${wheels[0]}"
echo "installed in $((SECONDS - begin)) s"

cp "$here/outside.py" "$work/outside.py"
cd "$work"
bin=$work/environment/bin

expect() { # ranks command…
    local ranks=$1 printed expected
    shift
    printed=$("$@" | grep -oE 'rank [0-9]+ of [0-9]+: [0-9.]+' | sort)
    expected=$(for ((rank = 0; rank < ranks; ++rank)); do echo "rank $rank of $ranks: $((ranks * (ranks + 1) / 2)).0"; done)
    [[ $printed == "$expected" ]] || { printf '%s printed:\n%s\nexpected:\n%s\n' "$*" "$printed" "$expected"; return 1; }
}

expect 1 "$bin/python" outside.py
expect 2 "$bin/ruedarun" --no-mpi -np 2 "$bin/python" outside.py
"$bin/rueda" --help >help.txt
grep -q doctor help.txt
package=$("$bin/python" -c 'import pathlib, rueda; print(pathlib.Path(rueda.__file__).parent)')
if [[ -e $package/lib/librueda_mpi.so ]] && mpirun --version 2>/dev/null | grep -q "Open MPI"; then
    expect 2 mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 "$bin/python" outside.py
fi

# Tests jobs on two hosts without MPI. Only such jobs load the plugin for UCX. The wheel contains this plugin if it was
# built where UCX is installed.
if [[ -e $package/lib/librueda_ucx.so ]]; then
    "$bin/rueda" doctor >doctor.txt 2>&1 || true  # the doctor may report other problems of this machine
    grep -qE "librueda_ucx\.so works, with UCX [0-9.]+ \(/.*libucp" doctor.txt || { cat doctor.txt; exit 1; }
    # shellcheck disable=SC2016  # the shell on the test host expands it
    with_ssh='PATH=$(dirname "$OMPI_MCA_plm_rsh_agent")/programs:$PATH exec "$@"'
    on_two_hosts=("$python" -B "$source/tests/support/hosts/hosts.py" -- sh -c "$with_ssh" sh)
    if "${on_two_hosts[@]}" true; then
        expect 2 "${on_two_hosts[@]}" "$bin/ruedarun" --no-mpi -H rueda-h0:1,rueda-h1:1 "$bin/python" outside.py
        echo "used on two hosts without MPI"
    fi
fi

# `import horovod` finds Rueda if RUEDA_AS_HOROVOD is set, and finds nothing otherwise.
[[ $(RUEDA_AS_HOROVOD=1 "$bin/python" -c 'import horovod, rueda; print(horovod.__file__.startswith(rueda.__path__[0]))') == True ]]
if "$bin/python" -c 'import horovod' 2>/dev/null; then
    echo "horovod is there without being asked for"
    exit 1
fi

# Every other Python version of this machine uses the same installed files.
tried=0
for other in /usr/bin/python3 "$HOME"/.pyenv/versions/3.1[0-9].*/bin/python3; do
    if "$other" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        PYTHONPATH=${package%/rueda} PYTHONDONTWRITEBYTECODE=1 expect 2 "$bin/ruedarun" --no-mpi -np 2 "$other" outside.py
        tried=$((tried + 1))
    fi
done
echo "used by $tried other interpreters"

# Tests the wheel with each PyTorch of this machine, in a new environment. The environment's pytorch.pth names
# PyTorch's folders, so that Python finds PyTorch, too.
of_pytorch() { # python: prints the version of its PyTorch, and then the folders of its packages
    "$1" -c '
import sys, torch
print("%d.%d" % tuple(map(int, torch.__version__.split(".")[:2])))
print("\n".join(path for path in sys.path if path.endswith("-packages")))' 2>/dev/null
}
both_ranks() { # command…: runs the command as two processes that no launcher has started together
    "$@" 0 &
    "$@" 1
    wait $!
}
tried=0
for pytorch in "$source/build/pytorch/latest/bin/python" /usr/bin/python3; do
    found=$(of_pytorch "$pytorch") || continue
    version=${found%%$'\n'*}
    there=$work/with-pytorch-$version
    rm -rf "$there"
    install_into "$pytorch" "$there" "${wheels[0]}"
    packages=$("$there/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
    printf '%s\n' "${found#*$'\n'}" >"$packages/pytorch.pth"
    RUEDA_AS_HOROVOD=1 expect 2 "$there/bin/ruedarun" --no-mpi -np 2 "$there/bin/python" -B "$here/outside_pytorch.py" horovod
    if [[ $(printf '%s\n' 2.14 "$version" | sort -V | head -n 1) == 2.14 ]]; then
        rm -f "$work/store"
        expect 2 both_ranks "$there/bin/python" -B "$here/outside_pytorch.py" distributed "$work/store"
    fi
    tried=$((tried + 1))
done
echo "used beside $tried versions of PyTorch"

# The check of scripts/wheel must reject this wheel, because the wheel uses the libraries of this machine.
mkdir -p "$work/renamed"
renamed=$work/renamed/$(basename "${wheels[0]%-linux_x86_64.whl}")-manylinux_2_28_x86_64.whl
cp "${wheels[0]}" "$renamed"
found=$(python3 -B "$source/scripts/lib/check_wheel.py" "$renamed") && { echo "check_wheel.py accepts a wheel for this machine only"; exit 1; }
grep -q "librueda.so.0: it needs libfmt.so.9, which other machines may not have" <<<"$found" || { echo "$found"; exit 1; }
if grep "tests/abi" <<<"$found"; then
    echo "the wheel shows other symbols than the lists of tests/abi"
    exit 1
fi

portable=("$source"/build/wheel/rueda-*-manylinux_*.whl)
if [[ ! -e ${portable[0]} ]]; then
    echo "there is no wheel of scripts/wheel: not checked"
elif [[ -n $(cd "$source" && find base ops collectives core training launcher python include cmake pyproject.toml scripts/wheel* scripts/lib/wheel.sh -type f \
    -newer "${portable[0]}" -not -name '*.pyc' -print -quit) ]]; then
    echo "the wheel of scripts/wheel is older than the sources: not checked"
else
    begin=$SECONDS
    python3 -B "$source/scripts/lib/check_wheel.py" "${portable[0]}"
    install_into "$python" "$work/portable" "${portable[0]}"
    bin=$work/portable/bin
    expect 1 "$bin/python" outside.py
    expect 2 "$bin/ruedarun" --no-mpi -np 2 "$bin/python" outside.py
    if mpirun --version 2>/dev/null | grep -q "Open MPI"; then
        expect 2 mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 "$bin/python" outside.py
    fi
    echo "the wheel of scripts/wheel checked and used in $((SECONDS - begin)) s"
fi
