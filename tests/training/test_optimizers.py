# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests that the optimizers compute what PyTorch's optimizers compute on the same data, also after their state was saved
and loaded. PyTorch's results in float64 are the exact ones; the errors must be as small as those of PyTorch in float32.

The environment variable OPTIMIZER_STEPS names the program that runs the optimizers.
"""

import os
import subprocess
import tempfile
import unittest

import safetensors_reader
import torch

STEPS = 40
COUNT = 1003  # not a multiple of the length of a vector, so that single elements are processed too


def betas(options):
    """Returns the options with PyTorch's form of beta1 and beta2."""
    others = {name: value for name, value in options.items() if name not in ("beta1", "beta2")}
    return others | {"betas": (options.get("beta1", 0.9), options.get("beta2", 0.999))}


CASES = [
    ("sgd", torch.optim.SGD, {"lr": 0.1}),
    ("sgd", torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.01}),
    ("sgd", torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
    ("sgd", torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    ("sgd", torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": 1, "weight_decay": 0.01}),
    ("adam", torch.optim.Adam, {"lr": 0.001}),
    ("adam", torch.optim.Adam, {"lr": 0.01, "beta1": 0.8, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.02}),
    ("adamw", torch.optim.AdamW, {"lr": 0.001}),
    ("adamw", torch.optim.AdamW, {"lr": 0.01, "beta1": 0.85, "beta2": 0.98, "eps": 1e-7, "weight_decay": 0.1}),
    ("adagrad", torch.optim.Adagrad, {"lr": 0.05}),
    (
        "adagrad",
        torch.optim.Adagrad,
        {"lr": 0.05, "lr_decay": 0.01, "initial_accumulator_value": 0.1, "weight_decay": 0.01},
    ),
]


class Optimizers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        numbers = torch.Generator().manual_seed(1)
        cls.values = torch.randn(COUNT, generator=numbers)
        # Gradients of very different sizes: from 1e-6 to 10.
        sizes = 10 ** torch.linspace(-6, 1, COUNT)
        cls.gradients = torch.randn(STEPS, COUNT, generator=numbers) * sizes

    def ours(self, rule, options):
        with tempfile.TemporaryDirectory() as folder:
            source, target = os.path.join(folder, "in"), os.path.join(folder, "out")
            safetensors_reader.write(
                source,
                {
                    "values": ("F32", [COUNT], self.values.numpy().tobytes()),
                    "gradients": ("F32", [STEPS, COUNT], self.gradients.numpy().tobytes()),
                },
                {},
            )
            settings = [f"{name}={value}" for name, value in options.items()]
            subprocess.run([os.environ["OPTIMIZER_STEPS"], source, target, rule, *settings], check=True, timeout=60)
            dtype, shape, data = safetensors_reader.read(target)[0]["values"]
        self.assertEqual((dtype, shape), ("F32", [STEPS, COUNT]))
        return torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(STEPS, COUNT)

    def theirs(self, optimizer, options, dtype):
        options = betas(options) if optimizer in (torch.optim.Adam, torch.optim.AdamW) else dict(options)
        if "nesterov" in options:
            options["nesterov"] = True
        parameter = torch.nn.Parameter(self.values.to(dtype, copy=True))
        optimizer = optimizer([parameter], **options)
        results = []
        for gradient in self.gradients:
            parameter.grad = gradient.to(dtype)
            optimizer.step()
            results.append(parameter.detach().to(torch.float64, copy=True))
        return torch.stack(results)

    def test_each_step_agrees_with_pytorch(self):
        for rule, optimizer, options in CASES:
            with self.subTest(rule=rule, options=options):
                ours = self.ours(rule, options).double()
                theirs = self.theirs(optimizer, options, torch.float32)
                exact = self.theirs(optimizer, options, torch.float64)
                # The error of an element is relative to the largest absolute value that the element has had so far. An
                # error relative to the present value could be large without a mistake: a value near 0 may be the
                # difference of two large numbers.
                size = torch.cat([self.values.double()[None], exact]).abs().cummax(0).values[1:]
                self.assertGreater((exact[-1] - self.values).abs().max().item(), 1e-3)
                error, their_error = (((each - exact).abs() / size).max().item() for each in (ours, theirs))
                print(f"{rule} {options}: largest error {error:.1e}, PyTorch's {their_error:.1e}")
                self.assertLess(error, max(2 * their_error, 1e-6))


if __name__ == "__main__":
    unittest.main(verbosity=2)
