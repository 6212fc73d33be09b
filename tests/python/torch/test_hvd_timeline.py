# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests rueda.torch's timeline. It must be one file for all ranks, valid JSON at any time, with every operation from
announcement to end, under Horovod's event names."""

import json
import os
import tempfile
import threading
import time
import unittest

import rueda.torch as hvd
import torch


def setUpModule():
    os.environ["HOROVOD_TIMELINE"] = "DYNAMIC"
    for call in (lambda: hvd.start_timeline("file"), hvd.stop_timeline):
        try:
            call()
        except ValueError:
            continue
        raise AssertionError("works before init()")
    hvd.init()
    torch.set_num_threads(1)


def tearDownModule():
    hvd.shutdown()
    if os.path.exists("DYNAMIC"):
        raise AssertionError("DYNAMIC was taken as the name of a file")


def negotiations(events):
    return [event for event in events if event.get("cat") == "negotiation"]


class Timeline(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp() if hvd.rank() == 0 else None
        self.folder = hvd.broadcast_object(self.folder)
        self.path = f"{self.folder}/timeline.json"
        self.addCleanup(self.clean_up)

    def clean_up(self):
        hvd.barrier()
        if hvd.rank() == 0:
            if os.path.exists(self.path):
                os.remove(self.path)
            os.rmdir(self.folder)

    def events(self):
        """Returns the events. When the file grows, its closing bracket is overwritten. So a text that is read
        meanwhile could mix two states of the file, or end within a write that the kernel has not finished. In both
        cases, this function reads the file again, for at most 10 s."""
        deadline = time.monotonic() + 10
        while True:
            before = os.stat(self.path)
            with open(self.path, encoding="utf-8") as file:
                text = file.read()
            after = os.stat(self.path)
            if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
                try:
                    return json.loads(text)
                except json.JSONDecodeError:
                    if time.monotonic() > deadline:
                        raise

    def start(self, path=None, **options):
        """Starts a timeline on all ranks. Because of the barriers, the timeline contains every later operation of every
        rank."""
        hvd.barrier()
        hvd.start_timeline(path or self.path, **options)
        hvd.barrier()

    def stop(self):
        hvd.stop_timeline()
        hvd.barrier()

    def names(self, rank):
        """Returns the names of a rank's operations, without the barrier after the start."""
        names = [event["args"]["name"] for event in negotiations(self.events()) if event["pid"] == rank]
        return [name for name in names if name and not name.startswith("barrier")]

    def train(self):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()

    def test_all_ranks_and_all_operations(self):
        if hvd.rank() == 0:
            with open(self.path, "w", encoding="utf-8") as file:
                file.write('[\n{"name": "of an earlier job"}\n]\n')
        self.start(mark_cycles=True)
        hvd.start_timeline(self.path)  # starting the same file again must have no effect
        self.train()
        hvd.allgather(torch.ones(2), name="rows")
        hvd.allreduce(torch.ones(2))
        self.stop()
        hvd.stop_timeline()
        events = self.events()
        self.assertEqual({event["pid"] for event in events}, set(range(hvd.size())))
        names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.assertEqual(len(names), hvd.size())
        reduced = 3 if hvd.size() > 1 else 0  # a job of one rank reduces nothing, so its file has no reductions
        for rank in range(hvd.size()):
            mine = [event for event in events if event["pid"] == rank]
            found = {event["name"] for event in mine}
            for name in (
                "NEGOTIATE_ALLREDUCE",
                "ALLREDUCE",
                "NEGOTIATE_ALLGATHER",
                "ALLGATHER",
                "QUEUE",
                "CYCLE_START",
            ):
                self.assertIn(name, found)
            names = self.names(rank)
            for name, count in (("allreduce.0.weight", reduced), ("allreduce.1.bias", reduced), ("allgather.rows", 1)):
                self.assertEqual(names.count(name), count, name)
            steps = [event for event in mine if event["name"] == "optimizer step"]
            self.assertEqual(len(steps), 3)

    def test_valid_at_any_time(self):
        self.start()
        done = threading.Event()

        def work():
            while not hvd.allreduce(torch.tensor([float(done.is_set())]), name="again", op=hvd.Max).item():
                pass

        thread = threading.Thread(target=work)
        thread.start()
        sizes = set()
        if hvd.rank() == 0:  # the other ranks stop when they get `done` from rank 0
            deadline = time.monotonic() + 60
            while len(sizes) < 3 and time.monotonic() < deadline:
                sizes.add(len(self.events()))
                time.sleep(0.05)
            done.set()
        thread.join()
        self.stop()
        if hvd.rank() == 0:
            self.assertEqual(len(sizes), 3, "the file did not grow while the ranks worked")

    def test_started_again_it_is_another_one(self):
        for _ in range(2):
            self.start()
            hvd.allreduce(torch.ones(1), name="once")
            self.stop()
            for rank in range(hvd.size()):
                self.assertEqual(self.names(rank), ["allreduce.once"])

    def test_another_file_takes_over(self):
        first = f"{self.folder}/first.json"
        self.start(first)
        hvd.allreduce(torch.ones(1), name="one")
        self.start()
        hvd.allreduce(torch.ones(1), name="two")
        self.stop()
        self.assertEqual(self.names(0), ["allreduce.two"])
        if hvd.rank() == 0:
            self.path, kept = first, self.path
            self.assertEqual(self.names(hvd.size() - 1), ["allreduce.one"])
            os.remove(first)
            self.path = kept

    def test_a_path_that_cannot_be_written(self):
        path = f"{self.folder}/nothing/timeline.json"
        if hvd.local_rank() == 0:
            with self.assertRaisesRegex(ValueError, "nothing/timeline.json.*No such file or directory"):
                hvd.start_timeline(path)
        else:
            hvd.start_timeline(path)  # a rank that does not write the file gets no error
        self.assertEqual(hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), hvd.size())
        hvd.stop_timeline()


if __name__ == "__main__":
    unittest.main()
