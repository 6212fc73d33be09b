# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests that a waiting thread leaves the GIL and the core to other threads. Runs with 2 ranks, of which rank 1 is
late."""

import threading
import time
import unittest

import rueda.torch as hvd
import torch

LATE = 0.4  # seconds
#: The allowed share of processor time during a wait. A loop that polls, or that takes the GIL repeatedly, would use a
#: much larger share.
CPU_SHARE = 0.1
#: The count that the other thread must reach during a wait: 25 per millisecond. Usually it reaches hundreds per
#: millisecond, unless other processes use the processor.
LEAST_COUNT = 10_000


def setUpModule():
    hvd.init()
    torch.set_num_threads(1)


def tearDownModule():
    hvd.shutdown()


class Counter:
    """A Python thread that counts the iterations of its loop."""

    def __enter__(self):
        self.count = 0
        self._ended = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self):
        while not self._ended:
            self.count += 1

    def __exit__(self, *_):
        self._ended = True
        self._thread.join()


class Waiting(unittest.TestCase):
    def waits(self):
        """Yields the name and the function of each kind of wait. Rank 0 waits, while rank 1 sleeps before it takes
        part."""
        tensor = torch.ones(1000)
        yield "allreduce_", lambda: hvd.allreduce_(tensor, name="waiting", op=hvd.Sum)
        yield "synchronize", lambda: hvd.synchronize(hvd.allreduce_async_(tensor, name="waiting", op=hvd.Sum))
        yield "grouped_allreduce", lambda: hvd.grouped_allreduce([tensor, tensor], name="waiting", op=hvd.Sum)
        yield "broadcast", lambda: hvd.broadcast(tensor, 1, name="waiting")
        yield "allgather", lambda: hvd.allgather(tensor, name="waiting")
        yield "barrier", hvd.barrier

        model = torch.nn.Linear(100, 10)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())

        def step():
            model(torch.ones(1, 100)).sum().backward()
            optimizer.step()

        yield "step of an optimizer", step

    def test_no_cpu(self):
        for name, wait in self.waits():
            with self.subTest(wait=name):
                wait()  # the first use creates objects, which must not be measured
                hvd.barrier()
                if hvd.rank() == 1:
                    time.sleep(LATE)
                begin, thread, process = time.monotonic(), time.thread_time(), time.process_time()
                wait()
                waited = time.monotonic() - begin
                if hvd.rank() == 0:
                    self.assertGreater(waited, LATE / 2)
                    self.assertLess(time.thread_time() - thread, CPU_SHARE * waited)
                    # Rueda's own thread must sleep, too.
                    self.assertLess(time.process_time() - process, CPU_SHARE * waited)

    def test_other_threads_run(self):
        """If the wait kept the GIL, the other thread could not run at all."""
        for name, wait in self.waits():
            with self.subTest(wait=name):
                hvd.barrier()
                if hvd.rank() == 1:
                    time.sleep(LATE)
                    wait()
                    continue
                with Counter() as counter:
                    before, begin = counter.count, time.monotonic()
                    wait()
                    waited, counted = time.monotonic() - begin, counter.count - before
                self.assertGreater(waited, LATE / 2)
                self.assertGreater(counted, LEAST_COUNT)


if __name__ == "__main__":
    unittest.main()
