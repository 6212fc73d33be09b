#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# outside.sh SOURCE WORK EXAMPLE: builds the example digits or deepfm as a project of its own against the Rueda that
# packaging.install has installed in WORK/prefix. Then checks that the built program prints its help. It is built without
# optimisation and as a unity build, which takes less time.
set -euo pipefail
! command -v ccache >/dev/null || export CMAKE_CXX_COMPILER_LAUNCHER=ccache
cmake -S "$1/examples/$3" -B "$2/$3" -DCMAKE_PREFIX_PATH="$2/prefix" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_UNITY_BUILD=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON -DCMAKE_DISABLE_FIND_PACKAGE_spdlog=ON
cmake --build "$2/$3"
"$2/$3/$3" --help | grep -q '^Examples:'
