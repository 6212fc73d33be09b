# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares rueda.metrics() before, during and after a job with what the program did."""

import unittest

import numpy as np
import rueda


class Metrics(unittest.TestCase):
    def test_a_job(self):
        with self.assertRaises(rueda.NotInitialized):
            rueda.metrics()
        rueda.init()
        first = rueda.metrics()
        self.assertEqual(first["rank"], rueda.rank())
        self.assertEqual(first["rueda_job_ranks"], rueda.size())
        self.assertEqual(first["rueda_step"], -1)
        for step in range(7):
            rueda.begin_step(step)
            rueda.allreduce(np.ones(1000, "float64"), "gradient")
            handles = [rueda.allgather_async(np.ones((3, 4), "int16"), name) for name in "abc"]
            for handle in handles:
                handle.wait()
        last = rueda.metrics()
        self.assertEqual(first.keys(), last.keys())

        def change(name, kind):
            return last[name][kind] - first[name][kind]

        self.assertEqual(change("rueda_operations_total", "allreduce"), 7)
        self.assertEqual(change("rueda_operation_bytes_total", "allreduce"), 7 * 1000 * 8)
        self.assertEqual(change("rueda_operations_total", "allgather"), 7 * 3)
        self.assertEqual(change("rueda_operation_bytes_total", "allgather"), 7 * 3 * 12 * 2)
        self.assertEqual(change("rueda_operations_total", "alltoall"), 0)
        self.assertIsInstance(last["rueda_operations_total"]["allreduce"], int)
        self.assertGreater(change("rueda_operation_executing_seconds_total", "allreduce"), 0)
        self.assertEqual(last["rueda_steps_total"], 7)
        self.assertEqual(last["rueda_step"], 6)
        self.assertEqual(last["rueda_operations_pending"], 0)
        self.assertEqual(last["rueda_job_aborted"], 0)
        rueda.shutdown()
        with self.assertRaises(rueda.NotInitialized):
            rueda.metrics()


if __name__ == "__main__":
    unittest.main()
