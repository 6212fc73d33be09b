# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The types of the operations as type checkers see them. mypy checks this file (test python.types); no test runs it.

The blocking functions are generated from the asynchronous ones. mypy must find the same parameters and the right
results for both.
"""

from __future__ import annotations

from typing import Any

import rueda
from numpy.typing import NDArray
from typing_extensions import assert_type

Array = NDArray[Any]


def allreduces(array: Array, numbers: bytearray) -> None:
    assert_type(rueda.allreduce(array, "name", rueda.Sum, prescale_factor=2.0, compression="fp16"), Array)
    assert_type(rueda.allreduce_async(tensor=array), rueda.Handle[Array])
    assert_type(rueda.allreduce_(numbers, op=rueda.Max), bytearray)
    assert_type(rueda.allreduce_async_(numbers), rueda.Handle[bytearray])
    assert_type(rueda.grouped_allreduce([array, array]), list[Array])
    assert_type(rueda.grouped_allreduce_([numbers]), list[bytearray])
    rueda.allreduce()  # type: ignore[call-arg]
    rueda.allreduce(array, prescale=2.0)  # type: ignore[call-arg]
    rueda.grouped_allreduce_async([array], op="sum")  # type: ignore[arg-type]


def outputs(array: Array, numbers: bytearray) -> None:
    assert_type(rueda.allgather(array), Array)
    assert_type(rueda.allgather(array, out=None), Array)
    assert_type(rueda.allgather(array, out=numbers), bytearray)
    assert_type(rueda.reducescatter_async(array, out=numbers), rueda.Handle[bytearray])
    assert_type(rueda.alltoall(array, [1, 2]), tuple[Array, Array])
    assert_type(rueda.alltoall(array, out=numbers), tuple[bytearray, Array])
    assert_type(rueda.gather(array, 1), Array | None)
    assert_type(rueda.reduce(array, out=numbers), bytearray | None)
    assert_type(rueda.scatter(array), Array)


def others(array: Array) -> None:
    assert_type(rueda.broadcast_(array, 1), Array)
    assert_type(rueda.receive(array, tag=3), int)
    assert_type(rueda.sparse_allreduce([0], [1.0], (3,)), tuple[Array, Array])
