# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs a part of the conformance suite between hosts with limited links. Checks that the limits work: no data may
arrive earlier than the link allows."""

import os
import re

from hosts_job import HOSTS_RANK, HostsTest, main

CONFORMANCE = os.environ["CONFORMANCE"]
BITS_PER_BYTE = 8
# The number of bytes that tc's token bucket (tbf in hosts.py) lets pass at once. In tc, k means 1024.
BURST = 256 * 1024
# One scenario for each kind of exchange between hosts: small sums, large sums, streams, and messages between ranks.
SCENARIOS = (
    "allreduce: a mebibyte",
    "allreduce: groups",
    "allgather: different",
    "barrier",
    "alltoall: different splits",
)


class LimitedLinks(HostsTest):
    count = 2
    bits_per_second = 0
    floats = 0  # number of float32 elements of the measured transfer

    def check_conformance(self, *layout):
        self.run_job(layout, CONFORMANCE, *SCENARIOS)

    def seconds_of_transfer(self, *layout):
        """Runs a small and a large allreduce. Returns a pair for each rank: the seconds of the small allreduce, and
        those of the large one. hosts_rank has checked every element of the results."""
        lines = self.run_job(layout, HOSTS_RANK, "transfer", str(self.floats)).splitlines()
        found = [re.fullmatch(r"rank \d+: small ([\d.]+) large ([\d.]+)", line) for line in lines]
        self.assertEqual(len(found), sum(layout), lines)
        self.assertTrue(all(found), lines)
        times = [(float(match[1]), float(match[2])) for match in found]
        print(*lines, sep="\n", flush=True)
        return times

    def check_limit(self, *layout):
        # Each of two hosts sends half of its partial sum, and then half of the result. In total, each host sends as
        # many bytes as the tensor has.
        least = (4 * self.floats - BURST) * BITS_PER_BYTE / self.bits_per_second
        # The first call of a name needs one message to the other host and one answer. So the transfer takes at least
        # twice the delay of one direction.
        round_trip = 2 * self.delay_ms / 1000
        for small, large in self.seconds_of_transfer(*layout):
            self.assertGreaterEqual(large, least + round_trip / 2)
            self.assertGreaterEqual(small, round_trip)


class LimitInForce:
    def test_the_limit_is_in_force(self):
        self.check_limit(1, 1)

    def test_the_limit_is_one_for_all_ranks_of_a_host(self):
        self.check_limit(2, 2)


class Gigabit(LimitInForce, LimitedLinks):
    rate = "1gbit"
    bits_per_second = 1_000_000_000
    floats = 8 << 20  # the transfer takes at least 0.27 s

    def test_conformance(self):
        self.check_conformance(1, 1)

    def test_conformance_with_unequal_hosts(self):
        self.check_conformance(1, 2)


class SlowAndFar(LimitInForce, LimitedLinks):
    rate = "100mbit"
    delay_ms = 5
    bits_per_second = 100_000_000
    floats = 1 << 20  # the transfer takes at least 0.33 s

    def test_conformance(self):
        self.check_conformance(1, 1)

    def test_conformance_with_unequal_hosts(self):
        self.check_conformance(2, 1)


if __name__ == "__main__":
    main(limits=True)
