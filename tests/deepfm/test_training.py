# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests what deepfm promises. The result does not depend on the number of ranks, on the format of the files or on the
use of FIFOs. The AUC comes close to the best one. A job that was stopped continues exactly where it stopped.
"""

import os
import unittest

from deepfm_job import DeepFmTest, run


class Agreement(DeepFmTest):
    def check_close(self, curve, other):
        self.assertEqual([step for step, _ in curve], [step for step, _ in other])
        for (step, loss), (_, wanted) in zip(curve, other, strict=True):
            # The differences come from rounding, and grow with the number of steps.
            self.assertLess(abs(loss - wanted), (1e-4 if step < 50 else 1e-2) * wanted, f"step {step}")

    def test_ranks_agree_and_come_close_to_the_best_auc(self):
        results = {ranks: self.train(f"np{ranks}", ranks, "--epochs", 3, "--lr", 0.06) for ranks in (1, 2, 4)}
        for ranks in (2, 4):
            self.assertLess(abs(results[ranks][0] - results[1][0]), 0.002)
            self.check_close(results[ranks][1], results[1][1])
        area, curve = results[1]
        self.assertEqual(len(curve), 300)
        self.assertGreater(area, self.best[1] - 0.03)
        self.assertLess(area, self.best[1] + 0.005)  # no model can be much better than the best one
        self.assertLess(sum(loss for _, loss in curve[-20:]), 0.85 * sum(loss for _, loss in curve[:20]))

    def test_ranks_with_different_shares_agree(self):
        # 5 ranks × 40 samples do not fill a batch of 203, and the last batch has 106 samples.
        one = self.train("one", 1, "--batch", 203)
        self.assertNotIn("batch: ", self.output)
        self.check_close(self.train("three", 3, "--batch", 203)[1], one[1])
        self.assertIn("batch: 203 samples over 3 processes, 67 or 68 on each; ", self.output)
        self.assertRegex(self.output, r"job: \d+\.\d s on 3 ranks, 99 steps, 20000 samples, ")

    def test_replicas_agree_with_processes(self):
        # In one process the replicas add up the gradients in the order of the ranks, so even the bits are the same.
        ranks = self.train("ranks", 4)
        self.assertEqual(self.train("replicas", 1, "--replicas", 4), ranks)
        self.check_close(self.train("both", 2, "--replicas", 2)[1], ranks[1])
        # The last batch has 8 samples for 6 replicas.
        uneven = self.train("uneven", 2, "--replicas", 3, "--batch", 204)
        self.check_close(uneven[1], self.train("one", 1, "--batch", 204)[1])

    @unittest.skipUnless(os.environ["DEEPFM_DEFINITIONS"] == "DEEPFM_HAS_ONEDNN", "deepfm was built without oneDNN")
    def test_libraries_of_the_dense_layers_agree(self):
        # The two libraries add numbers in different orders, as jobs with different numbers of ranks do. Therefore the
        # tolerances are the same as for such jobs.
        eigen = self.train("eigen", 2)
        saving = ("--checkpoint-dir", self.folder / "run")
        onednn = self.train("onednn", 2, "--library", "onednn", *saving)
        self.assertNotEqual(onednn[1], eigen[1])  # otherwise, Eigen has computed both
        self.assertLess(abs(onednn[0] - eigen[0]), 0.002)
        self.check_close(onednn[1], eigen[1])
        # The replicas compute on threads of one process. They add up in the order of the ranks, so the results are the
        # same.
        self.assertEqual(self.train("replicas", 1, "--library", "onednn", "--replicas", 2), onednn)
        # A checkpoint does not depend on the library. The AUC, which is rounded to 6 digits, is the same with both
        # libraries.
        area = self.train("resumed", 2, "--library", "eigen", *saving)[0]
        self.assertAlmostEqual(area, onednn[0], places=5)

    def test_formats_give_the_same_bits(self):
        records = self.train("records", 2)
        lines = self.train("lines", 2, train=[self.clicks / "train-*.libsvm"], test=self.clicks / "test-*.libsvm")
        # The order of shuffled files depends only on the order of their names, which is the same for both formats.
        self.assertEqual(records, lines)

    def test_lanes_let_each_rank_read_its_own_files(self):
        one = self.train("one", 1, "--lanes", 2)
        self.check_close(self.train("two", 2, "--lanes", 2)[1], one[1])
        warning = "warning: 2 ranks share 1 lane"
        self.assertIn(warning, run(self.job(2)).stdout)
        self.assertNotIn("warning", run(self.job(2, "--lanes", 2)).stdout)


class Fifos(DeepFmTest):
    def test_a_fifo_is_read_like_a_file(self):
        fifo = self.feed("a", "train-000.tfrecord", epochs=2)
        options = ("--format", "tfrecord", "--epochs", 2, "--shuffle", 300)
        area, curve = self.train("fifo", 1, "--fifo", *options, train=[fifo])
        expected = self.train("file", 1, *options, train=[self.clicks / "train-000.tfrecord"])
        self.assertEqual(len(curve), 50)
        self.assertEqual((area, curve), expected)

    def test_each_rank_reads_its_own_fifo(self):
        # The FIFOs have 15000 and 5000 samples, so rank 1 has no samples from step 50 on.
        long = self.feed("long", *(f"train-00{i}.libsvm" for i in range(3)))
        short = self.feed("short", "train-003.libsvm")
        area, curve = self.train("fifos", 2, "--fifo", "--format", "libsvm", train=[long, short],
                                 test=self.clicks / "test-*.libsvm")  # fmt: skip
        self.assertEqual(len(curve), 150)
        self.assertGreater(area, self.best[1] - 0.06)

    def test_uneven_fifos_in_two_epochs(self):
        long = self.feed("long", *(f"train-00{i}.libsvm" for i in range(3)), epochs=2)
        short = self.feed("short", "train-003.libsvm", epochs=2)
        area, curve = self.train("fifos", 2, "--fifo", "--format", "libsvm", "--epochs", 2, train=[long, short],
                                 test=self.clicks / "test-*.libsvm")  # fmt: skip
        self.assertEqual([step for step, _ in curve], list(range(300)))
        self.assertGreater(area, self.best[1] - 0.05)


class Curves(DeepFmTest):
    def test_a_full_disk_does_not_hide_the_result(self):
        done = run(self.job(2, "--curve", "/dev/full"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"AUC [01]\.\d{6} after 100 steps")
        self.assertRegex(done.stderr, "(?i)deepfm: .*exhausted.*--curve /dev/full.*No space left on device")


class Resuming(DeepFmTest):
    def test_a_job_that_stopped_continues_exactly(self):
        files = [self.folder / f"part-{i}.libsvm" for i in range(4)]
        for i, path in enumerate(files):
            path.write_bytes((self.clicks / f"train-00{i}.libsvm").read_bytes())
        paths = {"train": [self.folder / "part-*.libsvm"], "test": self.clicks / "test-*.libsvm"}
        options = ("--epochs", 2, "--shuffle", 1000)
        area, whole = self.train("whole", 2, *options, **paths)
        self.assertNotIn("of the last", self.output)

        # A damaged line stops the job in the middle of the first epoch. Then the line is repaired and the job started
        # again.
        right = files[2].read_bytes()
        files[2].write_bytes(right[: len(right) // 2] + b" x:y " + right[len(right) // 2 :])
        saving = ("--checkpoint-dir", self.folder / "run", "--checkpoint-every", 3)
        curve = self.folder / "run.csv"
        done = run([*self.job(2, *options, *saving, "--curve", curve, **paths)])
        self.assertEqual(done.returncode, 2, done.stderr + done.stdout)
        files[2].write_bytes(right)
        with open(curve, "a", encoding="ascii") as file:
            file.write("99,0,0.")  # an incomplete row, which a killed job may leave at the end of the file
        other = self.folder / "other.csv"
        other.write_text("epoch,time\n0,1\n")
        self.refused(self.job(2, *options, *saving, "--curve", other, **paths), "other.csv", "'step,epoch,loss'")
        self.assertEqual(other.read_text(), "epoch,time\n0,1\n")
        for ranks, name in ((1, "copy"), (2, "run")):
            with self.subTest(ranks=ranks):
                if name == "copy":
                    run(["cp", "-r", self.folder / "run", self.folder / "copy"])
                saving = ("--checkpoint-dir", self.folder / name)
                continued_area, rest = self.train(name, ranks, *options, *saving, **paths)
                first = rest[0][0]
                self.assertEqual([step for step, _ in rest], list(range(first, 200)))
                if ranks == 2:  # the curve has the rows of both runs
                    self.assertEqual((continued_area, rest), (area, whole))
                else:
                    self.assertGreater(first, 0)
                    self.assertLess(first, 100)
                    self.assertRegex(
                        self.output, rf"epoch 1/2  loss \S+ \(of the last {100 - first} of 100 steps\)  test"
                    )
                    self.assertRegex(self.output, r"epoch 2/2  loss \S+  test loss")
                for (step, loss), (_, wanted) in zip(rest, whole[first:], strict=True):
                    self.assertLess(abs(loss - wanted), 1e-2 * wanted, f"step {step}")

        # The same command has nothing left to train. With more epochs, it continues to train.
        self.assertEqual(self.train("again", 2, *options, *saving, **paths), (area, []))
        more = self.train("more", 2, *options, *saving, "--epochs", 3, **paths)[1]
        self.assertEqual([step for step, _ in more], list(range(200, 300)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
