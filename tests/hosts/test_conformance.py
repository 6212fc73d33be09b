# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs the conformance suite on two and three hosts, with equal and unequal numbers of ranks."""

import os
import unittest

from hosts_job import HOSTS_RANK, HostsTest, main

CONFORMANCE = os.environ["CONFORMANCE"]


def lines_of(layout):
    """Returns the expected output of `hosts_rank layout` with layout[h] ranks on host h."""
    size = sum(layout)
    lines = []
    for host, ranks in enumerate(layout):
        for local in range(ranks):
            beside = [other for other, count in enumerate(layout) if count > local]
            lines.append(
                f"rank {len(lines)} of {size}: local {local} of {ranks}, cross {beside.index(host)} of {len(beside)}, "
                f"sum {size * (size + 1) // 2}"
            )
    return lines


class Conformance(HostsTest):
    def check(self, *layout):
        self.assertEqual(sorted(self.run_job(layout, HOSTS_RANK, "layout").splitlines()), lines_of(layout))
        self.run_job(layout, CONFORMANCE, timeout=400)

    def test_two_hosts_with_a_rank_each(self):
        self.check(1, 1)

    def test_two_hosts_with_two_ranks_each(self):
        self.check(2, 2)

    def test_more_ranks_on_the_second(self):
        self.check(1, 2)

    def test_more_ranks_on_the_first(self):
        self.check(3, 1)

    def test_three_hosts_with_a_rank_each(self):
        self.check(1, 1, 1)

    def test_three_hosts_with_two_ranks_each(self):
        self.check(2, 2, 2)


class Names(unittest.TestCase):
    def test_what_is_expected_of_a_layout(self):
        expected = ["rank 0 of 3: local 0 of 1, cross 0 of 2, sum 6", "rank 1 of 3: local 0 of 2, cross 1 of 2, sum 6"]
        self.assertEqual(lines_of((1, 2)), [*expected, "rank 2 of 3: local 1 of 2, cross 0 of 1, sum 6"])


if __name__ == "__main__":
    main()
