#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# find_package.sh BUILD WORK LIBDIR: checks that a CMake project outside of Rueda finds the installation. The project
# must need nothing else, so fmt, spdlog and the other libraries that Rueda uses are hidden from CMake.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=run_outside.sh
. "$source/run_outside.sh"
cmake -S "$source/outside" -B "$2/find_package" -DCMAKE_PREFIX_PATH="$2/prefix" -DCMAKE_BUILD_TYPE=Release \
    -DRUEDA_EXPECTED_VERSION="$RUEDA_VERSION" -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_spdlog=ON -DCMAKE_DISABLE_FIND_PACKAGE_hwy=ON
cmake --build "$2/find_package"
run_outside "$2/prefix" "$3" "$2/find_package/outside"
"$2/find_package/outside_c"
