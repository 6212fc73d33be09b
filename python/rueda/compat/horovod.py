# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Makes ``import horovod.torch`` import rueda.torch, so that a script for Horovod runs unchanged.

There are three ways to do this: call ``install()`` before the script imports horovod; start the script with ``python -m
rueda.compat.horovod script.py arguments…``; or set ``RUEDA_AS_HOROVOD=1`` if Rueda was installed by pip.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import os
import runpy
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["install"]

#: The module of Rueda for each module of Horovod. Submodules are replaced in the same way.
_PLACES = {
    "horovod.torch": "rueda.torch",
    "horovod": "rueda.compat._horovod",
}
#: Modules that Horovod has and Rueda does not.
_NOT_HERE = {"keras", "mxnet", "ray", "spark", "tensorflow"}
#: The modules that contain Horovod's function `run`. Rueda does not have this function yet, and importing these modules
#: raises an error.
_RUNNER = {"horovod.run", "horovod.runner"}


def _place_of(name: str) -> str:
    for theirs, ours in _PLACES.items():
        if name == theirs or name.startswith(f"{theirs}."):
            return ours + name[len(theirs) :]
    return name


class _Loader(importlib.abc.Loader):
    """Imports a module of Rueda under its name in Horovod. Both names then refer to the same module object."""

    def __init__(self, place: str) -> None:
        self._place = place

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._place)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # Rueda's module was executed before, under its own name. The import under Horovod's name has replaced the
        # module's __spec__, so this function restores it.
        module.__spec__ = self._spec


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, _path: Any, _target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "horovod" and not name.startswith("horovod."):
            return None
        if name in _RUNNER:
            from rueda.compat._horovod import NO_RUN

            raise ModuleNotFoundError(NO_RUN, name="horovod.runner")
        if name.count(".") == 1 and name.rpartition(".")[2] in _NOT_HERE:
            raise ModuleNotFoundError(
                f"Rueda stands for Horovod here, and has no {name}: of Horovod it offers horovod.torch; for NumPy there is "
                "`import rueda`",
                name=name,
            )
        place = _place_of(name)
        there = importlib.util.find_spec(place)
        if there is None:
            return None
        return ModuleSpec(name, _Loader(place), is_package=there.submodule_search_locations is not None)


def install() -> None:
    """After this call, ``import horovod`` and ``import horovod.torch`` import Rueda. A second call does nothing.

    Raises:
        ImportError: the real Horovod has already been imported.

    Example::

        import rueda.compat.horovod

        rueda.compat.horovod.install()
        import horovod.torch as hvd
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if "horovod" in sys.modules:
        where = getattr(sys.modules["horovod"], "__file__", None)
        raise ImportError(
            f"horovod was imported already, from {where}: call rueda.compat.horovod.install() before that, or uninstall it"
        )
    sys.meta_path.insert(0, _Finder())


def _for_other_processes() -> None:
    """Lets the processes that the script starts, such as workers of a DataLoader, import Rueda as ``horovod``. The
    import hook (finder) exists only in this process. The new processes find the package ``horovod`` in a folder.
    """
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_path")
    sys.path.insert(1, folder)  # spawned processes inherit sys.path
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = folder if not others else f"{folder}{os.pathsep}{others}"


def _main(arguments: list[str]) -> None:
    if not arguments or (arguments[0] == "-m" and len(arguments) < 2):
        sys.exit("usage: python -m rueda.compat.horovod script.py [argument …], or -m module [argument …]")
    install()
    _for_other_processes()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    # ``python -m`` runs this file as a second copy of the module. The rest of the program imports the first copy, so
    # this code uses the first copy.
    from rueda.compat import horovod

    horovod._main(sys.argv[1:])
