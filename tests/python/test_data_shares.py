# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests how the ranks of a job share the samples of a pipeline, on one host and on several. Checks which rank reads
which samples. Also checks the weights in an average if the ranks have different numbers of samples."""

import os
import pathlib
import shutil
import tempfile
import threading
import unittest

import numpy as np
import rueda
from rueda import data

FORM = data.Csv([data.CsvColumn("number")], header=False)


def setUpModule():
    rueda.init()


def tearDownModule():
    rueda.shutdown()


def lines(numbers):
    return "".join(f"{number}\n" for number in numbers)


class Shares(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp()) if rueda.rank() == 0 else None
        self.folder = rueda.broadcast_object(folder, 0)

    def tearDown(self):
        rueda.barrier("end of the test")
        if rueda.rank() == 0:
            shutil.rmtree(self.folder)

    def write(self, lengths):
        """Writes files with these numbers of lines. The lines are the numbers from 0 on."""
        ends = np.cumsum(lengths)
        if rueda.rank() == 0:
            for file, (length, end) in enumerate(zip(lengths, ends)):
                (self.folder / f"part-{file}").write_text(lines(range(end - length, end)))
        rueda.barrier("files")
        return int(ends[-1])

    def read(self, source, batch, **share):
        """Returns the numbers that each rank has read: {(cross_rank, local_rank): numbers}."""
        pipeline = data.Pipeline(source, FORM, batch, shuffle=20, **share)
        mine = [number for step in pipeline for number in step["number"].tolist()]
        return dict(rueda.allgather_object(((rueda.cross_rank(), rueda.local_rank()), mine)))

    def test_files_that_all_ranks_share(self):
        total = self.write([11] * 4)
        read = self.read(self.folder / "part-*", 6, rank=rueda.rank(), size=rueda.size())
        self.assertEqual(sorted(sum(read.values(), [])), list(range(total)))

    def test_all_ranks_of_a_host_read_the_same_samples(self):
        total = self.write([11] * 4)
        read = self.read(self.folder / "part-*", 6, rank=rueda.cross_rank(), size=rueda.cross_size())
        for local in range(rueda.local_size()):
            of_hosts = [numbers for (_host, rank), numbers in read.items() if rank == local]
            self.assertEqual(len(of_hosts), rueda.cross_size())
            self.assertEqual(sorted(sum(of_hosts, [])), list(range(total)))
        for (host, _rank), numbers in read.items():
            self.assertEqual(numbers, read[host, 0])  # in the same order

    def test_the_ranks_of_a_host_divide_the_cores(self):
        pipeline = data.Pipeline(data.memory("lines", lines(range(9)).encode()), FORM, 3)
        self.assertEqual(pipeline.statistics()["threads"], min(8, rueda.threads_per_rank()))
        self.assertEqual(data.Decode(lambda path, content: {})._threads, min(8, rueda.threads_per_rank()))
        cores = len(os.sched_getaffinity(0))
        self.assertLessEqual(pipeline.statistics()["threads"], max(1, cores // rueda.local_size()))

    def test_fifos_of_a_host(self):
        """Each host has a FIFO for each of its ranks. The FIFOs of a host have samples that no other host has."""
        host, local = rueda.cross_rank(), rueda.local_rank()
        channels = [self.folder / f"host-{host}-channel-{channel}" for channel in range(rueda.local_size())]
        os.mkfifo(channels[local])
        rueda.barrier("FIFOs")
        begin = 100 * host + 10 * local
        writer = threading.Thread(
            target=channels[local].write_text, args=(lines(range(begin, begin + 7)),), daemon=True
        )
        writer.start()
        read = self.read(
            [data.fifo(channel) for channel in channels],
            2 * len(channels),
            rank=local,
            size=len(channels),
            lanes=len(channels),
        )
        writer.join(60)
        self.assertFalse(writer.is_alive())
        for (its_host, its_local), numbers in read.items():
            its_begin = 100 * its_host + 10 * its_local
            self.assertEqual(sorted(numbers), list(range(its_begin, its_begin + 7)))
        self.assertEqual(len(read), rueda.size())

    def test_the_weighted_average_is_the_mean_over_all_samples(self):
        rank, size = rueda.rank(), rueda.size()
        self.write([5 + 3 * file for file in range(size)])  # each rank reads its own file, and joins when the file ends
        share = {"batch": 2 * size + 1, "lanes": size}  # the ranks' parts of a batch also have different sizes
        serial = [step["number"].mean() for step in data.Pipeline(self.folder / "part-*", FORM, **share)]
        for remainder in ("keep", "pad"):
            pipeline = data.Pipeline(self.folder / "part-*", FORM, **share, rank=rank, size=size, remainder=remainder)
            rows = set()
            steps = 0
            for step, expected in zip(pipeline, serial):
                numbers = step["number"]
                weights = step["weight"] if remainder == "pad" else np.ones_like(numbers)
                rows.add(len(numbers))
                counted = int(weights.sum())
                mean = (weights * numbers).sum() / counted
                weight = data.average_weight(counted)
                average = rueda.allreduce(np.array([weight * mean]), "gradient", rueda.Average)[0]
                np.testing.assert_allclose(average, expected, rtol=1e-6)
                steps += 1
            rueda.join()
            self.assertEqual(rueda.allreduce(np.array([steps]), "steps", rueda.Max)[0], len(serial))
            if remainder == "pad":
                self.assertEqual(len(rows), 1)
        self.assertEqual(data.average_weight(3), 1.0)
        self.assertEqual(data.average_weight(0), 0.0)
        # only the last rank has a real sample; the others have only padding
        weight = data.average_weight(1 if rank == size - 1 else 0)
        self.assertEqual(weight, size if rank == size - 1 else 0)


if __name__ == "__main__":
    unittest.main()
