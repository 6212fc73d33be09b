# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests sends and receives of every dtype, as awaited handles, and with arguments that Rueda must refuse.
test_message_properties.py tests which receive gets which message. Runs with two or more ranks.
"""

import asyncio
import unittest

import numpy as np
import rueda


def setUpModule():
    rueda.init()


def tearDownModule():
    rueda.shutdown()


def pattern(size, dtype, seed):
    """Returns random values that depend only on the arguments, and are therefore equal on all ranks."""
    return np.random.default_rng(seed).integers(0, 100, size).astype(dtype)


class Messages(unittest.TestCase):
    def setUp(self):
        self.next = (rueda.rank() + 1) % rueda.size()
        self.before = (rueda.rank() - 1) % rueda.size()

    def test_ping_pong_of_every_dtype_and_many_sizes(self):
        if rueda.rank() > 1:
            return
        other = 1 - rueda.rank()
        dtypes = [np.bool_, np.int8, np.uint16, np.int32, np.uint64, np.float16, np.float32, np.float64]
        for dtype in dtypes:
            for size in (0, 1, 3, 1000, 100_000):
                ping = pattern(size, dtype, size)
                pong = np.empty_like(ping)
                if rueda.rank() == 0:
                    rueda.send(ping, other, 1)
                    self.assertEqual(rueda.receive(pong, other, 2), other)
                else:
                    self.assertEqual(rueda.receive(pong, other, 1), other)
                    rueda.send(pong, other, 2)
                np.testing.assert_array_equal(pong, ping)

    def test_awaited(self):
        async def exchange():
            received = np.empty(10_000)
            sent = rueda.send_async(np.full(10_000, 1.0 * rueda.rank()), self.next, 3)
            sender = await rueda.receive_async(received, self.before, 3)
            await sent
            return sender, received

        sender, received = asyncio.run(exchange())
        self.assertEqual(sender, self.before)
        np.testing.assert_array_equal(received, np.full(10_000, 1.0 * self.before))

    def test_what_is_not_contiguous_and_what_is_resident(self):
        matrix = np.arange(20_000.0).reshape(100, 200)
        column = rueda.empty(100, np.float64)
        sent = rueda.send_async(matrix[:, 7], self.next)
        rueda.receive(column, self.before)
        sent.wait()
        np.testing.assert_array_equal(column, matrix[:, 7])
        with self.assertRaisesRegex(rueda.InvalidArgument, "not C-contiguous"):
            rueda.receive(matrix[:, 7], self.before)

    def test_peers_that_cannot_be(self):
        with self.assertRaisesRegex(rueda.InvalidArgument, f"the peer is rank 99; expected 0 to {rueda.size() - 1}"):
            rueda.send(np.zeros(1), 99)
        with self.assertRaisesRegex(rueda.InvalidArgument, "the peer is rank -1"):
            rueda.send(np.zeros(1), -1)
        with self.assertRaisesRegex(ValueError, "tag is .*; expected a number of 32 bits"):
            rueda.send(np.zeros(1), 0, 1 << 40)

    def test_in_a_process_set(self):
        if rueda.size() < 3:
            return
        last = rueda.size() - 1
        pair = rueda.add_process_set([0, last])
        if rueda.rank() == 0:
            rueda.send(np.array([1.5]), last, process_set=pair)
            with self.assertRaisesRegex(
                rueda.InvalidArgument, f"the peer is rank 1, which is not in process set .*; expected one of 0, {last}"
            ):
                rueda.send(np.array([1.5]), 1, process_set=pair)
        elif rueda.rank() == last:
            value = np.zeros(1)
            self.assertEqual(rueda.receive(value, process_set=pair), 0)
            self.assertEqual(value[0], 1.5)
        else:
            with self.assertRaisesRegex(rueda.InvalidArgument, f"rank {rueda.rank()} is not a member of process set"):
                rueda.send(np.array([1.5]), 0, process_set=pair)
        rueda.remove_process_set(pair)


if __name__ == "__main__":
    unittest.main()
