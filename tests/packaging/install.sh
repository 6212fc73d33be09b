#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# install.sh BUILD WORK LIBDIR: installs into one folder and moves it to another one, as packagers and users do.
set -euo pipefail
rm -rf "$2"
mkdir -p "$2"
cmake --install "$1" --prefix "$2/first"
mv "$2/first" "$2/prefix"
cd "$2/prefix"
for file in "$3/librueda.so" "$3/librueda.so.$RUEDA_VERSION" "$3/cmake/Rueda/RuedaConfig.cmake" "$3/pkgconfig/rueda.pc" \
    include/rueda/rueda.h include/rueda/rueda.hpp bin/ruedarun bin/rueda share/bash-completion/completions/ruedarun; do
    [[ -e $file ]] || { echo "$file is not installed"; exit 1; }
done
[[ -n $(find share -name LICENSE) ]] || { echo "LICENSE is not installed"; exit 1; }
# The target `quickstart` builds only some of the files. Such a build can be installed, too: CMake then prints a warning
# for each missing file. To imitate such a build, a copy of the install script looks for some files under wrong names.
# The build folder does not change.
sed -e "s|$1/lib/librueda_mpi|$1/lib/none_mpi|g" -e "s|$1/bin/rueda\([\";]\)|$1/bin/none\1|g" "$1/cmake_install.cmake" >"$2/part.cmake"
cmake -D CMAKE_INSTALL_PREFIX="$2/part" -P "$2/part.cmake" >"$2/part.log" 2>&1 || { cat "$2/part.log"; exit 1; }
for missing in "$1/lib/none_mpi.so" "$1/bin/none"; do
    tr -s ' \n' ' ' <"$2/part.log" | grep -qF "$missing was not built, so it is not installed" ||
        { echo "no warning names $missing"; cat "$2/part.log"; exit 1; }
done
[[ -e $2/part/bin/ruedarun && -e $2/part/$3/librueda.so && ! -e $2/part/bin/rueda && ! -e $2/part/$3/librueda_mpi.so ]] ||
    { echo "the wrong files of a build of a part were installed"; exit 1; }
rm -r "$2/part"
# If a file of the package contained the name of the build folder or of the first prefix, the package would work only on
# this machine.
if grep -rIlF -e "$1" -e "$2/first" .; then
    echo "the files above name folders of the build"
    exit 1
fi
