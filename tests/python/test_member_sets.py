# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests process sets that only their members create, so that other ranks do not know about them. Several sets may have
the same ranks; the tests call them twins."""

import sys

import numpy as np
import rueda


def raised(kind, call, *parts):
    """Checks that the call fails with exactly this class, and that the text has these parts."""
    try:
        call()
    except rueda.RuedaError as error:
        assert type(error) is kind, error
        for part in parts:
            assert part in str(error), (part, str(error))
        return
    raise AssertionError(f"no {kind.__name__}")


rueda.init()
rank, size = rueda.rank(), rueda.size()
everybody = list(range(size))

# Two pairs of ranks create their sets at the same time. It does not matter which ids the sets get.
mine = [r for r in everybody if r // 2 == rank // 2]
pair = rueda.add_process_set_among(reversed(mine))
assert pair.ranks == mine and pair.included() and pair.rank() == mine.index(rank)
assert rueda.allreduce(np.array([1.0 + rank]), op=rueda.Sum, process_set=pair)[0] == sum(1 + r for r in mine)
gathered = rueda.allgather(np.full(rank + 1, rank), process_set=pair)
assert gathered.tolist() == [r for r in mine for _ in range(r + 1)]

# The sets form a chain: 0-1, 1-2, 2-3. Each rank creates its two sets one after the other. Ranks that share no set do
# not know of each other's sets.
chain = {}
for first in range(size - 1):
    if rank in (first, first + 1):
        chain[first] = rueda.add_process_set_among([first, first + 1])
for first, link in chain.items():
    assert rueda.broadcast_object(rank * 10, root_rank=first + 1, process_set=link) == (first + 1) * 10
assert len({link.process_set_id for link in (pair, *chain.values())}) == 1 + len(chain)

# Twins are two sets with the same ranks, here all ranks. Each set has its own order of operations, so each rank may use
# the sets in any order.
twins = [rueda.add_process_set_among(everybody) for _ in range(2)]
order = (0, 1) if rank % 2 == 0 else (1, 0)
started = {}
for index in order:
    value = np.array([100.0 * index + rank])
    started[index] = rueda.allreduce_async(value, op=rueda.Sum, process_set=twins[index])
for index in reversed(order):
    assert started[index].result()[0] == 100.0 * index * size + sum(everybody)

# Sets that all ranks of the job create must still work. Such a set must get an id that no rank uses for another set.
if size > 2:
    known = rueda.add_process_set(everybody[:2])
    assert known.process_set_id not in {one.process_set_id for one in (pair, *chain.values(), *twins)}
    if known.included():
        assert rueda.allreduce(np.array([1.0]), op=rueda.Sum, process_set=known)[0] == 2
    rueda.remove_process_set(known)

# Each rank must find these errors by itself, without the other ranks.
raised(rueda.InvalidArgument, lambda: rueda.add_process_set_among([]), "add_process_set_among needs at least one rank")
raised(rueda.InvalidArgument, lambda: rueda.add_process_set_among([rank, size]), f"there is no rank {size}")
raised(rueda.InvalidArgument, lambda: rueda.add_process_set_among([rank, rank]), f"names rank {rank} twice")
raised(
    rueda.InvalidArgument, lambda: rueda.add_process_set_among([(rank + 1) % size]), f"and rank {rank} is not one of"
)
raised(rueda.InvalidArgument, lambda: rueda.add_process_set_among(pair), "is known to the job")
raised(
    rueda.InvalidArgument,
    lambda: rueda.remove_process_set(pair),
    "each of its members must leave it with leave_process_set",
)
raised(rueda.InvalidArgument, lambda: rueda.leave_process_set(rueda.global_process_set), "was not made by")

# The members pass different lists of ranks. This must be an error.
if size > 2 and rank < 3:
    asked = [0, 1, 2] if rank else [0, 1]
    if rank < 2:
        raised(
            rueda.Mismatch,
            lambda: rueda.add_process_set_among(asked),
            "rank 0: add_process_set_among([0, 1]); rank 1: add_process_set_among([0, 1, 2])",
        )

# A set may have a single member.
alone = rueda.add_process_set_among([rank])
assert rueda.allreduce(np.array([7.0]), process_set=alone)[0] == 7
rueda.leave_process_set(alone)

# Leaving a set does not wait for other ranks. The remaining members must get an error, also in a pending operation. The
# twin set must still work.
if rank == 0:
    rueda.leave_process_set(twins[0])
    raised(rueda.InvalidArgument, lambda: rueda.allreduce(np.ones(1), process_set=twins[0]), "there is no process set")
else:
    raised(rueda.Aborted, lambda: rueda.allreduce(np.ones(1), process_set=twins[0]), "rank 0 has")
    rueda.leave_process_set(twins[0])
raised(rueda.InvalidArgument, lambda: rueda.leave_process_set(twins[0]), "was not made by add_process_set_among")
assert rueda.allreduce(np.array([1.0]), op=rueda.Sum, process_set=twins[1])[0] == size

# A rank sends a message, starts a collective, and then leaves the set. The message must still arrive, but the pending
# collective must end.
parting = rueda.add_process_set_among(everybody)
if rank == 0:
    sent = rueda.send_async(np.full(100_000, 7.0), 1, process_set=parting)
    pending = rueda.allreduce_async(np.ones(3), process_set=parting)
    rueda.barrier("parting")
    rueda.leave_process_set(parting)
    raised(rueda.Aborted, pending.wait, "rank 0 has")
    sent.wait()
else:
    rueda.barrier("parting")
    if rank == 1:
        got = np.empty(100_000)
        rueda.receive(got, 0, process_set=parting)
        assert (got == 7).all()
    rueda.leave_process_set(parting)

# The memory of a set must be released when all members have left it, so hundreds of consecutive sets need no more
# memory than a few.
for turn in range(100 if "--many" in sys.argv else 20):
    one = rueda.add_process_set_among(everybody)
    assert rueda.allreduce(np.array([turn]), op=rueda.Sum, process_set=one)[0] == turn * size
    rueda.leave_process_set(one)

# The job ends while some sets exist and have pending operations, which must end, too.
rueda.barrier()
rueda.shutdown()
