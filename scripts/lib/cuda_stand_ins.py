# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Makes it possible to import PyTorch's wheel for CUDA without the CUDA packages, for tests on CPUs.
Usage: cuda_stand_ins.py SITE_PACKAGES

The wheel can only be loaded if a dozen libraries of NVIDIA are there (2.5 GB). For each of these libraries that is
missing, this script makes a library of the same name. In it, every function that PyTorch looks up returns "no device"
(cudaErrorNoDevice), so that torch.cuda.is_available() is False. Needs binutils and a C compiler.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile

NVIDIA = ("libcu", "libnv", "libnccl")
FUNCTIONS = ("cu", "__cu", "nv", "nccl")
NO_DEVICE = 100


def output_of(*command: str | pathlib.Path) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def needed_by(libraries: list[pathlib.Path]) -> set[str]:
    """Returns the libraries of NVIDIA with which the given files are linked."""
    lines = [line for library in libraries for line in output_of("readelf", "--dynamic", "--wide", library)]
    names = {line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line}
    return {name for name in names if name.startswith(NVIDIA)}


def versions_of(libraries: list[pathlib.Path]) -> dict[str, tuple[str, str]]:
    """Maps the NAME of a version of functions to (the library that has it, NAME)."""
    versions = {}
    for library in libraries:
        origin = ""
        for line in output_of("objdump", "--private-headers", library):
            if "required from " in line:
                origin = line.split()[-1].rstrip(":")
            elif origin.startswith(NVIDIA) and line.startswith("    0x"):
                versions[line.split()[-1]] = (origin, line.split()[-1])
    return versions


def functions_of(libraries: list[pathlib.Path]) -> dict[str, set[str]]:
    """Returns the functions that the files look up in these libraries, with their versions. The version is "" if a
    function has none.
    """
    asked: dict[str, set[str]] = {}
    for library in libraries:
        for line in output_of("nm", "--dynamic", "--undefined-only", library):
            function, _, version = line.split()[-1].partition("@")
            if function.startswith(FUNCTIONS):
                asked.setdefault(version, set()).add(function)
    return asked


def make(library: pathlib.Path, version: str, functions: set[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder, "versions.map")
        script.write_text(f"{version} {{ global: *; }};\n")
        source = "".join(f"int {function}(void) {{ return {NO_DEVICE}; }}\n" for function in sorted(functions))
        versions = [f"-Wl,--version-script={script}"] if version else []
        command = ["cc", "-shared", "-fPIC", "-w", "-fno-builtin", "-x", "c", "-", "-o", str(library)]
        subprocess.run([*command, f"-Wl,-soname,{library.name}", *versions], input=source, text=True, check=True)


def main(site_packages: str) -> None:
    folder = pathlib.Path(site_packages, "torch", "lib")
    own = sorted(folder.glob("*.so*"))
    functions = functions_of(own)
    versions = {library: version for library, version in versions_of(own).values()}
    for name in sorted(needed_by(own) - {library.name for library in own}):
        version = versions.get(name, "")
        # A function without a version may be in any of the libraries.
        make(folder / name, version, functions.get(version, set()))


if __name__ == "__main__":
    main(sys.argv[1])
