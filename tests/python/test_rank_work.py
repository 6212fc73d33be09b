# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests of on_rank_zero and on_all_ranks."""

import contextlib
import re
import time
import unittest
from unittest import mock

import numpy as np
import rueda
from rueda import training
from rueda.training import _rank_work


def setUpModule():
    rueda.init()


class OnRankZero(unittest.TestCase):
    def setUp(self):
        self.lines = []

    def test_only_rank_0_works_and_the_others_go_on(self):
        calls = []
        result = training.on_rank_zero("evaluate", lambda: calls.append(1) or 7, warn=self.lines.append)
        self.assertEqual((result, calls), (7, [1]) if rueda.rank() == 0 else (None, []))
        self.assertEqual(rueda.allreduce(np.ones(1), "after", rueda.Sum)[0], rueda.size())

    def test_a_shared_result_comes_to_all(self):
        result = training.on_rank_zero("evaluate", lambda: {"auc": 0.5}, share=True, warn=self.lines.append)
        self.assertEqual(result, {"auc": 0.5})

    def test_a_shared_failure_comes_to_all(self):
        def fail():
            raise KeyError("no data")

        with self.assertRaisesRegex(KeyError, "no data"):
            training.on_rank_zero("evaluate", fail, share=True)

    def test_a_shared_failure_that_pickle_cannot_send(self):
        class LocalError(Exception):
            pass

        def fail():
            raise LocalError("no data")

        if rueda.rank() == 0:
            with self.assertRaisesRegex(LocalError, "no data"):
                training.on_rank_zero("evaluate", fail, share=True)
        else:
            with self.assertRaisesRegex(rueda.InvalidArgument, "rank 0 could not pickle its object"):
                training.on_rank_zero("evaluate", fail, share=True)

    def work_until_the_others_wait(self):
        """Runs on rank 0. Each other rank announces an operation and then sends a message. After these messages, rank 0
        works for another half second, in which the other ranks wait.
        """
        for rank in range(1, rueda.size()):
            rueda.receive(np.zeros(1), peer=rank, tag=5)
        time.sleep(0.5)

    def wait_for_rank_0(self):
        handle = rueda.allreduce_async(np.ones(1), "next step")
        if rueda.rank() != 0:
            rueda.send(np.zeros(1), peer=0, tag=5)
        handle.wait()
        _rank_work._Watch.finish()

    def check_line(self):
        if rueda.rank() != 1:
            self.assertEqual(self.lines, [])
            return
        self.assertEqual(len(self.lines), 1)
        found = re.match(
            r"Rank 1 waited for rank 0 for (\d+\.\d) s, because rank 0 worked on 'evaluate'\. Divide the work with "
            r"on_all_ranks\(\)",
            self.lines[0],
        )
        self.assertGreaterEqual(float(found[1]), 0.5)

    def test_it_says_how_long_another_rank_waited(self):
        training.on_rank_zero("evaluate", self.work_until_the_others_wait, warn_after=0.25, warn=self.lines.append)
        self.wait_for_rank_0()
        self.check_line()

    def test_it_says_so_even_if_the_thread_looks_too_late(self):
        # with this long pause, the watch's thread reads the counts only at the beginning and at the end of the work
        with mock.patch.object(_rank_work, "_PAUSE", 1000):
            training.on_rank_zero("evaluate", self.work_until_the_others_wait, warn_after=0.25, warn=self.lines.append)
            self.wait_for_rank_0()
        self.check_line()

    def test_nobody_waited_is_not_worth_a_line(self):
        training.on_rank_zero("evaluate", lambda: time.sleep(0.3), warn_after=0.2, warn=self.lines.append)
        if rueda.rank() == 0:
            for rank in range(1, rueda.size()):
                rueda.send_async(np.zeros(1), peer=rank, tag=6)
        else:
            rueda.receive(np.zeros(1), peer=0, tag=6)  # a message is not counted as an operation
        _rank_work._Watch.finish()
        self.assertEqual(self.lines, [])
        rueda.barrier()

    def test_it_sends_nothing_that_waits(self):
        def work():
            for rank in range(1, rueda.size()):
                rueda.receive(np.zeros(1), peer=rank, tag=7)

        training.on_rank_zero("evaluate", work)
        if rueda.rank() != 0:
            self.assertEqual(rueda.metrics()["rueda_operations_pending"], 0)
            rueda.send(np.zeros(1), peer=0, tag=7)
        rueda.barrier()

    def test_a_wait_at_the_end_of_the_job_is_said(self):
        """After rueda.shutdown(), the watch can read no more counts. It must report the wait of an operation even if it
        has not seen the operation's end."""
        # The thread of another test may still run. It would also call _Counts(), and take one of the results below.
        _rank_work._Watch.finish()
        counts = [mock.Mock(ended=0, waited=0.0, oldest=oldest) for oldest in (0.0, 3.0)]
        with mock.patch.object(_rank_work, "_Counts", side_effect=[*counts, rueda.NotInitialized("ended")]):
            _rank_work._Watch("evaluate", 0.0, self.lines.append)._thread.join(60)
        self.assertEqual(len(self.lines), 1)
        self.assertRegex(self.lines[0], r"Rank 1 waited for rank 0 for \d\.\d s, because rank 0 worked on 'evaluate'")

    def test_a_refused_thread_is_said(self):
        with mock.patch.object(
            _rank_work.threading.Thread, "start", side_effect=RuntimeError("can't start new thread")
        ):
            training.on_rank_zero("evaluate", lambda: None, warn=self.lines.append)
        _rank_work._Watch.finish()
        self.assertEqual(len(self.lines), 1 if rueda.rank() == 1 else 0)
        for line in self.lines:
            self.assertIn("work on 'evaluate', because starting a thread failed: can't start new thread", line)

    def test_the_stall_report_knows_the_work(self):
        seen = []

        @contextlib.contextmanager
        def busy(what):
            seen.append(what)
            yield
            seen.append("end")

        with mock.patch.object(_rank_work._lifecycle, "busy", busy):
            training.on_rank_zero("evaluate", lambda: seen.append("work"))
        self.assertEqual(seen, ["evaluate", "work", "end"] if rueda.rank() == 0 else [])


class OnAllRanks(unittest.TestCase):
    def test_all_results_come_to_all(self):
        results = training.on_all_ranks("evaluate", lambda: rueda.rank() * 10)
        self.assertEqual(results, [10 * rank for rank in range(rueda.size())])

    def test_an_error_of_one_rank_comes_to_all(self):
        def work():
            if rueda.rank() == rueda.size() - 1:
                raise ValueError("bad share")

        if rueda.rank() == rueda.size() - 1:
            with self.assertRaisesRegex(ValueError, "bad share"):
                training.on_all_ranks("evaluate", work)
        else:
            with self.assertRaisesRegex(
                rueda.Internal, f"'evaluate' failed on rank {rueda.size() - 1}: ValueError: bad share"
            ):
                training.on_all_ranks("evaluate", work)


if __name__ == "__main__":
    unittest.main()
