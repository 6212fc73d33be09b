# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Lets tests on CPUs import PyTorch's CUDA wheel without the CUDA packages.

Usage: cuda_stand_ins.py SITE_PACKAGES

The wheel needs a dozen libraries of NVIDIA (2.5 GB) to be loaded. For each missing library, this script makes a library
of the same name. Its functions, which are those that PyTorch looks up, return "no device" (cudaErrorNoDevice), so that
torch.cuda.is_available() is False. Needs binutils and a C compiler.
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
    """Returns NVIDIA's libraries that the given files need."""
    lines = [line for library in libraries for line in output_of("readelf", "--dynamic", "--wide", library)]
    names = {line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line}
    return {name for name in names if name.startswith(NVIDIA)}


def versions_of(libraries: list[pathlib.Path]) -> dict[str, tuple[str, str]]:
    """Returns the symbol versions that the files need, as {version: (library that must define it, version)}."""
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
    """Returns the functions that the files look up, by symbol version ("" if a function has none)."""
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
        # Functions without a version may be in any of the libraries, so each library gets them.
        make(folder / name, version, functions.get(version, set()))


if __name__ == "__main__":
    main(sys.argv[1])
