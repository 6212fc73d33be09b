# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The common part of the property tests. Every rank draws the same examples from the same seed, and computes the
contributions of all ranks with NumPy. The variable PROPERTY_SEED selects other examples, and PROPERTY_FACTOR
increases their number."""

import functools
import importlib
import os
import pkgutil
import traceback
import unittest

import numpy as np
import rueda
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st

try:
    import ml_dtypes
except ImportError:
    BFLOAT16 = []
else:
    BFLOAT16 = [np.dtype(ml_dtypes.bfloat16)]

seeds = st.integers(0, 2**32 - 1)

# Hypothesis draws constants from the modules of this project that are loaded (but not from packages such as PyTorch).
# All ranks must draw the same constants from the start. So the modules that would be loaded later are loaded now.
for module in pkgutil.iter_modules(rueda.__path__):
    if not module.ispkg:
        importlib.import_module(f"rueda.{module.name}")


def ending_the_job(inner):
    """Ends the process if the test fails. Otherwise this rank would continue with other examples, while the other ranks
    still wait for this rank."""

    @functools.wraps(inner)
    def run(*arguments, **keywords):
        try:
            return inner(*arguments, **keywords)
        except Exception:
            text = f"{traceback.format_exc()}\nrank {rueda.rank()}: {inner.__qualname__} failed with {keywords!r}\n"
            os.write(2, text.encode())
            os._exit(1)

    return run


def same_everywhere(examples: int):
    """Returns a decorator that lets every rank draw the same examples for a test with given()."""
    drawn = os.environ.get("PROPERTY_SEED")
    chosen = settings(
        max_examples=examples * int(os.environ.get("PROPERTY_FACTOR", "1")),
        derandomize=drawn is None,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
    )

    def wrap(test):
        test.hypothesis.inner_test = ending_the_job(test.hypothesis.inner_test)
        return chosen(test if drawn is None else seed(int(drawn))(test))

    return wrap


def ranks() -> range:
    return range(rueda.size())


def ranks_by_host() -> list[list[int]]:
    """Returns the ranks of each host. Hosts are ordered by their lowest rank. The ranks of a host are consecutive."""
    hosts: dict[tuple[int, int], list[int]] = {}
    for rank, host in enumerate(rueda.allgather_object((rueda.rank() - rueda.local_rank(), rueda.local_size()))):
        hosts.setdefault(host, []).append(rank)
    return list(hosts.values())


def sets_of_some() -> list[rueda.ProcessSet]:
    """Returns the world and, with three or more ranks, some smaller sets, such as all ranks but the first, and every
    second rank."""
    size = rueda.size()
    members = [] if size < 3 else [list(range(1, size)), list(range(0, size, 2)), [0, *range(size // 2, size)]]
    unique = {tuple(ranks): None for ranks in members if 1 < len(ranks) < size}
    return [rueda.global_process_set, *map(rueda.add_process_set, unique)]


class JobTest(unittest.TestCase):
    """The base class of tests that share one job from init() to shutdown()."""

    hosts: list[list[int]]
    sets: list[rueda.ProcessSet]

    @classmethod
    def setUpClass(cls):
        rueda.init()
        cls.hosts = ranks_by_host()
        cls.sets = sets_of_some()

    @classmethod
    def tearDownClass(cls):
        rueda.shutdown()


def same_bits(array: np.ndarray, process_set: rueda.ProcessSet) -> bool:
    """Returns whether the array has the same bits on all members. All members of the set call this function."""
    everyones = rueda.allgather(np.frombuffer(array.tobytes(), np.uint8).reshape(1, -1), process_set=process_set)
    return bool((everyones == everyones[0]).all())
