# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests the timeline: one file for all ranks, which is valid JSON at any time, and which contains every operation from
its start to its end.
"""

import json
import os
import tempfile
import threading
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
        with open(self.path, encoding="utf-8") as file:
            return json.load(file)

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
        hvd.barrier()
        hvd.start_timeline(self.path, mark_cycles=True)
        hvd.start_timeline(self.path)  # this file is already being written
        self.train()
        hvd.allgather(torch.ones(2), name="rows")
        hvd.allreduce(torch.ones(2))
        hvd.stop_timeline()
        hvd.stop_timeline()
        hvd.barrier()
        events = self.events()
        self.assertEqual({event["pid"] for event in events}, set(range(hvd.size())))
        names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.assertEqual(len(names), hvd.size())
        reduced = 3 if hvd.size() > 1 else 0  # only steps are recorded, because a job of one rank reduces nothing
        for rank in range(hvd.size()):
            mine = [event for event in events if event["pid"] == rank and event["ph"] in "be"]
            for name, count in (("allreduce.0.weight", reduced), ("allreduce.1.bias", reduced), ("allgather.rows", 1)):
                begins = [event for event in mine if event["name"] == name and event["ph"] == "b"]
                ends = {event["id"]: event["ts"] for event in mine if event["name"] == name and event["ph"] == "e"}
                self.assertEqual((len(begins), len(ends)), (count, count), name)
                for begin in begins:
                    self.assertLessEqual(begin["ts"], ends[begin["id"]])
            self.assertEqual([event["ph"] for event in mine if event["name"] == "allreduce without a name"], ["b", "e"])
            steps = [event for event in events if event["name"] == "optimizer step" and event["pid"] == rank]
            self.assertEqual(len(steps), 3)

    def test_valid_whenever_the_lock_is_free(self):
        import fcntl

        hvd.start_timeline(self.path)
        done = threading.Event()

        def work():
            while not hvd.allreduce(torch.tensor([float(done.is_set())]), name="again", op=hvd.Max).item():
                pass

        thread = threading.Thread(target=work)
        thread.start()
        sizes = set()
        for _ in range(20):
            with open(self.path, encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_SH)
                sizes.add(len(json.load(file)))
            done.wait(0.02)
        done.set()
        thread.join()
        hvd.stop_timeline()
        self.assertGreater(len(sizes), 1)

    def test_started_again_it_is_another_one(self):
        for _ in range(2):
            hvd.barrier()
            hvd.start_timeline(self.path)
            hvd.allreduce(torch.ones(1), name="once")
            hvd.stop_timeline()
            hvd.barrier()
            begins = [event for event in self.events() if event["name"] == "allreduce.once" and event["ph"] == "b"]
            self.assertEqual(len(begins), hvd.size())

    def test_another_file_takes_over(self):
        hvd.start_timeline(f"{self.folder}/first.json")
        hvd.allreduce(torch.ones(1), name="one")
        hvd.start_timeline(self.path)
        hvd.allreduce(torch.ones(1), name="two")
        hvd.stop_timeline()
        hvd.barrier()
        self.assertEqual({e["name"] for e in self.events() if e["ph"] in "be"}, {"allreduce.two"})
        if hvd.rank() == 0:
            with open(f"{self.folder}/first.json", encoding="utf-8") as file:
                self.assertEqual({e["name"] for e in json.load(file) if e["ph"] in "be"}, {"allreduce.one"})
            os.remove(f"{self.folder}/first.json")

    def test_a_path_that_cannot_be(self):
        with self.assertRaises(OSError):
            hvd.start_timeline(f"{self.folder}/nothing/timeline.json")


if __name__ == "__main__":
    unittest.main()
