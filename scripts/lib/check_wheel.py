# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Checks that a wheel can run on other machines. Prints one line for each error. Usage: check_wheel.py WHEEL

Examines every ELF file of the wheel: the libraries and glibc versions that the file needs, the folders in which it
looks for libraries, and the symbols that it exports. Needs readelf, nm and c++filt. scripts/wheel also runs auditwheel,
which checks the rules of PyPI.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

LISTS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "abi" / "symbols"
SOURCES = pathlib.Path(__file__).resolve().parents[1] / "wheel-sources.txt"
GLIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}
# Only these plugins need an MPI or UCX. librueda.so loads one of them if a job uses MPI or UCX.
MPI = {
    "rueda/lib/librueda_mpi.so": {"libmpi.so.40"},
    "rueda/lib/librueda_mpich.so": {"libmpi.so.12"},
    "rueda/lib/rueda/librueda_mpich.so": {"libmpich.so.12"},
}
UCX = {"rueda/lib/librueda_ucx.so": {"libucp.so.0", "libucs.so.0"}}
OWN = {"librueda.so.0"}
PROGRAMS = {"rueda/bin/ruedarun", "rueda/bin/rueda"}
# Every wheel contains the plugin for GPUs, which finds NVIDIA's libraries at run time.
CUDA = "rueda/lib/librueda_cuda.so"
EXPECTED = {"rueda/_native.abi3.so", "rueda/lib/librueda.so.0", CUDA} | set(MPI) | set(UCX) | PROGRAMS
# The C++ symbols that the wheel may export. Other symbols would belong to bundled libraries.
OWN_CXX = re.compile(r"^((typeinfo|typeinfo name|vtable) for )?rueda::|^RUEDA_0$")


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def newest_glibc(path: pathlib.Path) -> tuple[int, ...]:
    """Returns the newest glibc version that the file needs."""
    versions = re.findall(r"\bGLIBC_([0-9.]+)", output("readelf", "--version-info", "--wide", str(path)))
    return max((version(found) for found in versions), default=(0,))


def dynamic_section(path: pathlib.Path) -> tuple[set[str], list[str]]:
    """Returns the libraries that the file needs, and the folders in which the loader looks for these libraries."""
    text = output("readelf", "--dynamic", "--wide", str(path))
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", text))
    folders = [folder for found in re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", text) for folder in found.split(":")]
    return needed, folders


def shown_symbols(path: pathlib.Path) -> set[str]:
    rows = output("nm", "--dynamic", "--defined-only", str(path)).splitlines()
    return {re.sub(r"@.*$", "", row.split()[-1]) for row in rows if row.split()[-2] != "A"}


def listed_symbols(name: str) -> set[str]:
    lines = (LISTS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def linked_libraries() -> set[str]:
    """Returns the libraries that scripts/lib/wheel.sh links statically: Debian's source packages and the compiler's own
    libraries."""
    lines = SOURCES.read_text(encoding="utf-8").splitlines()
    packages = {line.strip() for line in lines if line.strip() and not line.startswith("#")}
    return packages | {"libcxx", "libcxxabi", "libunwind", "zig"}


def wrong_symbols(name: str, shown: set[str]) -> list[str]:
    """Returns the exported symbols that are not allowed. C++ symbols are compared by namespace only, because the wheel
    and the lists in tests/abi use different C++ standard libraries."""
    if name in PROGRAMS:
        return []
    if name in MPI:
        base = "librueda_mpi"
    elif name == CUDA:
        base = "librueda_cuda"
    # The wheel has the plugin for Prometheus only if pip built the wheel on a machine with prometheus-cpp.
    elif name.endswith(("/librueda_prometheus.so", "/librueda_ucx.so")):
        base = pathlib.Path(name).stem
    else:
        base = "librueda" if name.startswith("rueda/lib/") else "_native"
    listed = listed_symbols(base)
    c_names = {symbol for symbol in listed if not symbol.startswith("_Z")}
    found = [
        f"it does not show {symbol}, which tests/abi/symbols/{base}.txt lists" for symbol in sorted(c_names - shown)
    ]
    for symbol in sorted(shown - listed):
        is_own = base == "librueda" and OWN_CXX.match(output("c++filt", symbol).strip())
        if not is_own:
            found.append(f"it shows {symbol}, which tests/abi/symbols/{base}.txt does not list")
    return found


def wrong_with(name: str, path: pathlib.Path, limit: tuple[int, ...]) -> list[str]:
    needed, folders = dynamic_section(path)
    of_plugin = (MPI | UCX).get(name, set())
    other = needed - GLIBC - OWN - of_plugin
    found = [f"it needs {library}, which other machines may not have" for library in sorted(other)]
    found += [f"it does not need {library}, so it is not a plugin for it" for library in sorted(of_plugin - needed)]
    found += [
        f"it looks for libraries in {folder or 'the current folder'}" for folder in folders if "$ORIGIN" not in folder
    ]
    if newest_glibc(path) > limit:
        found.append(f"it needs glibc {'.'.join(map(str, newest_glibc(path)))}, newer than the wheel's tag says")
    return found + wrong_symbols(name, shown_symbols(path))


def check(wheel: pathlib.Path) -> list[str]:
    tag = re.search(r"-cp310-abi3-manylinux_(\d+)_(\d+)_x86_64\.whl$", wheel.name)
    if not tag:
        return [f"{wheel.name}: the name has no tag cp310-abi3-manylinux_<glibc>_x86_64"]
    limit = (int(tag.group(1)), int(tag.group(2)))
    problems = []
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        names = {name for name in archive.namelist() if archive.read(name)[:4] == b"\x7fELF"}
        problems += [f"{name}: it is not in the wheel" for name in sorted(EXPECTED - names)]
        problems += [
            f"{name}: an unexpected file; add it to EXPECTED if it belongs in the wheel"
            for name in sorted(names - EXPECTED)
        ]
        for name in sorted(names):
            problems += [f"{name}: {problem}" for problem in wrong_with(name, pathlib.Path(folder) / name, limit)]
        licences = [name for name in archive.namelist() if ".dist-info/licenses/libraries/" in name]
        missing = linked_libraries() - {pathlib.PurePosixPath(name).name for name in licences}
        problems += [f"the licence of {library} is not in the wheel" for library in sorted(missing)]
    return problems


if __name__ == "__main__":
    complaints = check(pathlib.Path(sys.argv[1]))
    print("\n".join(complaints) or f"{sys.argv[1]}: everything is in it")
    sys.exit(bool(complaints))
