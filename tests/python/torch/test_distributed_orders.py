# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests groups whose ranks are not in ascending order. The results must equal those of a Gloo group with the same
ranks."""

import shutil
import tempfile
import unittest

import rueda
import rueda.torch.distributed
import torch
import torch.distributed as dist

rueda.init()
SIZE = rueda.size()
folder = rueda.broadcast_object(tempfile.mkdtemp() if rueda.rank() == 0 else None, 0)
# The order is rotated by one rank. With four ranks, this order differs from its inverse.
RANK = (rueda.rank() + 1) % SIZE
dist.init_process_group("rueda", init_method=f"file://{folder}/store", rank=RANK, world_size=SIZE)
BASE_GATHER = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base  # the name before PyTorch 1.13
BASE_SCATTER = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base


def pairs():
    """Returns pairs of groups: one of Rueda and one of Gloo, with the same ranks. The first pair has all ranks in
    ascending order. If PyTorch can keep an order of ranks, the other pairs have other orders."""
    made = [(dist.group.WORLD, dist.new_group(backend="gloo"))]
    for ranks in (list(reversed(range(SIZE))), [*range(1, SIZE), 0]):
        try:
            made.append(
                tuple(dist.new_group(ranks, backend=backend, sort_ranks=False) for backend in ("rueda", "gloo"))
            )
        except TypeError:  # an old PyTorch has no `sort_ranks`, because it always sorts
            break
    return made


PAIRS = pairs()


def tearDownModule():  # noqa: N802  (unittest's)
    dist.barrier()
    shutil.rmtree(folder, ignore_errors=True)


def numbers(*shape, seed=0):
    """Returns numbers that differ between the ranks."""
    generator = torch.Generator().manual_seed(100 * seed + RANK)
    return torch.randint(1, 50, shape, generator=generator).float()


class Orders(unittest.TestCase):
    def compare(self, operation):
        """Requires that `operation` has equal results on both groups."""
        for group, gloo in PAIRS:
            self.assertEqual(dist.get_rank(group), dist.get_rank(gloo))
            torch.testing.assert_close(operation(group), operation(gloo), rtol=0, atol=0)

    def compare_with(self, operation, expected_of):
        """Tests an operation that some versions of Gloo lack. Gloo gathers the ranks' tensors, and `expected_of`
        computes the result."""
        for group, gloo in PAIRS:
            result, mine = operation(group)
            everyones = [None] * SIZE
            dist.all_gather_object(everyones, mine, group=gloo)
            expected = expected_of(everyones, dist.get_rank(gloo))
            torch.testing.assert_close(result, expected, rtol=0, atol=0)

    def test_all_gather(self):
        def lists(group):
            rows = [torch.zeros(2, 3) for _ in range(SIZE)]
            dist.all_gather(rows, numbers(2, 3), group=group)
            return rows

        def one_memory(group):
            rows = torch.zeros(SIZE, 3)
            dist.all_gather(list(rows.unbind()), numbers(3), group=group)
            return rows

        for operation in (lists, one_memory):
            self.compare(operation)

    def test_all_gather_into_one_tensor(self):
        def single(group):
            rows = torch.zeros(2 * SIZE, 3)
            BASE_GATHER(rows, mine := numbers(2, 3), group=group)
            return rows, mine

        def transposed(group):
            rows = torch.zeros(3, 2 * SIZE).t()
            BASE_GATHER(rows, mine := numbers(2, 3), group=group)
            return rows, mine

        def own_part(group):
            rows = torch.zeros(SIZE, 3)
            rows[dist.get_rank(group)] = mine = numbers(3)
            BASE_GATHER(rows, rows[dist.get_rank(group)], group=group)
            return rows, mine

        def nothing(group):
            rows = torch.zeros(0, 3)
            BASE_GATHER(rows, mine := numbers(0, 3), group=group)
            return rows, mine

        for operation in (single, transposed, nothing):
            self.compare_with(operation, lambda everyones, _: torch.cat(everyones))
        self.compare_with(own_part, lambda everyones, _: torch.stack(everyones))

    def test_roots(self):
        for root in range(SIZE):

            def broadcast(group, root=root):
                tensor = numbers(4)
                dist.broadcast(tensor, root, group=group)
                return tensor

            def gather(group, root=root):
                rows = [torch.zeros(3) for _ in range(SIZE)] if root == RANK else None
                dist.gather(numbers(3), rows, root, group=group)
                return rows if rows is not None else []

            def scatter(group, root=root):
                mine = torch.zeros(3)
                dist.scatter(mine, list(numbers(SIZE, 3).unbind()) if root == RANK else None, root, group=group)
                return mine

            def reduce(group, root=root):
                tensor = numbers(4)
                dist.reduce(tensor, root, group=group)
                return tensor if root == RANK else torch.zeros(0)  # Gloo defines only the root's result

            for operation in (broadcast, gather, scatter, reduce):
                self.compare(operation)

    def test_reduce_scatter(self):
        def lists(group):
            parts, mine = list(numbers(SIZE, 3).unbind()), torch.zeros(3)
            dist.reduce_scatter(mine, [part.clone() for part in parts], group=group)
            return mine, parts

        def single(group):
            rows, mine = numbers(2 * SIZE, 3), torch.zeros(2, 3)
            BASE_SCATTER(mine, rows, group=group)
            return mine, list(rows.view(SIZE, 2, 3).unbind())

        def nothing(group):
            mine = torch.zeros(0)
            BASE_SCATTER(mine, torch.zeros(0), group=group)
            return mine, [mine] * SIZE

        def bits(group):
            rows, mine = numbers(SIZE, 3).int(), torch.zeros(3, dtype=torch.int32)
            BASE_SCATTER(mine, rows.view(-1), dist.ReduceOp.BXOR, group=group)
            return mine, list(rows.unbind())

        def exclusive_or(everyones, rank):
            total = torch.zeros(3, dtype=torch.int32)
            for parts in everyones:
                total ^= parts[rank]
            return total

        for operation in (lists, single, nothing):
            self.compare_with(operation, lambda everyones, rank: sum(parts[rank] for parts in everyones))
        self.compare_with(bits, exclusive_or)

    def test_all_to_all(self):
        def equal(group):
            came = torch.zeros(2 * SIZE, 3)
            dist.all_to_all_single(came, numbers(2 * SIZE, 3), group=group)
            return came

        def unequal(group):
            me = dist.get_rank(group)
            sent, received = [me + to for to in range(SIZE)], [of + me for of in range(SIZE)]
            came = torch.zeros(sum(received), 2)
            dist.all_to_all_single(came, numbers(sum(sent), 2), received, sent, group=group)
            return came

        def lists(group):
            me = dist.get_rank(group)
            parts = [numbers(1 + me + 2 * to, seed=to) for to in range(SIZE)]
            came = [torch.zeros(1 + of + 2 * me) for of in range(SIZE)]
            dist.all_to_all(came, [part.clone() for part in parts], group=group)
            return came, parts

        self.compare(equal)
        self.compare(unequal)
        self.compare_with(lists, lambda everyones, rank: [parts[rank] for parts in everyones])

    def test_messages_and_objects(self):
        following, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE

        def ring(group):
            came = torch.zeros(3)
            sending = dist.isend(numbers(3), following, group=group)
            dist.recv(came, before, group=group)
            sending.wait()
            return came

        self.compare(ring)
        for group, gloo in PAIRS:
            said = [[None] * SIZE for _ in range(2)]
            for objects, one in zip(said, (group, gloo), strict=True):
                dist.all_gather_object(objects, {"rank": RANK, "here": dist.get_rank(group)}, group=one)
            self.assertEqual(said[0], said[1])
            if RANK == 1:
                dist.send(torch.ones(1), 0, group=group)
            elif RANK == 0:
                self.assertEqual(dist.recv(torch.zeros(1), group=group), 1)  # recv() returns the sender's rank


if __name__ == "__main__":
    unittest.main()
