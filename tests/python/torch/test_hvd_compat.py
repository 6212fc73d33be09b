# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests all methods by which a script that imports Horovod gets Rueda instead, and the names that users of Horovod
import."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(os.environ["RUEDA_SOURCE"])

SCRIPT = """
import sys
import torch
import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.common.process_sets import ProcessSet
from horovod.common.util import gpu_available
from horovod.torch.compression import Compression, Compressor, FP16Compressor, NoneCompressor
from horovod.torch.elastic import ElasticSampler, TorchState, run
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import ModelStateHandler, get_handler_registry
from horovod.torch.functions import allgather_object, broadcast_object
from horovod.torch.mpi_ops import HorovodAllreduce, _handle_map, allreduce_async_, is_homogeneous, synchronize
from horovod.torch.optimizer import _DistributedAdasumOptimizer, _DistributedOptimizer
from horovod.torch.sync_batch_norm import SyncBatchNorm
import horovod.torch.elastic.state

hvd.init()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters(), compression=hvd.Compression.fp16
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
assert hvd.HorovodInternalError is HorovodInternalError and hvd.ProcessSet is ProcessSet
assert isinstance(optimizer, _DistributedOptimizer)
assert hvd.allreduce(torch.tensor([1.0]), op=hvd.Sum).item() == hvd.size()
print("trained", __name__, sys.argv[1:], flush=True)
"""

# Spawned processes import the script again, and with it horovod.
WORKERS = """
import multiprocessing
import subprocess
import sys
import horovod
from horovod import common  # not horovod.torch: importing PyTorch so many times takes long

def plus_ten(number):
    import rueda.compat._horovod.common
    assert horovod is rueda.compat._horovod and common is rueda.compat._horovod.common
    return number + 10

if __name__ == "__main__":
    subprocess.run([sys.executable, "-c", "import horovod; assert horovod.__version__"], check=True)
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(pool.map(plus_ten, range(3)))
"""

#: The names that `from horovod.torch import …` finds in Horovod.
NAMES = """
elastic Compression allgather_object broadcast_object broadcast_optimizer_state broadcast_parameters allreduce allreduce_async
allreduce_ allreduce_async_ grouped_allreduce grouped_allreduce_async grouped_allreduce_ grouped_allreduce_async_
sparse_allreduce_async allgather allgather_async grouped_allgather grouped_allgather_async broadcast broadcast_async broadcast_
broadcast_async_ alltoall alltoall_async reducescatter reducescatter_async grouped_reducescatter grouped_reducescatter_async join
barrier poll synchronize init shutdown is_initialized start_timeline stop_timeline size local_size cross_size rank local_rank
cross_rank mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built nccl_built ddl_built ccl_built cuda_built
rocm_built ProcessSet global_process_set add_process_set remove_process_set Average Sum Adasum Min Max Product
HorovodInternalError DistributedOptimizer SyncBatchNorm
""".split()

#: The names that Rueda has in addition.
OWN_NAMES = ["local_device"]


class AsHorovod(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "train.py").write_text(SCRIPT)
        (self.folder / "beside.py").write_text("")

    def run_python(self, *arguments, **environment):
        return subprocess.run(
            [sys.executable, "-B", *map(str, arguments)],
            env={**os.environ, **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=200,
        )

    def trains(self, *arguments, words="['--epochs', '3']", **environment):
        ran = self.run_python(*arguments, **environment)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn(f"trained __main__ {words}", ran.stdout)

    def test_as_a_module(self):
        self.trains("-m", "rueda.compat.horovod", self.folder / "train.py", "--epochs", "3")
        self.trains("-m", "rueda.compat.horovod", "-m", "train", "--epochs", "3")
        ran = self.run_python("-m", "rueda.compat.horovod")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("usage", ran.stderr)

    def test_processes_that_the_script_starts(self):
        (self.folder / "workers.py").write_text(WORKERS)
        for start in ("fork", "spawn", "forkserver"):
            ran = self.run_python("-m", "rueda.compat.horovod", self.folder / "workers.py", start)
            self.assertEqual((ran.returncode, ran.stdout), (0, "[10, 11, 12]\n"), ran.stderr)

    def test_by_the_environment(self):
        (self.folder / "site").mkdir()
        (self.folder / "site/rueda.pth").write_text((ROOT / "python/rueda_as_horovod.pth").read_text())
        start = f"import site, runpy; site.addsitedir({str(self.folder / 'site')!r}); runpy.run_path('train.py', run_name='__main__')"
        self.trains("-c", start, words="[]", RUEDA_AS_HOROVOD="1")
        ran = self.run_python("-c", start)
        self.assertIn("No module named 'horovod'", ran.stderr)

    def test_a_timeline_that_the_launcher_is_asked_for(self):
        command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "2", "--timeline-filename", "timeline.json"]
        command += [sys.executable, "-B", "-m", "rueda.compat.horovod", "train.py"]
        environment = {**os.environ, "HOROVOD_ELASTIC": "1"}  # HOROVOD_ELASTIC must not cause a warning
        ran = subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=200, check=False
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("taken as -x HOROVOD_TIMELINE=timeline.json", ran.stderr)
        self.assertNotRegex(ran.stderr, "HOROVOD_.* is ignored")
        events = json.loads((self.folder / "timeline.json").read_text())
        begun = [(e["pid"], e["args"]["name"]) for e in events if e["name"] == "NEGOTIATE_ALLREDUCE"]
        for rank in range(2):
            self.assertEqual(begun.count((rank, "allreduce.weight")), 3)  # one reduction in each step

    def test_install(self):
        code = """
            import sys
            import rueda.compat.horovod as compat
            compat.install()
            compat.install()
            assert "torch" not in sys.modules  # which takes seconds to import
            import horovod
            assert tuple(map(int, horovod.__version__.split("."))) >= (0, 28, 1)
            import horovod.torch, horovod.torch.mpi_ops, rueda.torch
            assert horovod.torch is rueda.torch and horovod.torch.mpi_ops is rueda.torch.mpi_ops
            assert rueda.torch.__spec__.name == "rueda.torch"
            try:
                import horovod.tensorflow
            except ModuleNotFoundError as error:
                assert "Rueda stands for Horovod" in str(error)
            else:
                raise AssertionError
            assert not hasattr(horovod, "run") and not hasattr(horovod, "nothing")
            for text in "horovod.run(print)", "from horovod import run", "import horovod.runner", "from horovod.runner import run":
                try:
                    exec(text)
                except (AttributeError, ImportError) as error:
                    assert "start it with `ruedarun -np N python script.py`" in str(error), (text, error)
                else:
                    raise AssertionError(text)
            try:
                import horovod.torch.nothing
            except ModuleNotFoundError:
                pass
        """
        ran = self.run_python("-c", textwrap.dedent(code))
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_a_horovod_that_is_there_is_not_hidden(self):
        (self.folder / "horovod.py").write_text("")
        code = "import horovod, rueda.compat.horovod as compat; compat.install()"
        ran = self.run_python("-c", code)
        self.assertIn("ImportError: horovod was imported already, from", ran.stderr)

    def test_helpers_of_common_util(self):
        from rueda.compat._horovod.common import util

        self.assertTrue(util.extension_available("torch"))
        self.assertFalse(util.extension_available("tensorflow", verbose=True))
        self.assertIsNone(util.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", __file__, "mpi_lib_v2"))
        with self.assertRaisesRegex(ImportError, "Extension horovod.tensorflow has not been built"):
            util.check_extension("horovod.tensorflow", "HOROVOD_WITH_TENSORFLOW", __file__, "mpi_lib")
        import rueda.torch

        for name in ("mpi", "gloo", "nccl", "ddl", "ccl", "cuda", "rocm"):
            with self.subTest(name=name):
                answer = getattr(rueda.torch, f"{name}_built")()
                self.assertEqual(getattr(util, f"{name}_built")(verbose=True), answer)
        self.assertEqual([number for number in range(-2, 9) if util.num_rank_is_power_2(number)], [1, 2, 4, 8])
        self.assertEqual(util.split_list([1, 2, 3, 4, 5], 3), [[1, 2], [3, 4], [5]])
        self.assertEqual([util.is_iterable(x) for x in ([], "a", iter(()), 5, None)], [True, True, True, False, False])

    def test_names(self):
        import rueda.torch

        self.assertEqual(sorted([*NAMES, *OWN_NAMES]), sorted(rueda.torch.__all__))
        for name in [*NAMES, "_check_has_gpu", "_MPI_LIB_AVAILABLE"]:
            self.assertTrue(hasattr(rueda.torch, name), name)


if __name__ == "__main__":
    unittest.main()
