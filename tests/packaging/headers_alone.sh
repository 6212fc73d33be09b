#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# headers_alone.sh gcc|clang INCLUDE-FOLDER: checks that each public header compiles, alone and when it is included
# twice. A .h file must compile as C99 and as C++20, and a .hpp file as C++20. Strict warnings are errors. Headers for
# other libraries are compiled if the library exists.
set -euo pipefail
case $1 in
    gcc) cc=gcc cxx=g++ ;;
    *) cc=clang cxx=clang++ ;;
esac
command -v "$cc" "$cxx" >/dev/null || { echo "$cc and $cxx are not there"; exit 77; }
cd "$2"
strict=(-fsyntax-only -I. -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror)
checked=0
failures=0

compile() { # compiler language standard header
    # ISO C requires a declaration in every file, but a header may contain only macros. So the test file ends with a
    # declaration.
    printf '#include "%s"\n#include "%s"\ntypedef int end_of_file;\n' "$4" "$4" | "$1" -x "$2" -std="$3" "${strict[@]}" - || {
        echo "$4 does not compile by itself as $3 with $1"
        failures=$((failures + 1))
    }
    checked=$((checked + 1))
}

eigen=$(pkg-config --cflags eigen3 2>/dev/null) || eigen=
read -r -a elsewhere <<<"${eigen//-I/-isystem }"
has() { # header; succeeds if the library exists that the header supports
    printf '#include <%s>\n' "$1" | "$cxx" -x c++ -std=c++20 -fsyntax-only ${elsewhere[@]+"${elsewhere[@]}"} - 2>/dev/null
}
has Eigen/Core || { echo "rueda/eigen.hpp: no Eigen here, skipped" && no_eigen=yes; }
has oneapi/dnnl/dnnl.hpp || { echo "rueda/onednn.hpp: no oneDNN here, skipped" && no_onednn=yes; }
strict+=(${elsewhere[@]+"${elsewhere[@]}"})

while IFS= read -r header; do
    [[ $header != rueda/eigen.hpp || -z ${no_eigen-} ]] || continue
    [[ $header != rueda/onednn.hpp || -z ${no_onednn-} ]] || continue
    [[ $header != *.h ]] || compile "$cc" c c99 "$header"
    compile "$cxx" c++ c++20 "$header"
done < <(find rueda -name '*.h' -o -name '*.hpp' | sort)
echo "$checked compilations, $failures failed"
# rueda.h counts as two headers, because this header is compiled as C and as C++.
((failures == 0 && checked >= 2))
