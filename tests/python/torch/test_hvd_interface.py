# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Checks that names, order of arguments and defaults equal Horovod's, and that each function has documentation with an
example."""

import ast
import inspect
import re
import subprocess
import sys
import unittest

import rueda.torch as hvd
import torch
from rueda.torch import elastic

SET, NONE = "process_set=global", "compression=none"
REDUCED = "average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, " + SET
COMPRESSED = f"average=None, name=None, {NONE}, op=None, prescale_factor=1.0, postscale_factor=1.0, " + SET
SCATTERED = "op=0, " + SET + ", prescale_factor=1.0, postscale_factor=1.0"

SIGNATURES = {
    "init": "comm=None, process_sets=None",
    "shutdown": "",
    "is_initialized": "",
    "start_timeline": "file_path, mark_cycles=False",
    "stop_timeline": "",
    **dict.fromkeys(
        ["mpi_threads_supported", "mpi_enabled", "gloo_enabled", "mpi_built", "gloo_built", "ddl_built", "ccl_built",
         "cuda_built", "rocm_built", "nccl_built"], "",
    ),
    **dict.fromkeys(["allreduce_async", "allreduce_async_", "allreduce_"], f"tensor, {REDUCED}"),
    "allreduce": f"tensor, {COMPRESSED}",
    **dict.fromkeys(["grouped_allreduce_async", "grouped_allreduce_async_", "grouped_allreduce_"], f"tensors, {REDUCED}"),
    "grouped_allreduce": f"tensors, {COMPRESSED}",
    "sparse_allreduce_async": f"tensor, name, op, {SET}",
    **dict.fromkeys(["allgather_async", "allgather"], f"tensor, name=None, {SET}"),
    **dict.fromkeys(["grouped_allgather_async", "grouped_allgather"], f"tensors, name=None, {SET}"),
    **dict.fromkeys(
        ["broadcast", "broadcast_async", "broadcast_", "broadcast_async_"], f"tensor, root_rank, name=None, {SET}"
    ),
    **dict.fromkeys(["alltoall", "alltoall_async"], f"tensor, splits=None, name=None, {SET}"),
    "reducescatter_async": f"tensor, name=None, {SCATTERED}",
    "reducescatter": f"tensor, name=None, {NONE}, {SCATTERED}",
    "grouped_reducescatter_async": f"tensors, name=None, {SCATTERED}",
    "grouped_reducescatter": f"tensors, name=None, {NONE}, {SCATTERED}",
    "join": "device=-1",
    "barrier": SET,
    "poll": "handle",
    "synchronize": "handle",
    "broadcast_parameters": "params, root_rank",
    "broadcast_optimizer_state": "optimizer, root_rank, model=None",
    "broadcast_object": f"obj, root_rank=0, name=None, {SET}",
    "allgather_object": "obj, name=None",
    "add_process_set": "process_set",
    "remove_process_set": "process_set",
    "ProcessSet": "ranks_or_comm",
    "SyncBatchNorm": "num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True",
}  # fmt: skip


def signature_of(thing) -> str:
    def shown(parameter):
        if parameter.default is inspect.Parameter.empty:
            return parameter.name
        if parameter.default is hvd.global_process_set:
            return f"{parameter.name}=global"
        if parameter.default is hvd.Compression.none:
            return f"{parameter.name}=none"
        default = int(parameter.default) if isinstance(parameter.default, type(hvd.Sum)) else parameter.default
        return f"{parameter.name}={default!r}"

    return ", ".join(map(shown, inspect.signature(thing).parameters.values()))


class Interface(unittest.TestCase):
    def test_signatures(self):
        for name, signature in SIGNATURES.items():
            with self.subTest(name):
                self.assertEqual(signature_of(getattr(hvd, name)), signature)

    def test_elastic(self):
        self.assertEqual(signature_of(elastic.TorchState), "model=None, optimizer=None, kwargs")
        self.assertEqual(signature_of(elastic.ElasticSampler), "dataset, shuffle=True, seed=0")
        self.assertEqual(signature_of(elastic.run), "func")
        self.assertIs(elastic.init, hvd.init)
        self.assertIs(elastic.shutdown, hvd.shutdown)
        self.assertFalse(elastic.HostsUpdatedInterrupt().skip_sync)

    def test_everything_has_an_example(self):
        numbers = {"rank", "size", "local_rank", "local_size", "cross_rank", "cross_size", "is_initialized"}
        answers = {name for name in hvd.__all__ if name.endswith(("_built", "_enabled", "_supported"))}
        for name in set(hvd.__all__) - numbers - answers - {"elastic", "global_process_set", "HorovodInternalError"}:
            thing = getattr(hvd, name)
            if callable(thing) and name != "Compression":
                with self.subTest(name):
                    text = inspect.getdoc(thing) or ""
                    self.assertIn("Example::\n\n    ", text)
                    for block in re.findall(r"Example::\n\n((?:    .*\n?|\n)+)", text):
                        ast.parse("async def example():\n" + block)

    def test_the_job_of_numpy_is_the_same(self):
        import rueda

        hvd.init()
        self.assertTrue(rueda.is_initialized())
        # Rueda's NumPy interface uses the same job and accepts PyTorch tensors.
        tensor = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
        rueda.allreduce_(tensor, op=rueda.Sum)
        self.assertEqual(tensor.tolist(), [1.0] * 3)
        hvd.shutdown()
        self.assertFalse(rueda.is_initialized())

    def test_numpy_is_not_needed(self):
        code = """
            import sys
            import torch
            import rueda.torch as hvd
            def absent():
                raise ImportError("NumPy is asked for")
            for name, module in list(sys.modules.items()):
                if name.startswith("rueda") and hasattr(module, "numpy"):
                    module.numpy = absent
            hvd.init()
            model = torch.nn.Linear(2, 1)
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
            hvd.broadcast_parameters(model.state_dict(), 0)
            hvd.broadcast_optimizer_state(optimizer, 0)
            assert hvd.allgather_object({"a": 1}) == [{"a": 1}]
            assert hvd.allgather(torch.ones(2)).tolist() == [1, 1]
        """
        lines = "\n".join(line[12:] for line in code.splitlines())
        ran = subprocess.run(
            [sys.executable, "-B", "-W", "ignore", "-c", lines], capture_output=True, text=True, timeout=100
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)


if __name__ == "__main__":
    unittest.main()
