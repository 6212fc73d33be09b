# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The common part of the property tests. Every rank draws the same examples, because the seed is the same. Every rank
computes the contributions of all ranks with NumPy. The environment variable PROPERTY_SEED selects other examples, and
PROPERTY_FACTOR increases their number.
"""

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

# Hypothesis also draws constants that it finds in the loaded modules of this project. Every rank must draw the same
# constants from the beginning. So modules that would be loaded later are loaded here. Hypothesis does not search
# packages such as PyTorch for constants.
for module in pkgutil.iter_modules(rueda.__path__):
    if not module.ispkg:
        importlib.import_module(f"rueda.{module.name}")


def ending_the_job(inner):
    """If a test fails, its process ends. Otherwise this rank would continue with other examples, while the other ranks
    still wait for it.
    """

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
    """Makes the decorator for a test with given(): every rank draws the same examples."""
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
    """Returns the ranks of each host. The hosts are in the order of their lowest ranks. The ranks of a host are
    consecutive.
    """
    hosts: dict[tuple[int, int], list[int]] = {}
    for rank, host in enumerate(rueda.allgather_object((rueda.rank() - rueda.local_rank(), rueda.local_size()))):
        hosts.setdefault(host, []).append(rank)
    return list(hosts.values())


def sets_of_some() -> list[rueda.ProcessSet]:
    """Returns the world and, with three or more ranks, some smaller sets: all ranks but the first one, every second
    rank, and others.
    """
    size = rueda.size()
    members = [] if size < 3 else [list(range(1, size)), list(range(0, size, 2)), [0, *range(size // 2, size)]]
    unique = {tuple(ranks): None for ranks in members if 1 < len(ranks) < size}
    return [rueda.global_process_set, *map(rueda.add_process_set, unique)]


class JobTest(unittest.TestCase):
    """Base class for tests that share one job, from its init to its shutdown."""

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
    """Called on all members of the set."""
    everyones = rueda.allgather(np.frombuffer(array.tobytes(), np.uint8).reshape(1, -1), process_set=process_set)
    return bool((everyones == everyones[0]).all())
