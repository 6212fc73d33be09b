# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Gives digits bad input. The program must print one line about the input, end with the right exit status, and keep the
last good checkpoint. The jobs have two processes, so that a test also notices a process that waits forever for the
other.
"""

import gzip
import os
import random
import shlex
import shutil
import sys
import unittest

from digits_job import DigitsTest, alone, content, direct, make_data, processes_of_digits, safetensors_reader


class WrongData(DigitsTest):
    def setUp(self):
        super().setUp()
        make_data(self.path("good.csv"))
        with open(self.path("good.csv"), encoding="ascii") as file:
            self.lines = file.read().splitlines()

    def refused_file(self, name, data, *words):
        with open(self.path(name), "wb") as file:
            file.write(data if isinstance(data, bytes) else "\n".join(data).encode())
        self.refused(direct(2, self.program("run", data=self.path(name))), self.path(name), *words)
        self.assertFalse(os.path.exists(self.path("run")))

    def test_wrong_number_of_columns(self):
        self.refused_file(
            "columns.csv", [*self.lines[:4], "1,2,3", *self.lines[4:]], "line 5", "3 columns", "64 pixels"
        )

    def test_not_a_number(self):
        self.lines[2] = "x" + self.lines[2]
        self.refused_file("text.csv", self.lines, "line 3", "column 1", "'x")

    def test_pixel_out_of_range(self):
        self.lines[1] = "17" + self.lines[1][self.lines[1].index(",") :]
        self.refused_file("pixel.csv", self.lines, "line 2", "'17'", "0 to 16")

    def test_label_out_of_range(self):
        self.lines[0] = self.lines[0].rpartition(",")[0] + ",10"
        self.refused_file("label.csv", self.lines, "line 1", "column 65", "'10'", "0 to 9")

    def test_negative_and_fractional_numbers(self):
        self.lines[0] = "-1" + self.lines[0][self.lines[0].index(",") :]
        self.refused_file("negative.csv", self.lines, "'-1'")
        self.lines[0] = "1.5" + self.lines[0][self.lines[0].index(",") :]
        self.refused_file("fraction.csv", self.lines, "'1.5'")

    def test_empty_or_too_small(self):
        self.refused_file("empty.csv", b"", "0 images")
        self.refused_file("small.csv", self.lines[:3], "3 images", "at least 10")

    def test_binary(self):
        self.refused_file("binary.csv", bytes(range(256)) * 100, "line 1")

    def test_truncated_and_damaged_gzip(self):
        whole = gzip.compress("\n".join(self.lines).encode())
        self.refused_file("cut.csv.gz", whole[: len(whole) // 2], "truncated")
        damaged = bytearray(whole)
        damaged[len(whole) // 2] ^= 0xFF
        self.refused_file("damaged.csv.gz", bytes(damaged), "damaged")
        self.refused_file("checksum.csv.gz", whole[:-8] + b"\0\0\0\0" + whole[-4:], "damaged")

    def test_a_small_file_that_inflates_without_end_is_refused_with_little_memory(self):
        with open(self.path("bomb.csv.gz"), "wb") as file:
            file.write(gzip.compress(b"0" * (300 << 20), compresslevel=6))  # 0.3 MB
        # This script runs the program. Then it prints the largest amount of memory, in KiB, that the program and its
        # libraries used.
        script = (
            "import resource, subprocess, sys\n"
            "status = subprocess.run(sys.argv[1:]).returncode\n"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
            "sys.exit(status)\n"
        )
        program = self.program("run", data=self.path("bomb.csv.gz"))
        done = self.refused(
            alone(1, [sys.executable, "-c", script, *program]),
            self.path("bomb.csv.gz"),
            "more than 19500000 bytes of text",
            "at most 100000 lines",
        )
        # the program must use less than 200 MiB; without a limit on the text's size it would use 535 MB
        self.assertLess(int(done.stdout.split()[-1]), 200 << 10)

    def test_missing_file_and_folder(self):
        self.refused(direct(2, self.program("run", data=self.path("none.csv"))), "none.csv", "No such file", "--data")
        self.refused(direct(2, self.program("run", data=self.folder)), "is a folder")

    def test_a_plain_and_a_gzipped_file_are_the_same_data(self):
        with gzip.open(self.path("good.csv.gz"), "wb") as file:
            file.write(content(self.path("good.csv")))
        for name in ("good.csv", "good.csv.gz"):
            done = self.start(alone(1, self.program(name + "-run", "--epochs", "1", data=self.path(name))))
            self.assertEqual(done.returncode, 0, done.stderr)
        self.same_files("good.csv-run", "good.csv.gz-run")


class WrongOptions(DigitsTest):
    def test_each_is_named(self):
        for options, words in {
            ("--lr-policy", "fast"): ("'fast'", "none, linear, sqrt, capped"),
            ("--epochs", "0"): ("--epochs", "0"),
            ("--batch", "-3"): ("--batch",),
            ("--lr", "nan"): ("nan",),
            ("--momentum", "1.5"): ("--momentum",),
            ("--seed", "-1"): ("--seed", "-1"),
            ("--no-such-option",): ("--no-such-option",),
            ("--lr-policy", "adasum", "--compression", "fp16"): ("--lr-policy adasum", "--compression fp16"),
        }.items():
            with self.subTest(options=options):
                self.refused(alone(1, self.program("run", *options)), *words)

    def test_help_has_examples(self):
        done = self.start(direct(2, self.program("run", "--help")))
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.count("Examples:"), 1)


class WrongCheckpoint(DigitsTest):
    def setUp(self):
        super().setUp()
        self.train(direct, 2, "run", "--epochs", "1")
        self.checkpoint = self.path("run", "digits.safetensors")
        self.whole = content(self.checkpoint)

    def resume(self, *options):
        return direct(2, self.program("run", "--epochs", "2", "--resume", *options))

    def refused_bytes(self, data, *words):
        with open(self.checkpoint, "wb") as file:
            file.write(data)
        self.refused(self.resume(), self.checkpoint, *words)
        self.assertEqual(content(self.checkpoint), data)

    def test_truncated(self):
        for length in (0, 5, 100, len(self.whole) // 2, len(self.whole) - 1):
            with self.subTest(length=length):
                self.refused_bytes(self.whole[:length], "truncated")

    def test_not_a_checkpoint(self):
        self.refused_bytes(b"something else entirely\n" * 10, "no safetensors file")

    def test_flipped_bits(self):
        numbers = random.Random(7)
        for _ in range(7):
            place, bit = numbers.randrange(len(self.whole)), numbers.randrange(8)
            with self.subTest(place=place, bit=bit):
                damaged = bytearray(self.whole)
                damaged[place] ^= 1 << bit
                self.refused_bytes(bytes(damaged))
        damaged = bytearray(self.whole)
        damaged[-1] ^= 1
        self.refused_bytes(bytes(damaged), "the data of tensor ", "have the checksum ", "take another copy of it")

    def changeable(self):
        """Returns the tensors and metadata without the checksums, because the tests change the content."""
        tensors, metadata = safetensors_reader.read(self.checkpoint)
        del metadata["rueda.checksums"]
        return tensors, metadata

    def test_of_another_model(self):
        tensors, metadata = self.changeable()
        dtype, _, data = tensors["dense1.weights"]
        tensors["dense1.weights"] = (dtype, [256, 128], data)
        safetensors_reader.write(self.checkpoint, tensors, metadata)
        self.refused(
            self.resume(),
            "'dense1.weights' is float32 [256, 128] in it and float32 [512, 64] in the model",
        )
        del tensors["dense1.weights"]
        safetensors_reader.write(self.checkpoint, dict(tensors, other=("U8", [1], b"1")), metadata)
        self.refused(self.resume(), "'dense1.weights' (float32 [512, 64]) is not in it", "'other'")

    def test_with_damaged_metadata(self):
        tensors, metadata = self.changeable()
        for text in ("", "many", "-1", "99999999999999999999", "1x"):
            with self.subTest(text=text):
                safetensors_reader.write(self.checkpoint, tensors, dict(metadata, epochs_done=text))
                self.refused(self.resume(), self.checkpoint, f"'{text}'")

    def test_of_another_course(self):
        self.refused(self.resume("--batch", "64"), "batch '32'", "'64'")
        self.refused(self.resume("--seed", "7"), "seed '1'", "'7'")
        make_data(self.path("other.csv"))
        with open(self.path("other.csv"), "a", encoding="ascii") as file:
            file.write(",".join(["0"] * 65) + "\n")
        self.refused(self.resume("--data", self.path("other.csv")), "data '")
        self.assertEqual(content(self.checkpoint), self.whole)

    def test_missing(self):
        os.remove(self.checkpoint)
        self.refused(self.resume(), self.checkpoint, "No such file")

    def test_already_finished(self):
        self.refused(
            direct(2, self.program("run", "--epochs", "1", "--resume")), "'1' epochs", "--epochs must be larger"
        )

    def test_damaged_curve(self):
        with open(self.path("run", "curve.csv"), "a", encoding="ascii") as file:
            file.write("nonsense\n")
        self.refused(self.resume(), "curve.csv line", "'nonsense'")


class WrongFolder(DigitsTest):
    def test_a_file_in_its_place(self):
        with open(self.path("run"), "w", encoding="ascii"):
            pass
        self.refused(direct(2, self.program("run")), "--checkpoint-dir", self.path("run"))

    def test_no_folder_can_be_made_there(self):
        self.refused(direct(2, self.program("/proc/no-such-place/run")), "/proc/no-such-place/run")

    @unittest.skipIf(os.geteuid() == 0, "for root no folder is unwritable; see the read-only file system")
    def test_a_folder_of_somebody_else(self):
        os.mkdir(self.path("run"), 0o500)
        self.refused(direct(2, self.program("run", "--epochs", "1")), self.path("run"), "Permission denied")

    def mounted(self, options, *commands):
        """Runs shell commands that have a private file system at <folder>/mount. This file system disappears when the
        commands end."""
        if not shutil.which("unshare"):
            self.skipTest("there is no unshare here")
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        os.makedirs(self.path("mount"), exist_ok=True)
        mount = f"mount -t tmpfs -o {options} tmpfs {shlex.quote(self.path('mount'))} || exit 77"
        done = self.start(["unshare", *user, "--mount", "sh", "-c", "\n".join([mount, *commands])])
        if done.returncode == 77 or "unshare: " in done.stderr:
            self.skipTest(f"no file system can be mounted here: {done.stderr.strip()}")
        return done

    def one_line(self, done, *words):
        lines = [line for line in done.stderr.splitlines() if "digits: " in line]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def test_a_read_only_file_system_keeps_the_last_checkpoint(self):
        first = shlex.join(direct(2, self.program("mount/run", "--epochs", "1")))
        second = shlex.join(direct(2, self.program("mount/run", "--epochs", "2", "--resume")))
        done = self.mounted(
            "size=64m",
            f"{first} >/dev/null || exit 1",
            "cp -r mount/run before",
            "mount -o remount,ro mount || exit 77",
            f"{second} >/dev/null",
            "echo status $?",
            "cp -r mount/run after",
        )
        self.assertIn("status 2", done.stdout, done.stderr)
        self.one_line(done, "Read-only file system", self.path("mount"))
        self.same_files("before", "after")

    def test_a_full_disk_keeps_the_last_checkpoint(self):
        # A checkpoint has about 300 kB, so the disk has space for one checkpoint but not for two.
        command = shlex.join(direct(2, self.program("mount/run", "--epochs", "3")))
        done = self.mounted("size=448k", f"{command} >/dev/null", "echo status $?", "cp -r mount/run after")
        self.assertIn("status 1", done.stdout, done.stderr)
        self.one_line(done, "ResourceExhausted", "digits.safetensors.partial", "No space left on device", "make room")
        tensors, metadata = safetensors_reader.read(self.path("after", "digits.safetensors"))
        self.assertEqual((metadata["epochs_done"], len(tensors)), ("1", 16))
        self.assertFalse(os.path.exists(self.path("after", "digits.safetensors.partial")))
        self.train(direct, 2, "after", "--epochs", "3", "--resume")
        self.train(direct, 2, "whole", "--epochs", "3")
        self.same_files("after", "whole")


def tearDownModule():
    left = processes_of_digits()
    assert not left, f"processes of digits are left: {left}"


if __name__ == "__main__":
    unittest.main(verbosity=2)
