# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests messages on the backend "rueda", and barriers whose error names the missing ranks. Runs with two or more
ranks."""

import datetime
import time
import unittest

import rueda
import rueda.torch.distributed
import torch
import torch.distributed as dist


def setUpModule():
    global RANK, SIZE, NEXT, BEFORE
    dist.init_process_group("rueda", timeout=datetime.timedelta(seconds=60))
    RANK, SIZE = dist.get_rank(), dist.get_world_size()
    NEXT, BEFORE = (RANK + 1) % SIZE, (RANK - 1) % SIZE


def tearDownModule():
    dist.destroy_process_group()


def exactly(mine, theirs):
    torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


class Messages(unittest.TestCase):
    def setUp(self):
        """Without this barrier, a receive from any rank could get a message that a faster rank sends in the next
        test."""
        dist.barrier()

    def test_blocking(self):
        for dtype in (torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.complex64):
            for elements in (1, 1000, 100_000):
                sent = (torch.arange(elements) % 7 + RANK).to(dtype)
                got = torch.empty(elements, dtype=dtype)
                if RANK % 2 == 0:
                    dist.send(sent, NEXT)
                    dist.recv(got, BEFORE)
                else:
                    dist.recv(got, BEFORE)
                    dist.send(sent, NEXT)
                exactly(got, (torch.arange(elements) % 7 + BEFORE).to(dtype))

    def test_tags_in_another_order(self):
        works = [dist.isend(torch.full((50_000,), float(tag)), NEXT, tag=tag) for tag in (1, 2, 3)]
        for tag in (3, 1, 2):
            got = torch.empty(50_000)
            dist.recv(got, BEFORE, tag=tag)
            exactly(got, torch.full((50_000,), float(tag)))
        for work in works:
            work.wait()

    def test_from_anybody(self):
        if RANK == 0:
            senders = set()
            for _ in range(SIZE - 1):
                got = torch.empty(3)
                sender = dist.recv(got)
                exactly(got, torch.full((3,), float(sender)))
                senders.add(sender)
            self.assertEqual(senders, set(range(1, SIZE)))
        else:
            dist.send(torch.full((3,), float(RANK)), 0)

    def test_all_at_once(self):
        incoming = [torch.empty(30_000) for _ in range(SIZE)]
        operations = []
        for peer in range(SIZE):
            if peer != RANK:
                operations.append(dist.P2POp(dist.isend, torch.full((30_000,), 10.0 * RANK + peer), peer))
                operations.append(dist.P2POp(dist.irecv, incoming[peer], peer))
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        for peer in range(SIZE):
            if peer != RANK:
                exactly(incoming[peer], torch.full((30_000,), 10.0 * peer + RANK))

    def test_what_is_not_contiguous(self):
        work = dist.isend(torch.arange(12.0).view(3, 4).t(), NEXT)
        got = torch.zeros(4, 6)
        dist.recv(got[:, ::2], BEFORE)
        work.wait()
        exactly(got[:, ::2].contiguous(), torch.arange(12.0).view(3, 4).t().contiguous())
        exactly(got[:, 1::2].contiguous(), torch.zeros(4, 3))

    def test_beside_collectives(self):
        work = dist.isend(torch.full((1000,), float(RANK)), NEXT)
        ones = torch.ones(5)
        dist.all_reduce(ones)
        exactly(ones, torch.full((5,), float(SIZE)))
        got = torch.empty(1000)
        dist.recv(got, BEFORE)
        exactly(got, torch.full((1000,), float(BEFORE)))
        work.wait()

    def test_in_a_group_of_some(self):
        last = list(range(1, SIZE))
        group = dist.new_group(last)
        if RANK in last and len(last) > 1:
            place = last.index(RANK)
            work = dist.isend(torch.tensor([RANK]), last[(place + 1) % len(last)], group=group)
            got = torch.zeros(1, dtype=torch.int64)
            dist.recv(got, last[place - 1], group=group)
            self.assertEqual(got.item(), last[place - 1])
            work.wait()

    def test_a_message_that_does_not_fit(self):
        work = dist.isend(torch.ones(100_000), NEXT)
        with self.assertRaisesRegex(rueda.Mismatch, "does not fit its receive"):
            dist.recv(torch.empty(3), BEFORE)
        with self.assertRaisesRegex(rueda.Mismatch, "does not fit its receive"):
            work.wait()

    def test_what_is_refused(self):
        """A negative rank must not count from the end, as a negative index does in Python."""
        for wrong in (-1, SIZE):
            message = f"there is no rank {wrong} in the group; expected 0 to {SIZE - 1}"
            with self.assertRaisesRegex(ValueError, f"send: {message}"):
                dist.group.WORLD.send([torch.ones(1)], wrong, 0)
            with self.assertRaisesRegex(ValueError, f"recv: {message}"):
                dist.group.WORLD.recv([torch.ones(1)], wrong, 0)
        for wrong in (-1, 2**31):
            with self.assertRaisesRegex(ValueError, f"the tag is {wrong}; expected 0 to {2**31 - 1}"):
                dist.group.WORLD.send([torch.ones(1)], NEXT, wrong)

    def test_a_receive_has_an_end(self):
        got = torch.empty(3)
        work = dist.irecv(got, BEFORE, tag=77)
        with self.assertRaisesRegex(rueda.Timeout, "recv from rank .*tag 77.*not completed after 0.1 s"):
            work.wait(datetime.timedelta(seconds=0.1))
        dist.barrier()
        dist.send(torch.ones(3), NEXT, tag=77)
        work.wait()
        exactly(got, torch.ones(3))

    def test_a_wait_for_several_has_one_end(self):
        """Starts all operations before it waits for one, as coalesced calls do."""
        works = [dist.irecv(torch.empty(1), BEFORE, tag=80 + index) for index in range(8)]
        works[0].operation.handles += [work.operation.handles[0] for work in works[1:]]
        began = time.monotonic()
        with self.assertRaisesRegex(rueda.Timeout, "not completed after 0.5 s"):
            works[0].wait(datetime.timedelta(seconds=0.5))
        self.assertLess(time.monotonic() - began, 3)
        dist.barrier()
        for index in range(8):
            dist.send(torch.ones(1), NEXT, tag=80 + index)
        for work in works:
            work.wait()


class Barriers(unittest.TestCase):
    def test_barrier(self):
        for late in range(SIZE):
            began = time.monotonic()
            if late == RANK:
                time.sleep(0.2)
            dist.barrier()
            self.assertGreater(time.monotonic() - began, 0.15)

    def test_monitored_barrier(self):
        if not rueda.torch.distributed.offers("monitored_barrier"):
            self.skipTest("not with this PyTorch")
        dist.monitored_barrier()
        if SIZE > 1:
            for wait_all_ranks in (False, True):
                # The last rank comes too late, and must also get an error.
                if RANK == SIZE - 1:
                    time.sleep(0.8)
                with self.assertRaisesRegex(
                    RuntimeError, rf"monitored_barrier: rank {SIZE - 1} of the group has not come within"
                ):
                    dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.3), wait_all_ranks=wait_all_ranks)
                dist.barrier()
        dist.monitored_barrier()


if __name__ == "__main__":
    unittest.main()
