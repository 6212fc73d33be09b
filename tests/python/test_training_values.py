# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares rueda.training in Python with rueda/training in C++: all numbers bit by bit, and all texts. The environment
variable HELPER_VALUES names the C++ program, tests/training/helper_values.cpp."""

import json
import math
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from rueda import training
from rueda.errors import InvalidArgument

SCALINGS = (
    "none linear linear@3 sqrt sqrt@9 capped capped:1.5@4 capped:2.75 adasum capped:0.5 linear:2 linear@0 linear@4x "
    "capped:x Linear"
).split() + ["", "capped@2@3"]
STEPS = (-1, 0, 1, 2, 7, 9, 10, 11, 15, 20, 21, 30, 39, 40, 1000)


def bits(value: float) -> str:
    return float(value).hex()


def same_words(line: str) -> str:
    """Changes a line of the C++ program to the form that Python prints: options get their Python names, and hexadecimal
    numbers get Python's form."""
    for theirs, ours in (
        ("Remainder::pad, Remainder::drop", "remainder='pad', remainder='drop'"),
        ("EmptyShares::allow", "allow_empty_shares=True"),
    ):
        line = line.replace(theirs, ours)
    return re.sub(r"(?<= )-?0x[0-9a-f.]+p[+-]\d+", lambda number: bits(float.fromhex(number[0])), line)


class Lines:
    """Collects the lines that the C++ program must print."""

    def __init__(self):
        self.lines: list[str] = []

    def attempt(self, what: str, body):
        try:
            body()
        except InvalidArgument as error:
            self.lines.append(f"{what} error {error}")

    def add_rate(self, what, make):
        def body():
            rate = make()
            self.lines.append(f"{what} {rate.summary()}")
            self.lines.extend(f"{what} {step} {bits(rate.at(step))}" for step in STEPS)

        self.attempt(what, body)

    def add_rates(self):
        schedules = (None, training.StepDecay([15, 21], 0.3), training.CosineDecay(40, 0.05))
        for scaling in SCALINGS:
            for workers in (1, 2, 3, 4, 8, 9):
                for number, schedule in enumerate(schedules):
                    options = {"workers": workers, "warmup_steps": 10 * number, "schedule": schedule}
                    what = f"rate '{scaling}' {workers} {number}"
                    try:
                        parsed = training.Scaling.parse(scaling)
                    except InvalidArgument as error:
                        self.lines.append(f"{what} error {error}")
                        parsed = "none"  # the C++ program also uses the policy "none" after this error
                    self.add_rate(what, lambda p=parsed, o=options: training.LearningRate(0.001, p, **o))
        one = {"workers": 1}
        self.add_rate("base", lambda: training.LearningRate(-1, **one))
        self.add_rate("workers", lambda: training.LearningRate(1, workers=0))
        self.add_rate("warmup", lambda: training.LearningRate(1, warmup_steps=-1, **one))
        self.add_rate("milestones", lambda: training.LearningRate(1, schedule=training.StepDecay([5, 4], 0.1), **one))
        self.add_rate("decay", lambda: training.LearningRate(1, schedule=training.StepDecay([5], 0), **one))
        cosine = training.CosineDecay(10)
        self.add_rate("cosine", lambda: training.LearningRate(1, warmup_steps=10, schedule=cosine, **one))
        self.add_rate("floor", lambda: training.LearningRate(1, schedule=training.CosineDecay(10, 1.5), **one))

    def add_momentum(self):
        self.lines.append(f"momentum {bits(training.momentum_correction(0.3, 0.1))}")
        self.attempt("momentum 0", lambda: training.momentum_correction(0.3, 0))
        for norm, most in ((0.5, 1), (1, 1), (3, 1), (-1, 1), (math.inf, 1), (1, 0)):
            self.attempt("clip", lambda n=norm, m=most: self.lines.append(f"clip {bits(training.clip_factor(n, m))}"))

    def add_plateau(self):
        for larger in (False, True):
            plateau = training.Plateau(
                factor=0.5, patience=1, threshold=0.01, cooldown=1, least=0.2, larger_is_better=larger
            )
            for metric in (1, 0.9, 0.95, 0.95, 0.9, math.nan, 0.899, 0.95, 2, 2.1, 2, 2, 2, 2, 2):
                changed = plateau.observe(metric)
                resumed = training.Plateau(
                    factor=0.5, patience=1, threshold=0.01, cooldown=1, least=0.2, larger_is_better=larger
                )
                resumed.load_state_dict(plateau.state_dict())
                plateau = resumed  # the state must be enough to continue in a new object
                self.lines.append(f"plateau {int(larger)} {int(changed)} {bits(plateau.factor)}")
        for option, value in (("factor", 1), ("patience", -1), ("threshold", 1), ("cooldown", -2), ("least", 1.5)):
            self.attempt(f"plateau {option}", lambda o=option, v=value: training.Plateau(**{o: v}))

    def add_batches(self):
        def body(options):
            batch = training.plan_batch(**options)
            self.lines.append(f"batch {batch.total} {batch.per_worker} {batch.summary}")

        for size in (-1, 1, 3, 4, 100, 103):
            for workers in (0, 1, 4, 7):
                for rounding in ("refuse", "down", "up"):
                    for meaning in ("total", "per_worker"):
                        options = {meaning: size, "workers": workers, "indivisible": rounding}
                        self.attempt("batch", lambda o=options: body(o))

    def add_sampler(self):
        def body(batch, options):
            sampler = training.Sampler(33, batch, seed=0xFFFF_FFFF_FFFF_FFF1, **options)
            for epoch in (0, 1, 5):
                for number, share in enumerate(sampler.epoch(epoch)):
                    assert share == sampler.at_step(epoch * sampler.batches + number)
                    words = [number, share.counted, share.batch_size, bits(share.weight), *share.indices]
                    self.lines.append(" ".join(map(str, ["share", *words])))

        for size in (1, 2, 4, 7):
            for remainder in ("keep", "drop", "pad"):
                for batch in (5, 8, 40):
                    for empty in (False, True):
                        options = {"remainder": remainder, "allow_empty_shares": empty, "rank": size - 1, "size": size}
                        self.attempt("sampler", lambda b=batch, o=options: body(b, o))
        self.attempt("sampler", lambda: training.Sampler(0, 1, rank=0, size=1))
        self.attempt("sampler", lambda: training.Sampler(1, 0, rank=0, size=1))
        self.attempt("sampler", lambda: training.Sampler(1, 1, rank=2, size=2))

    def add_reports(self):
        for ranks in (
            [
                ("a", 80.0, 100, 3200, 40.0, 0.25),
                ("a", 79.5, 100, 3200, 2.0, 30.0),
                ("b", 79.0, 100, 3200, 41.0, 0.5),
                ("b", 79.0, 99, 3168, 39.0, 0.75),
            ],
            [("a", 2.5, 1, 1, 0.0, 0.5)],
            [("a", 0.0, 0, 0, 0.0, 0.0)] * 2,
            [("a", 9.0, 7, 70, 8.5, 0.0)] * 2 + [("a", 9.0, 7, 70, 0.5, 0.0)],
        ):
            for more in (
                (),
                (True, None, "the disk is full"),
                (True, {"step": 90, "age_seconds": 1.5, "folder": "runs/save-3-step-90"}),
            ):
                report = training.JobReport([training.RankReport(*rank) for rank in ranks], *more)
                self.lines += f"report {report.text()}\n{json.dumps(report.as_dict(), indent=2)}".splitlines()

    def add_pictures(self):
        for logarithmic in (False, True):
            for scale in (1e-5, 1.0, 12345.0):
                curves = {
                    f"curve <{number}>": [
                        (i * scale, math.nan if i == 3 else ((i * 37 + number * 11) % 23 - 3) / 7 * scale)
                        for i in range(7)
                    ]
                    for number in range(9)
                }
                with tempfile.TemporaryDirectory() as folder:
                    path = pathlib.Path(folder, "picture.svg")
                    training.draw_curves(
                        path, curves, title="a & 'b' \"c\"", x_label="x", y_label="y", logarithmic=logarithmic
                    )
                    self.lines += [f"picture {line}" for line in path.read_text().splitlines()]


class Values(unittest.TestCase):
    maxDiff = 2000

    def test_python_computes_what_cpp_computes(self):
        printed = subprocess.run([os.environ["HELPER_VALUES"]], check=True, capture_output=True, text=True, timeout=60)
        found = printed.stdout.splitlines()
        expected = Lines()
        for add in (
            expected.add_rates,
            expected.add_momentum,
            expected.add_plateau,
            expected.add_batches,
            expected.add_sampler,
            expected.add_reports,
            expected.add_pictures,
        ):
            add()
        self.assertGreater(len(found), 5000)
        for ours, theirs in zip(expected.lines, found):
            self.assertEqual(ours, same_words(theirs))
        self.assertEqual(len(expected.lines), len(found))

    def test_one_setting_makes_0_0015_of_0_001_from_four_workers_on(self):
        for workers, expected in ((1, 0.001), (2, 0.001), (3, 0.001), (4, 0.0015), (5, 0.0015), (1000, 0.0015)):
            rate = training.LearningRate(0.001, "capped:1.5@4", workers=workers)
            self.assertAlmostEqual(rate.at(0), expected, places=18)
        self.assertEqual(
            training.LearningRate(0.001, "capped:1.5@4", workers=4).summary(),
            "learning rate: 0.001 becomes 0.0015 with 4 workers (policy capped: the factor is 1.5, the smaller of 4 "
            "workers and the cap 1.5)",
        )

    def test_mistakes_that_only_python_can_make(self):
        for call, text in (
            (lambda: training.plan_batch(workers=1), "give either total or per_worker"),
            (lambda: training.plan_batch(4, per_worker=2, workers=1), "give either total or per_worker"),
            (lambda: training.plan_batch(4, workers=1, indivisible="round"), "'round'; it must be refuse, down or up"),
            (lambda: training.Sampler(4, 2, remainder="x", rank=0, size=1), "'x'; it must be keep, drop or pad"),
            (lambda: training.Sampler(4, 2, rank=0, size=1).at_step(-1), "step is -1"),
            (lambda: training.Sampler(4, 2, rank=0, size=1).share(2), "batch 2 does not exist; an epoch has 2 batches"),
            (lambda: training.Scaling("cubic"), "'cubic' is unknown"),
            (lambda: training.Scaling("capped", cap=math.nan), "cap is nan"),
            (lambda: training.Scaling("linear", scale_from=0), "scale_from is 0"),
            (lambda: training.LearningRate("0.1", workers=1), "base is '0.1'; it must be a number above 0"),
            (lambda: training.LearningRate(0.1, None, workers=1), "scaling is None; it must be a Scaling or a text"),
            (
                lambda: training.LearningRate(0.1, workers=1, schedule="cosine"),
                "schedule is 'cosine'; it must be a Step",
            ),
            (lambda: training.shard(-1, 0, 1), "count is -1"),
        ):
            with self.subTest(text), self.assertRaisesRegex(InvalidArgument, re.escape(text)):
                call()


if __name__ == "__main__":
    unittest.main()
