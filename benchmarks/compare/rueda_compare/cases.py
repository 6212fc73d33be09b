# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The measured cases, and the targets for Rueda's times."""

from dataclasses import dataclass

COLLECTIVES = ("allreduce", "broadcast", "allgather", "reducescatter", "alltoall")
OPERATIONS = (*COLLECTIVES, "message")  # a message goes from an even rank to the next rank, and back
SIZES = ("4", "64", "1K", "4K", "16K", "64K", "256K", "1M", "4M", "16M", "64M")
BACKWARD = "backward"  # the allreduce of a set of tensors that become ready one by one
FLOAT_BYTES = 4
KIBI, MEBI = 1024, 1024**2


class UsageError(Exception):
    """A wrong argument. The command prints one line and exits with status 2."""


def parse_size(text: str) -> int:
    factors = {"K": KIBI, "M": MEBI, "G": 1024**3}
    digits, factor = (text[:-1], factors[text[-1].upper()]) if text[-1:].upper() in factors else (text, 1)
    if not digits.isdecimal() or int(digits) == 0 or int(digits) * factor % FLOAT_BYTES:
        raise UsageError(f"size '{text}' is not a number of bytes that holds whole float32: write 4, 64K or 16M")
    return int(digits) * factor


def size_text(size: int) -> str:
    for unit, name in ((1024**3, "GiB"), (MEBI, "MiB"), (KIBI, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B" if size < MEBI else f"{size / MEBI:.1f} MiB"


@dataclass(frozen=True)
class Case:
    """A measured case: an operation on one tensor or, with `set_name`, the allreduce of all gradients of a model. The
    gradients are reduced all at once or, with BACKWARD, each one when the backward pass has computed it."""

    operation: str
    counts: tuple[int, ...]  # the number of elements of one rank's input, for each tensor
    set_name: str = ""
    compute_us: tuple[float, ...] = ()  # computing time before each tensor; only with BACKWARD

    @property
    def collective(self) -> str:
        """Returns the collective operation of this case. A backward pass uses allreduces."""
        return "allreduce" if self.operation == BACKWARD else self.operation

    @property
    def bytes(self) -> int:
        return sum(self.counts) * FLOAT_BYTES

    @property
    def label(self) -> str:
        return f"{self.operation}/{self.set_name or self.bytes}"

    def possible(self, ranks: int) -> bool:
        """Returns whether the operation can divide the tensor: reducescatter and alltoall need equal parts for all
        ranks. Messages need pairs of ranks."""
        if self.operation == "message":
            return ranks % 2 == 0
        return self.operation not in ("reducescatter", "alltoall") or all(n % ranks == 0 for n in self.counts)

    def bus_factor(self, ranks: int) -> float:
        """Returns the number of bytes that each rank exchanges with other ranks per byte of its input."""
        factors = {
            "allreduce": 2 * (ranks - 1) / ranks,
            "broadcast": 1.0,
            "allgather": ranks - 1.0,
            "reducescatter": (ranks - 1) / ranks,
            "alltoall": (ranks - 1) / ranks,
            "message": 2.0,
        }
        return factors[self.collective]


@dataclass(frozen=True)
class Target:
    """A goal: Rueda should be `ratio` times as fast as the fastest other library. If `against` names families (kinds of
    libraries), only the libraries of these families count."""

    ratio: float
    against: tuple[str, ...] = ()


_MPI = ("openmpi", "mpich", "impi")
# The targets for allreduces if each rank has a core. Each kind of memory has a list of ranges of sizes, in ascending
# order. A range is a pair: its largest size in bytes, and its target ratio. The ratio None means that the range has no
# target.
_ALLREDUCE = {
    "staged": ((4, 1 / 0.7), (4 * KIBI - 1, None), (64 * KIBI, 2), (MEBI, 1.1), (4 * MEBI, 1.5), (1 << 62, 1.8)),
    "resident": ((4, 1 / 0.7), (16 * KIBI - 1, None), (64 * KIBI - 1, 3), (256 * KIBI - 1, 3.5), (4 * MEBI - 1, 1.8), (1 << 62, 3.5)),
}  # fmt: skip
_EXCHANGE = {"staged": 1.2, "resident": 2.0}  # the targets for broadcasts and allgathers of at least 1 MiB
_SETS = {
    "staged": (Target(3, ("horovod",)), Target(1.3, _MPI)),
    "resident": (Target(6, ("horovod",)), Target(2.5, _MPI)),
}


def targets(case: Case, ranks: int, cores: int, memory: str) -> tuple[Target, ...]:
    """Returns the targets that the report checks for this case."""
    if case.operation == BACKWARD:
        return ()
    if ranks > cores:
        wanted = case.operation == "allreduce" and not case.set_name and memory == "staged"
        return (Target(1.3, ("openmpi",)),) if wanted else ()
    if case.set_name:
        return _SETS[memory] if case.set_name == "resnet50" else ()
    if case.operation == "allreduce":
        ratio = next(ratio for up_to, ratio in _ALLREDUCE[memory] if case.bytes <= up_to)
        return (Target(ratio),) if ratio else ()
    if case.operation in ("broadcast", "allgather") and case.bytes >= MEBI:
        return (Target(_EXCHANGE[memory]),)
    return ()
