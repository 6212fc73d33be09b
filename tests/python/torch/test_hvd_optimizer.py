# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares DistributedOptimizer with plain PyTorch that trains on all ranks' samples in one process."""

import contextlib
import copy
import gc
import inspect
import io
import pickle
import unittest
import warnings

import rueda.torch as hvd
import torch
from rueda.torch.optimizer import _DistributedOptimizer

STEPS = 4
SAMPLES = 6  # samples in each step on each rank


def setUpModule():
    hvd.init()
    torch.set_num_threads(1)


def tearDownModule():
    hvd.shutdown()


def model_of(seed: int = 1) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()


def batch(step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(SAMPLES, 5, generator=generator, dtype=torch.float64)
    return inputs, torch.randn(SAMPLES, 3, generator=generator, dtype=torch.float64)


def global_batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    pairs = [batch(step, rank) for rank in range(hvd.size())]
    return torch.cat([inputs for inputs, _ in pairs]), torch.cat([targets for _, targets in pairs])


def loss_of(model, inputs, targets):
    return torch.nn.functional.mse_loss(model(inputs), targets)


def train(model, optimizer, batch_of, steps=STEPS, first=0, zero=None):
    for step in range(first, first + steps):
        optimizer.zero_grad(**(zero or {}))
        loss_of(model, *batch_of(step)).backward()
        optimizer.step()


def mine(step):
    return batch(step, hvd.rank())


def sgd(model, **options):
    return torch.optim.SGD(model.parameters(), **{"lr": 0.1, "momentum": 0.9, **options})


def distributed(model, optimizer=None, **options):
    return hvd.DistributedOptimizer(optimizer or sgd(model), named_parameters=model.named_parameters(), **options)


SPECIAL = {
    "SGD": {"momentum": 0.9, "nesterov": True},
    "RMSprop": {"momentum": 0.9, "centered": True},
    "Adam": {"amsgrad": True},
}
LEFT_OUT = {"Optimizer", "SparseAdam", "LBFGS", "Muon"}


#: Whether this version of PyTorch can tell how many references to a gradient exist. By default, the optimizer moves a
#: gradient only if the parameter has the only reference.
KNOWS_WHO_REFERS = hasattr(torch.Tensor, "_use_count") and hasattr(torch._C, "_storage_Use_Count")


def by_storage(gradient, _other):
    storage = gradient.untyped_storage() if hasattr(gradient, "untyped_storage") else gradient.storage()
    return lambda: torch.empty(0).set_(storage)


def by_another_parameter(gradient, other):
    other.grad = gradient
    return lambda: other.grad


#: Ways in which a program may keep a reference to a gradient. first_of() reads the gradient through the reference.
LOOKS = {
    "itself": lambda gradient, _other: gradient,
    "detach": lambda gradient, _other: gradient.detach(),
    "data": lambda gradient, _other: gradient.data,
    "view": lambda gradient, _other: gradient.view(10, 10),
    "slice": lambda gradient, _other: gradient[:20],
    "DLPack": lambda gradient, _other: torch.from_dlpack(gradient),
    "storage": by_storage,
    "another parameter": by_another_parameter,
}
with contextlib.suppress(ImportError):
    import numpy  # noqa: F401  (PyTorch needs it)

    LOOKS["numpy"] = lambda gradient, _other: gradient.numpy()


def first_of(held) -> float:
    return float((held() if callable(held) else held).reshape(-1)[0])


class Case(unittest.TestCase):
    def assertTrainedAlike(self, model, reference, **tolerances):
        for (name, parameter), right in zip(model.named_parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(
                parameter.data, right.data, msg=lambda text, name=name: f"{name}: {text}", **tolerances
            )
        flat = torch.cat([parameter.data.reshape(-1) for parameter in model.parameters()])
        everyones = hvd.allgather(flat[None])
        self.assertTrue((everyones == everyones[0]).all(), "the ranks differ")


class Equality(Case):
    def test_every_optimizer(self):
        for name, kind in vars(torch.optim).items():
            if not (inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer)) or name in LEFT_OUT:
                continue
            with self.subTest(name):
                options = {"lr": 0.01, **SPECIAL.get(name, {})}
                model, reference = model_of(), model_of()
                optimizer = distributed(model, kind(model.parameters(), **options))
                self.assertIsInstance(optimizer, kind)
                self.assertEqual(
                    (type(optimizer).__name__, type(optimizer).__module__), (name, "rueda.torch.optimizer")
                )
                hvd.broadcast_parameters(model.state_dict(), 0)
                hvd.broadcast_optimizer_state(optimizer, 0)
                train(model, optimizer, mine)
                train(reference, kind(reference.parameters(), **options), global_batch)
                self.assertTrainedAlike(model, reference)

    def test_lbfgs_by_closure(self):
        # All ranks have the same samples here. LBFGS's line search uses the loss, so the loss must be the same on all
        # ranks.
        model, reference = model_of(), model_of()
        for trained, optimizer in (
            (model, distributed(model, torch.optim.LBFGS(model.parameters(), max_iter=5))),
            (reference, torch.optim.LBFGS(reference.parameters(), max_iter=5)),
        ):

            def closure(trained=trained, optimizer=optimizer):
                optimizer.zero_grad()
                loss = loss_of(trained, *batch(0, 0))
                loss.backward()
                return loss

            losses = [optimizer.step(closure).item() for _ in range(3)]
            self.assertLess(losses[-1], losses[0])
        self.assertTrainedAlike(model, reference, rtol=1e-6, atol=1e-9)

    def test_lbfgs_of_different_samples(self):
        for search in (None, "strong_wolfe"):
            model, reference = model_of(), model_of()
            options = {"max_iter": 5, "line_search_fn": search}
            for trained, optimizer, of, mean in (
                (model, distributed(model, torch.optim.LBFGS(model.parameters(), **options)), mine, hvd.allreduce),
                (reference, torch.optim.LBFGS(reference.parameters(), **options), global_batch, torch.clone),
            ):

                def closure(trained=trained, optimizer=optimizer, of=of, mean=mean):
                    optimizer.zero_grad()
                    loss = loss_of(trained, *of(0))
                    loss.backward()
                    return mean(loss.detach())

                losses = [optimizer.step(closure).item() for _ in range(3)]
                self.assertLess(losses[-1], losses[0])
            self.assertTrainedAlike(model, reference, rtol=1e-6, atol=1e-9)

    def test_muon(self):
        if not hasattr(torch.optim, "Muon"):
            self.skipTest("this version of PyTorch has no Muon")
        model, reference = model_of(), model_of()
        for trained in (model, reference):
            for parameter in trained.parameters():
                parameter.requires_grad_(parameter.ndim == 2)  # Muon accepts only matrices
        weights = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        optimizer = hvd.DistributedOptimizer(torch.optim.Muon(weights.values(), lr=0.05), weights.items())
        train(model, optimizer, mine)
        train(reference, torch.optim.Muon([reference[0].weight, reference[2].weight], lr=0.05), global_batch)
        self.assertTrainedAlike(model, reference)

    def test_closures_of_different_samples(self):
        model, reference = model_of(), model_of()
        for trained, optimizer, of in ((model, distributed(model), mine), (reference, sgd(reference), global_batch)):
            for step in range(STEPS):

                def closure(trained=trained, optimizer=optimizer, of=of, step=step):
                    optimizer.zero_grad()
                    loss = loss_of(trained, *of(step))
                    loss.backward()
                    return loss

                optimizer.step(closure)
        self.assertTrainedAlike(model, reference)

    def test_operations_and_factors(self):
        count = hvd.size()
        for options, factor in (
            ({"op": hvd.Sum}, count),
            ({"op": hvd.Average}, 1),
            ({"gradient_predivide_factor": float(count)}, 1),
            ({"gradient_predivide_factor": 0.5}, 1),
        ):
            with self.subTest(options=options):
                model, reference = model_of(), model_of()
                train(model, distributed(model, **options), mine)
                train(reference, sgd(reference, lr=0.1 * factor), global_batch)
                self.assertTrainedAlike(model, reference)

    def test_groups(self):
        for make in (
            lambda model: 1,
            lambda model: 3,
            lambda model: 100,
            lambda model: [[model[0].weight, model[2].weight], [model[0].bias]],
        ):
            model, reference = model_of(), model_of()
            train(model, distributed(model, groups=make(model)), mine)
            train(reference, sgd(reference), global_batch)
            self.assertTrainedAlike(model, reference)
        with self.assertWarns(DeprecationWarning):
            model = model_of()
            train(model, distributed(model, num_groups=2), mine)
        self.assertTrainedAlike(model, reference)

    def test_compression(self):
        for way, tolerance in ((hvd.Compression.fp16, 1e-3), (hvd.Compression.bf16, 1e-2)):
            for groups in (None, 2):
                model, reference = model_of(), model_of()
                train(model, distributed(model, compression=way, groups=groups), mine)
                train(reference, sgd(reference), global_batch)
                self.assertTrainedAlike(model, reference, rtol=tolerance, atol=tolerance)
                self.assertEqual(model[0].weight.grad.dtype, torch.float64)

    def test_accumulation(self):
        for passes in (2, 3):
            model, reference = model_of(), model_of()
            optimizer, right = distributed(model, backward_passes_per_step=passes), sgd(reference)
            for step in range(STEPS):
                optimizer.zero_grad()
                right.zero_grad()
                # In the last step, this rank has fewer samples.
                for part in range(passes if step < STEPS - 1 else passes - 1):
                    loss_of(model, *batch(step, hvd.rank() + 10 * part)).backward()
                    for rank in range(hvd.size()):
                        (loss_of(reference, *batch(step, rank + 10 * part)) / hvd.size()).backward()
                optimizer.step()
                right.step()
            self.assertTrainedAlike(model, reference)
        optimizer.set_backward_passes_per_step(1)
        train(model, optimizer, mine)
        train(reference, right, global_batch)
        self.assertTrainedAlike(model, reference)

    def test_schedulers(self):
        for before in (True, False):
            model, reference = model_of(), model_of()
            plain, right = sgd(model), sgd(reference)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                scheduler = torch.optim.lr_scheduler.StepLR(plain, 1, 0.5) if before else None
                optimizer = distributed(model, plain)
                scheduler = scheduler or torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
                other = torch.optim.lr_scheduler.StepLR(right, 1, 0.5)
                for step in range(STEPS):
                    train(model, optimizer, mine, 1, step)
                    scheduler.step()
                    train(reference, right, global_batch, 1, step)
                    other.step()
            self.assertEqual(optimizer.param_groups[0]["lr"], 0.1 * 0.5**STEPS)
            self.assertTrainedAlike(model, reference)

    def test_gradients_in_another_order_of_memory(self):
        def image_model():
            torch.manual_seed(3)
            return torch.nn.Conv2d(3, 4, 3).double().to(memory_format=torch.channels_last)

        def image(step, rank):
            return torch.randn(
                2, 3, 5, 5, generator=torch.Generator().manual_seed(step * 100 + rank), dtype=torch.float64
            )

        model, reference = image_model(), image_model()
        optimizer, right = distributed(model), sgd(reference)
        for step in range(3):
            for trained, by, ranks in ((model, optimizer, [hvd.rank()]), (reference, right, range(hvd.size()))):
                by.zero_grad()
                trained(torch.cat([image(step, rank) for rank in ranks])).square().mean().backward()
                by.step()
        self.assertTrainedAlike(model, reference)

    def test_bfloat16(self):
        model = model_of().to(torch.bfloat16)
        optimizer = distributed(model)
        for step in range(STEPS):
            inputs, targets = (tensor.bfloat16() for tensor in mine(step))
            optimizer.zero_grad()
            # the loss is written as a formula, because PyTorch 1.13 has no mse_loss for bfloat16
            (model(inputs) - targets).square().mean().backward()
            optimizer.step()
        reference = model_of()
        train(reference, sgd(reference), global_batch)
        self.assertTrainedAlike(model.double(), reference, rtol=0.1, atol=0.1)

    def test_names_are_not_needed(self):
        model, reference = model_of(), model_of()
        train(model, hvd.DistributedOptimizer(sgd(model)), mine)
        train(reference, sgd(reference), global_batch)
        self.assertTrainedAlike(model, reference)

    def test_compiled_models(self):
        if not hasattr(torch, "compile"):
            self.skipTest("this version of PyTorch has no torch.compile")
        model, reference = model_of(), model_of()
        compiled = torch.compile(model, backend="aot_eager")
        train(compiled, distributed(model), mine)
        train(reference, sgd(reference), global_batch)
        self.assertTrainedAlike(model, reference)


class Sparse(Case):
    def embedding(self):
        torch.manual_seed(5)
        return torch.nn.Embedding(20, 3, sparse=True).double()

    def test_sparse_gradients(self):
        for dense in (False, True):
            for kind, options in ((torch.optim.SGD, {"lr": 0.5}), (torch.optim.SparseAdam, {"lr": 0.1})):
                model, reference = self.embedding(), self.embedding()
                optimizer = hvd.DistributedOptimizer(
                    kind(list(model.parameters()), **options), list(model.named_parameters()), sparse_as_dense=dense
                )
                right = kind(list(reference.parameters()), **options)
                if kind is torch.optim.SparseAdam and dense:
                    # With a dense gradient, SparseAdam also makes a step for zeros, so its result differs by design.
                    continue
                for step in range(3):
                    for trained, by, ranks in ((model, optimizer, [hvd.rank()]), (reference, right, range(hvd.size()))):
                        by.zero_grad()
                        words = torch.tensor([[rank + step, 7, 7] for rank in ranks])
                        trained(words).square().sum(-1).mean().backward()
                        by.step()
                self.assertTrainedAlike(model, reference)

    def test_ranks_without_any(self):
        if hvd.size() == 1:
            self.skipTest("takes several ranks")
        model, reference = self.embedding(), self.embedding()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5), model.named_parameters())
        right = torch.optim.SGD(reference.parameters(), lr=0.5)
        for step in range(2):
            for trained, by, ranks in ((model, optimizer, [hvd.rank()]), (reference, right, range(hvd.size()))):
                by.zero_grad(set_to_none=True)
                for rank in ranks:
                    if step == 0 or rank == 0:  # after the first step, all ranks know that the gradient is sparse
                        (trained(torch.tensor([rank, 7])).square().mean() / len(ranks)).backward()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    by.step()
        for parameter, expected in zip(model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(parameter, expected)


class HowItIsUsed(Case):
    def test_synchronize_by_hand(self):
        model, reference = model_of(), model_of()
        optimizer, right = distributed(model), sgd(reference)
        for step in range(STEPS):
            optimizer.zero_grad()
            right.zero_grad()
            loss_of(model, *mine(step)).backward()
            loss_of(reference, *global_batch(step)).backward()
            optimizer.synchronize()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            torch.testing.assert_close(norm, torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.1))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with optimizer.skip_synchronize():
                    optimizer.step()
            right.step()
        self.assertTrainedAlike(model, reference)

    def test_step_after_synchronize_warns_once(self):
        if hvd.size() == 1:
            self.skipTest("there is nothing to synchronize")
        model = model_of()
        optimizer = distributed(model)
        loss_of(model, *mine(0)).backward()
        optimizer.synchronize()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            optimizer.step()
        texts = [str(warning.message) for warning in caught]
        self.assertEqual(len(texts), 1)
        self.assertIn("optimizer.step() called without optimizer.skip_synchronize()", texts[0])

    def test_zero_grad_of_both_kinds(self):
        for set_to_none in (True, False):
            model, reference = model_of(), model_of()
            train(model, distributed(model), mine, zero={"set_to_none": set_to_none})
            train(reference, sgd(reference), global_batch, zero={"set_to_none": set_to_none})
            self.assertTrainedAlike(model, reference)

    def test_gradients_that_nobody_wants(self):
        # While a generator is trained, the gradients of its discriminator are reduced and then dropped.
        model, reference = model_of(), model_of()
        optimizer = distributed(model)
        for _ in range(3):
            loss_of(model, *mine(99)).backward()
            optimizer.zero_grad()
        train(model, optimizer, mine)
        train(reference, sgd(reference), global_batch)
        self.assertTrainedAlike(model, reference)

    def test_one_backward_pass_too_many(self):
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")
        model = model_of()
        optimizer = distributed(model)
        loss_of(model, *mine(0)).backward()
        with self.assertRaisesRegex(AssertionError, r"more than backward_passes_per_step times.*(weight|bias)"):
            loss_of(model, *mine(0)).backward()
        optimizer.zero_grad()
        optimizer.step()

    def test_unused_parameters(self):
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")

        class Branches(torch.nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(7)
                self.always, self.even, self.odd = (torch.nn.Linear(5, 3).double() for _ in range(3))

            def forward(self, inputs, number):
                return self.always(inputs) + (self.even if number % 2 == 0 else self.odd)(inputs)

        for options in ({}, {"groups": 2}):
            model, reference = Branches(), Branches()
            optimizer, right = distributed(model, **options), sgd(reference)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for step in range(STEPS):
                    optimizer.zero_grad(set_to_none=True)
                    inputs, targets = mine(step)
                    torch.nn.functional.mse_loss(model(inputs, hvd.rank() + step), targets).backward()
                    optimizer.step()
            for step in range(STEPS):
                right.zero_grad(set_to_none=True)
                for rank in range(hvd.size()):
                    inputs, targets = batch(step, rank)
                    outputs = reference(inputs, rank + step)
                    (torch.nn.functional.mse_loss(outputs, targets) / hvd.size()).backward()
                right.step()
            self.assertTrainedAlike(model, reference)
            texts = [str(warning.message) for warning in caught if "no gradient was computed" in str(warning.message)]
            self.assertEqual(len(texts), 2)  # one warning for each parameter
            self.assertIn("'odd.weight'" if hvd.rank() % 2 == 0 else "'even.weight'", texts[0])

    def test_a_parameter_without_gradients_anywhere(self):
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")
        model = torch.nn.ModuleDict({"used": torch.nn.Linear(5, 3), "unused": torch.nn.Linear(2, 2)}).double()
        optimizer = distributed(model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for step in range(2):
                inputs, targets = mine(step)
                torch.nn.functional.mse_loss(model["used"](inputs), targets).backward()
                optimizer.step()
                optimizer.zero_grad()

    def test_a_replaced_gradient_is_noticed(self):
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")
        model, reference = model_of(), model_of()
        optimizer = distributed(model)
        optimizer.zero_grad()
        loss_of(model, *mine(0)).backward()
        model[0].weight.grad = torch.full_like(model[0].weight, 1e6)
        with self.assertWarnsRegex(UserWarning, r"'0\.weight' was replaced"):
            optimizer.step()
        train(reference, sgd(reference), global_batch, 1)
        self.assertTrainedAlike(model, reference)

    def test_frozen_and_thawed(self):
        model, reference = model_of(), model_of()
        for trained in (model, reference):
            trained[0].weight.requires_grad_(False)
        optimizer, right = distributed(model), sgd(reference)
        for step in range(2 * STEPS):
            if step == STEPS:
                for trained in (model, reference):
                    trained[0].weight.requires_grad_(True)
            train(model, optimizer, mine, 1, step)
            train(reference, right, global_batch, 1, step)
        self.assertTrainedAlike(model, reference)

    def test_frozen_later_as_without_rueda(self):
        for options in ({}, {"groups": 1}, {"groups": 3}):
            model, reference = model_of(), model_of()
            optimizer, right = (
                distributed(model, sgd(model, weight_decay=0.1), **options),
                sgd(reference, weight_decay=0.1),
            )
            for step in range(3 * STEPS):
                if step % STEPS == 0:  # the layer is trained, frozen, and trained again
                    for trained in (model, reference):
                        trained[0].weight.requires_grad_(step != STEPS)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    train(model, optimizer, mine, 1, step, zero={"set_to_none": True})
                train(reference, right, global_batch, 1, step, zero={"set_to_none": True})
            self.assertTrainedAlike(model, reference)

    def test_groups_of_parameters_added_later(self):
        model, reference = model_of(), model_of()
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model[0].parameters(), lr=0.1), model[0].named_parameters()
        )
        right = torch.optim.SGD(reference[0].parameters(), lr=0.1)
        for by, trained in ((optimizer, model), (right, reference)):
            by.add_param_group({"params": list(trained[2].parameters()), "lr": 0.01})
        train(model, optimizer, mine)
        train(reference, right, global_batch)
        self.assertTrainedAlike(model, reference)

    def test_state_dicts_round_trip(self):
        model, reference = model_of(), model_of()
        optimizer, right = distributed(model), sgd(reference)
        train(model, optimizer, mine)
        saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        train(model, optimizer, mine, first=STEPS)
        loss_of(model, *mine(0)).backward()  # a reduction is pending when the state is loaded
        model.load_state_dict(saved[0])
        optimizer.load_state_dict(saved[1])
        train(model, optimizer, mine, first=STEPS)
        train(reference, right, global_batch, 2 * STEPS)
        self.assertTrainedAlike(model, reference)
        # A plain optimizer must accept the state, and the wrapped optimizer must keep its own state.
        plain = sgd(model)
        plain.load_state_dict(optimizer.state_dict())
        train(model, distributed(model, plain), mine, first=2 * STEPS)
        train(reference, right, global_batch, first=2 * STEPS)
        self.assertTrainedAlike(model, reference)

    def test_models_are_saved_and_copied_with_their_hooks(self):
        model = model_of()
        optimizer = distributed(model)
        train(model, optimizer, mine, 1)
        file = io.BytesIO()
        torch.save(model, file)
        other = copy.deepcopy(model)
        # this backward pass starts no reduction, because no optimizer has hooks on this copy
        loss_of(other, *mine(0)).backward()
        train(model, optimizer, mine, 1)

    def test_made_where_nothing_is_recorded(self):
        model, reference = model_of(), model_of()
        with torch.no_grad():
            optimizer = distributed(model)
        train(model, optimizer, mine)
        train(reference, sgd(reference), global_batch)
        self.assertTrainedAlike(model, reference)

    def test_an_optimizer_that_is_gone_starts_nothing(self):
        model = model_of()
        distributed(model)
        gc.collect()
        for _ in range(2):
            loss_of(model, *mine(hvd.rank())).backward()

    def test_attributes_that_the_optimizers_class_makes(self):
        class Wrapping(torch.optim.SGD):
            def __getattr__(self, name):
                if name == "answer":
                    return 42
                raise AttributeError(f"Wrapping has no {name}")

        model = model_of()
        optimizer = distributed(model, Wrapping(model.parameters(), lr=0.1))
        self.assertEqual(optimizer.answer, 42)
        with self.assertRaisesRegex(AttributeError, "Wrapping has no question"):
            _ = optimizer.question

    def test_passes_that_change_while_gradients_are_reduced(self):
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")
        parameter = torch.nn.Parameter(torch.ones(4))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), [("parameter", parameter)])
        parameter.sum().backward()
        optimizer.set_backward_passes_per_step(2)
        with self.assertRaisesRegex(AssertionError, "more than backward_passes_per_step times"):
            parameter.sum().backward()
        optimizer.zero_grad()
        for _ in range(2):
            ((hvd.rank() + 1) * parameter).sum().backward()
        optimizer.step()
        self.assertEqual(parameter.tolist(), [1.0 - (hvd.size() + 1)] * 4)

    def test_hooks_of_the_optimizer_run(self):
        if not hasattr(torch.optim.Optimizer, "register_step_post_hook"):
            self.skipTest("this version of PyTorch has no hooks of optimizers")
        model = model_of()
        optimizer = distributed(model)
        calls = []
        optimizer.register_step_post_hook(lambda *_: calls.append(1))
        train(model, optimizer, mine, 2)
        self.assertEqual(len(calls), 2)
        optimizer.load_state_dict(optimizer.state_dict())
        train(model, optimizer, mine, 2)
        self.assertEqual(len(calls), 4)

    def test_a_scheduler_of_the_optimizer_before_it_was_wrapped_when_a_state_is_loaded(self):
        for options in ({}, {"op": hvd.Adasum}):
            with self.subTest(**options):
                model = model_of()
                plain = sgd(model, lr=0.5)
                scheduler = torch.optim.lr_scheduler.ExponentialLR(plain, 0.5)
                optimizer = distributed(model, plain, **options)
                optimizer.load_state_dict(optimizer.state_dict())
                train(model, optimizer, mine, 1)
                scheduler.step()
                self.assertEqual(optimizer.param_groups[0]["lr"], 0.25)

    def test_two_models_with_the_same_names_in_one_backward_pass(self):
        models, references = (model_of(1), model_of(2)), (model_of(1), model_of(2))
        for names in (True, False):  # without names, the optimizer numbers the parameters
            optimizers = [hvd.DistributedOptimizer(sgd(m), m.named_parameters() if names else None) for m in models]
            plain = [sgd(model) for model in references]
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for step in range(STEPS):
                    for both, by, samples in (
                        (models, optimizers, mine(step)),
                        (references, plain, global_batch(step)),
                    ):
                        for optimizer in by:
                            optimizer.zero_grad()
                        sum(loss_of(model, *samples) for model in both).backward()
                        for optimizer in by:
                            optimizer.step()
            if hvd.size() > 1:
                self.assertEqual(len([warning for warning in caught if "names that differ" in str(warning.message)]), 1)
            for model, reference in zip(models, references, strict=True):
                self.assertTrainedAlike(model, reference)

    def test_two_of_the_same_parameters(self):
        if hvd.size() == 1:
            self.skipTest("takes several ranks")
        model, reference = model_of(), model_of()
        earlier = distributed(model, sgd(model, momentum=0))
        loss_of(model, *mine(0)).backward()  # the program drops the gradients of this step
        later = distributed(model, sgd(model, momentum=0))
        right = sgd(reference, momentum=0)
        train(model, later, mine)
        train(reference, right, global_batch)
        loss_of(model, *mine(0)).backward()
        with self.assertRaisesRegex(ValueError, "same parameters.*step"):
            earlier.step()
        later.zero_grad()
        earlier.zero_grad()
        train(model, later, mine)
        train(reference, right, global_batch)
        self.assertTrainedAlike(model, reference)

    def test_a_gradient_is_reduced_once_when_a_later_optimizer_takes_over(self):
        for options in (
            {},
            {"groups": 1},
            {"compression": hvd.Compression.bf16},
            {"groups": 1, "compression": hvd.Compression.bf16},
            {"gradient_storage": "copied"},
        ):
            for gone in (False, True):
                with self.subTest(gone=gone, **options):
                    first, second = (torch.nn.Parameter(torch.ones(10)) for _ in range(2))
                    plain = torch.optim.SGD([first, second], lr=0.0)
                    names = [("first", first), ("second", second)]
                    earlier = hvd.DistributedOptimizer(plain, names, op=hvd.Sum, **options)
                    (first.sum() + 2 * second.sum()).backward()
                    if gone:
                        del earlier
                        gc.collect()
                    later = hvd.DistributedOptimizer(plain, names, op=hvd.Sum, **options)
                    later.step()
                    self.assertEqual(first.grad.tolist(), [float(hvd.size())] * 10)
                    self.assertEqual(second.grad.tolist(), [2.0 * hvd.size()] * 10)
                    later.zero_grad(set_to_none=False)
                    (3 * first.sum() + second.sum()).backward()
                    later.step()
                    self.assertEqual(first.grad.tolist(), [3.0 * hvd.size()] * 10)
                    self.assertEqual(second.grad.tolist(), [1.0 * hvd.size()] * 10)

    def test_a_gradient_of_part_of_a_group_that_is_taken_over(self):
        first, second = (torch.nn.Parameter(torch.ones(10)) for _ in range(2))
        names = [("first", first), ("second", second)]
        earlier = hvd.DistributedOptimizer(
            torch.optim.SGD([first, second], lr=0.0), names, hvd.Compression.bf16, op=hvd.Sum, groups=1
        )
        (first.sum() + 2 * second.sum()).backward()
        later = hvd.DistributedOptimizer(torch.optim.SGD([first], lr=0.0), names[:1], op=hvd.Sum)
        later.zero_grad(set_to_none=False)
        (3 * first.sum()).backward()
        later.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The result must be the gradient of the second step. The program's reference from the first step is
            # outdated.
            earlier.synchronize()
        self.assertEqual(first.grad[0].item(), 3.0 * hvd.size() * (hvd.size() if hvd.size() > 1 else 1))
        self.assertEqual(second.grad[0].item(), 2.0 * hvd.size())

    def begin_on_the_first_rank(self, begin):
        """Starts a reduction on rank 0 first. The other ranks start later, so the reduction cannot have ended on rank
        0."""
        if hvd.rank() == 0:
            begin()
            hvd.broadcast(torch.ones(1), 0, name="go")
        else:
            hvd.broadcast(torch.ones(1), 0, name="go")
            begin()

    def test_an_optimizer_that_is_dropped_while_it_reduces(self):
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")
        for grouped in (False, True):
            for same in (True, False):
                with self.subTest(same=same, grouped=grouped):
                    parameters = [torch.nn.Parameter(torch.ones(100)) for _ in range(2)]
                    others = parameters if same else [torch.nn.Parameter(torch.ones(100)) for _ in range(2)]

                    def made(of, grouped=grouped):
                        names, groups = list(zip("ab", of, strict=True)), [of] if grouped else None
                        return hvd.DistributedOptimizer(torch.optim.SGD(of, lr=0.0), names, op=hvd.Sum, groups=groups)

                    def begin(parameters=parameters, made=made):
                        optimizer = made(parameters)
                        sum(parameter.sum() for parameter in parameters).backward()
                        del optimizer
                        gc.collect()

                    self.begin_on_the_first_rank(begin)
                    optimizer = made(others)
                    for parameter in others:
                        parameter.grad = None
                    sum(5 * parameter.sum() for parameter in others).backward()
                    optimizer.step()
                    for parameter in others:
                        self.assertEqual(parameter.grad.tolist(), [5.0 * hvd.size()] * 100)

    def test_namesakes_of_which_one_is_an_adasum(self):
        if hvd.size() not in (2, 4):
            self.skipTest("Adasum is of powers of two")
        for first, second in ((hvd.Adasum, hvd.Adasum), (hvd.Adasum, hvd.Sum), (hvd.Sum, hvd.Adasum)):
            with self.subTest(first=first, second=second):
                parameters = [torch.nn.Parameter(torch.ones(100)) for _ in range(2)]
                optimizers = [
                    hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=0.5), [("same", parameter)], op=op)
                    for parameter, op in zip(parameters, (first, second), strict=True)
                ]
                self.begin_on_the_first_rank((2 * parameters[0].sum()).backward)
                with self.assertWarnsRegex(UserWarning, "names that differ"):
                    (4 * parameters[1].sum()).backward()
                for optimizer in optimizers:
                    optimizer.step()
                # If all ranks have the same change, Adasum returns this change.
                for parameter, factor, op in zip(parameters, (2, 4), (first, second), strict=True):
                    change = 0.5 * factor * (1 if op == hvd.Adasum else hvd.size())
                    torch.testing.assert_close(parameter.data, torch.full((100,), 1 - change))

    def test_adasum_and_others_of_the_same_parameters(self):
        if hvd.size() not in (2, 4):
            self.skipTest("Adasum is of powers of two")
        parameter = torch.nn.Parameter(torch.ones(100))
        plain = torch.optim.SGD([parameter], lr=0.5)
        earlier = hvd.DistributedOptimizer(plain, [("same", parameter)], op=hvd.Adasum)
        self.begin_on_the_first_rank(parameter.sum().backward)
        later = hvd.DistributedOptimizer(plain, [("same", parameter)], op=hvd.Sum)
        later.zero_grad()
        self.begin_on_the_first_rank((2 * parameter.sum()).backward)
        with self.assertRaisesRegex(ValueError, "same parameters.*step"):
            earlier.step()
        later.step()
        self.assertEqual(parameter[0].item(), 1 - 0.5 * 2 * hvd.size())
        earlier.step()
        torch.testing.assert_close(parameter.data, torch.full((100,), 1 - hvd.size() - 0.5 * 2 * hvd.size()))

    def test_a_gradient_that_cannot_be_reduced_is_named(self):
        if hvd.size() == 1:
            self.skipTest("alone nothing is reduced")
        for options in ({}, {"groups": 1}):
            parameter = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=0.1), [("odd", parameter)], **options)
            with self.assertRaisesRegex(ValueError, "gradient of 'odd'.*not supported"):
                parameter.abs().sum().backward()
            optimizer.zero_grad()
        for dtype, options in ((torch.float32, {"op": hvd.Min}), (torch.complex64, {})):
            parameter = torch.nn.Parameter(torch.ones(10, 4, dtype=dtype))
            plain = torch.optim.SGD([parameter], lr=0.1)
            optimizer = hvd.DistributedOptimizer(plain, [("words", parameter)], **options)
            # the second round uses the same names, so the refused operations of the first round must not have started
            for _ in range(2):
                parameter.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1, 4, dtype=dtype), (10, 4))
                with self.assertRaisesRegex(ValueError, "gradient of 'words'"):
                    optimizer.step()
                optimizer.zero_grad(set_to_none=True)

    def test_copies(self):
        """As in Horovod, a copy of the optimizer has the state but reduces nothing. In Rueda, the functions of a copy
        raise an error that says this."""
        model = model_of()
        for options in ({}, {"op": hvd.Adasum}):
            optimizer = distributed(model, **options)
            train(model, optimizer, mine, 1)
            model_copy, made = copy.deepcopy((model, optimizer))
            self.assertIs(made.param_groups[0]["params"][0], model_copy[0].weight)
            for name, state in optimizer.state_dict()["state"].items():
                torch.testing.assert_close(
                    made.state_dict()["state"][name]["momentum_buffer"], state["momentum_buffer"], rtol=0, atol=0
                )
            for call in (made.step, made.zero_grad, lambda made=made: made.load_state_dict(made.state_dict())):
                with self.assertRaisesRegex(AttributeError, "copy.*DistributedOptimizer"):
                    call()
            with self.assertRaisesRegex(TypeError, "state_dict"):
                pickle.dumps(optimizer)
            with self.assertRaisesRegex(TypeError, "state_dict"):
                copy.copy(optimizer)
            # A program that continues with a copy must wrap it again and load the state.
            again = distributed(model_copy, sgd(model_copy), **options)
            again.load_state_dict(made.state_dict())
            train(model, optimizer, mine, 1, 1)
            train(model_copy, again, mine, 1, 1)
            self.assertTrainedAlike(model_copy, model, rtol=0, atol=0)

    def test_gradients_with_the_negative_bit(self):
        parameter = torch.nn.Parameter(torch.ones(3))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), [("parameter", parameter)])
        parameter.backward(torch._neg_view(torch.full((3,), float(hvd.rank()))))
        optimizer.step()
        self.assertEqual(parameter.tolist(), [1 + (hvd.size() - 1) / 2] * 3)


class Storages(Case):
    """Tests that gradients have the same values, whatever memory they are in."""

    def lies_there(self, optimizer, parameter) -> bool:
        return parameter.grad is not None and optimizer._storage.holds(parameter, parameter.grad)

    def one(self, storage="auto", count=100, **options):
        """Returns a parameter and its optimizer. The parameter has no gradient before reduced() is called."""
        parameter = torch.nn.Parameter(torch.ones(count))
        plain = torch.optim.SGD([parameter], lr=0.0)
        return parameter, hvd.DistributedOptimizer(
            plain, [("one", parameter)], op=hvd.Sum, gradient_storage=storage, **options
        )

    def reduced(self, parameter, optimizer, factor) -> float:
        """Makes a step in which each element of every rank's gradient is `factor`. Returns the expected value of an
        element after the reduction."""
        (parameter.sum() * factor).backward()
        optimizer.step()
        return float(factor * hvd.size())

    def test_every_kind_of_use(self):
        for storage in ("auto", "private", "copied", "view"):
            for zero in ({"set_to_none": True}, {"set_to_none": False}):
                for options in ({}, {"groups": 2}, {"compression": hvd.Compression.bf16}):
                    with self.subTest(storage=storage, **zero, **options):
                        model, reference = model_of(), model_of()
                        optimizer = distributed(model, gradient_storage=storage, **options)
                        train(model, optimizer, mine, zero=zero)
                        train(reference, sgd(reference), global_batch, zero=zero)
                        tolerance = {"rtol": 1e-2, "atol": 1e-2} if "compression" in options else {}
                        self.assertTrainedAlike(model, reference, **tolerance)
                        moves = storage in ("copied", "view") or (
                            storage == "auto" and not zero["set_to_none"] and KNOWS_WHO_REFERS
                        )
                        if moves and "compression" not in options and hvd.size() > 1:
                            self.assertTrue(all(self.lies_there(optimizer, p) for p in model.parameters()))
                        else:
                            self.assertTrue(
                                optimizer._storage is None
                                or not any(self.lies_there(optimizer, p) for p in model.parameters())
                            )

    def test_by_default_what_is_zeroed_moves(self):
        """By default, a gradient moves into the optimizer's buffer only if zero_grad() of this PyTorch sets gradients
        to zero, not to None."""
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")
        parameters = inspect.signature(torch.optim.SGD.zero_grad).parameters
        model, reference = model_of(), model_of()
        optimizer, right = distributed(model), sgd(reference)
        for passes in (1, 2):
            train(model, optimizer, mine)
            train(reference, right, global_batch)
            self.assertTrainedAlike(model, reference)
            optimizer.zero_grad()
            moved = self.lies_there(optimizer, model[0].weight)
            self.assertEqual(moved, not parameters["set_to_none"].default and KNOWS_WHO_REFERS, passes)
        with self.assertRaises(TypeError):
            optimizer.zero_grad(no_such_argument=True)

    def test_what_the_user_may_look_at_stays_where_it_is(self):
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")
        model, reference = model_of(), model_of()
        optimizer, right = distributed(model), sgd(reference)
        first, second, third = model[0].weight, model[2].weight, model[2].bias
        flat = torch.zeros(first.numel() + 1, dtype=first.dtype)
        first.grad = flat[: first.numel()].view_as(first)  # a part of a larger tensor that belongs to the user
        other = torch.zeros(third.numel() + 1, dtype=third.dtype)
        third.grad = other[: third.numel()].detach()
        second.grad = held = torch.zeros_like(second)
        train(model, optimizer, mine, zero={"set_to_none": False})
        train(reference, right, global_batch)
        self.assertTrainedAlike(model, reference)
        torch.testing.assert_close(flat[:-1].view_as(first), reference[0].weight.grad)
        torch.testing.assert_close(held, reference[2].weight.grad)
        torch.testing.assert_close(other[:-1], reference[2].bias.grad)
        self.assertEqual(self.lies_there(optimizer, model[0].bias), KNOWS_WHO_REFERS)

    def test_a_gradient_that_has_another_name_does_not_move(self):
        """The program has another reference to the gradient. If the gradient moved, this reference would point to the
        old memory and miss later values."""
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")
        other = torch.nn.Parameter(torch.ones(100))
        for name, look in LOOKS.items():
            with self.subTest(name):
                other.grad = None
                parameter, optimizer = self.one()
                self.reduced(parameter, optimizer, 1)
                held = look(parameter.grad, other)
                for factor in (3, 5):
                    optimizer.zero_grad(set_to_none=False)
                    self.assertEqual(first_of(held), 0.0)
                    expected = self.reduced(parameter, optimizer, factor)
                    self.assertEqual((first_of(held), parameter.grad[0].item()), (expected, expected))
                    self.assertFalse(self.lies_there(optimizer, parameter))
                del held
                other.grad = None
                optimizer.zero_grad(set_to_none=True)
                self.reduced(parameter, optimizer, 1)
                optimizer.zero_grad(set_to_none=False)
                self.assertEqual(self.lies_there(optimizer, parameter), KNOWS_WHO_REFERS)

    def test_accumulation(self):
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")
        for storage, moved_in in (("copied", 2), ("view", 1)):
            for set_to_none in (True, False):
                model, reference = model_of(), model_of()
                optimizer = distributed(model, gradient_storage=storage, backward_passes_per_step=2)
                right = sgd(reference)
                for step in range(STEPS):
                    optimizer.zero_grad(set_to_none=set_to_none)
                    right.zero_grad()
                    for part in (1, 2):
                        loss_of(model, *batch(step, hvd.rank() + 10 * part)).backward()
                        if step == 0:
                            self.assertEqual(
                                self.lies_there(optimizer, model[0].weight),
                                part >= moved_in,
                            )
                        for rank in range(hvd.size()):
                            (loss_of(reference, *batch(step, rank + 10 * part)) / hvd.size()).backward()
                    optimizer.step()
                    right.step()
                self.assertTrainedAlike(model, reference)

    def test_with_none_it_is_none_and_otherwise_zero(self):
        for storage in ("copied", "view"):
            model = model_of()
            optimizer = distributed(model, gradient_storage=storage)
            train(model, optimizer, mine, 1)
            optimizer.zero_grad(set_to_none=False)
            self.assertTrue(all((parameter.grad == 0).all() for parameter in model.parameters()))
            optimizer.zero_grad(set_to_none=True)
            self.assertTrue(all(parameter.grad is None for parameter in model.parameters()))

    def test_gradients_of_the_users_own(self):
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")
        for storage in ("copied", "view"):
            model, reference = model_of(), model_of()
            optimizer = distributed(model, gradient_storage=storage)
            for step in range(2):
                # The program replaces the gradient before the backward pass. The backward pass adds to the new
                # gradient, which must be reduced.
                for trained in (model, reference):
                    for parameter in trained.parameters():
                        parameter.grad = torch.ones_like(parameter)
                loss_of(model, *mine(step)).backward()
                loss_of(reference, *global_batch(step)).backward()
                for parameter, right in zip(model.parameters(), reference.parameters(), strict=True):
                    if step:
                        optimizer.synchronize()
                        torch.testing.assert_close(parameter.grad, right.grad)
                optimizer.zero_grad(set_to_none=True)
            loss_of(model, *mine(5)).backward()
            model[0].weight.grad = torch.full_like(model[0].weight, 1e6)
            with self.assertWarnsRegex(UserWarning, r"'0\.weight' was replaced"):
                optimizer.step()
            self.assertTrue(self.lies_there(optimizer, model[0].weight))

    def test_parameters_that_come_later(self):
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")
        model, reference = model_of(), model_of()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model[0].parameters(), lr=0.1), gradient_storage="copied")
        train(model, optimizer, mine, 1)
        right = torch.optim.SGD(reference[0].parameters(), lr=0.1)
        train(reference, right, global_batch, 1)
        for by, trained in ((optimizer, model), (right, reference)):
            by.add_param_group({"params": list(trained[2].parameters())})
            trained.zero_grad()
        train(model, optimizer, mine, first=1)
        train(reference, right, global_batch, first=1)
        self.assertTrainedAlike(model, reference)
        self.assertTrue(all(self.lies_there(optimizer, parameter) for parameter in model.parameters()))

    def test_empty_parameters(self):
        model = torch.nn.ParameterDict(
            {"empty": torch.nn.Parameter(torch.ones(0, 3)), "one": torch.nn.Parameter(torch.ones(3))}
        )
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), gradient_storage="copied")
        (model["empty"].sum() + model["one"].sum() * (hvd.rank() + 1)).backward()
        optimizer.step()
        expected = 1 - sum(range(1, hvd.size() + 1)) / hvd.size()
        torch.testing.assert_close(model["one"].data, torch.full((3,), expected))

    def test_memory_that_others_see_does_not_move(self):
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")
        memory = bytearray(400)
        for gradient in (torch.frombuffer(memory, dtype=torch.float32), torch.zeros(100).share_memory_()):
            parameter, optimizer = self.one()
            parameter.grad = gradient
            address = gradient.data_ptr()
            del gradient
            optimizer.zero_grad(set_to_none=False)
            self.reduced(parameter, optimizer, 1)
            optimizer.zero_grad(set_to_none=False)
            self.assertEqual(parameter.grad.data_ptr(), address)
            self.reduced(parameter, optimizer, 3)
        self.assertEqual(torch.frombuffer(memory, dtype=torch.float32)[0].item(), 3.0 * hvd.size())

    def test_what_is_kept_of_an_earlier_step_stays_as_it_is(self):
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")
        other = torch.nn.Parameter(torch.ones(100))
        for storage in ("auto", "copied", "view"):
            for name, look in LOOKS.items():
                with self.subTest(name, storage=storage):
                    other.grad = None
                    parameter, optimizer = self.one(storage)
                    self.reduced(parameter, optimizer, 1)
                    optimizer.zero_grad(set_to_none=False)
                    expected = self.reduced(parameter, optimizer, 3)
                    there = storage != "auto" or KNOWS_WHO_REFERS
                    self.assertEqual(self.lies_there(optimizer, parameter), there)
                    held = look(parameter.grad, other)
                    for _ in range(2):
                        optimizer.zero_grad(set_to_none=True)
                        later = self.reduced(parameter, optimizer, 7)
                        self.assertEqual((first_of(held), parameter.grad[0].item()), (expected, later))
                        optimizer.zero_grad(set_to_none=False)
                        later = self.reduced(parameter, optimizer, 9)
                        self.assertEqual((first_of(held), parameter.grad[0].item()), (expected, later))
                    # After the program has released its reference, the gradient must use its place in the buffer again.
                    del held
                    other.grad = None
                    optimizer.zero_grad(set_to_none=True)
                    self.reduced(parameter, optimizer, 1)
                    optimizer.zero_grad(set_to_none=False)
                    self.assertEqual(self.lies_there(optimizer, parameter), there)

    def test_parameters_that_change_their_shape(self):
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")
        if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
            self.skipTest("a hook of this version of PyTorch keeps the shape that it was made for")
        for storage in ("auto", "copied", "view"):
            for count in (50, 1, 200):
                with self.subTest(storage=storage, count=count):
                    parameter, optimizer = self.one(storage)
                    for _ in range(2):
                        self.reduced(parameter, optimizer, 1)
                        optimizer.zero_grad(set_to_none=False)
                    optimizer.zero_grad(set_to_none=True)
                    parameter.data = torch.ones(count)
                    for factor in (3, 5):
                        expected = self.reduced(parameter, optimizer, factor)
                        self.assertEqual(parameter.grad.tolist(), [expected] * count)
                        optimizer.zero_grad(set_to_none=False)
                    self.assertEqual(parameter.grad.tolist(), [0.0] * count)
                    self.assertEqual(self.lies_there(optimizer, parameter), storage != "auto" or KNOWS_WHO_REFERS)

    def test_zeroed_when_the_job_is_over(self):
        if hvd.size() == 1:
            self.skipTest("nothing is reduced")
        parameter, optimizer = self.one()
        self.reduced(parameter, optimizer, 1)
        hvd.shutdown()
        try:
            optimizer.zero_grad(set_to_none=False)
            self.assertEqual(parameter.grad.tolist(), [0.0] * 100)
        finally:
            hvd.init()
        self.reduced(parameter, optimizer, 1)
        optimizer.zero_grad(set_to_none=False)
        self.assertEqual(self.lies_there(optimizer, parameter), KNOWS_WHO_REFERS)


class Scaling(Case):
    """Tests GradScaler on the CPU, if this PyTorch has it."""

    def setUp(self):
        self.scaler_class = getattr(getattr(torch, "amp", None), "GradScaler", None)
        if self.scaler_class is None:
            self.skipTest("this version of PyTorch has no GradScaler of the CPU")

    def run_steps(self, model, optimizer, samples, by_hand):
        scaler = self.scaler_class("cpu", init_scale=256.0, growth_interval=100)
        for step in range(STEPS):
            optimizer.zero_grad()
            inputs, targets = samples(step)
            scaler.scale(loss_of(model, inputs, targets)).backward()
            if by_hand:  # the steps that Horovod's documentation recommends
                optimizer.synchronize()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                with optimizer.skip_synchronize():
                    scaler.step(optimizer)
            else:
                scaler.step(optimizer)
            scaler.update()
        return scaler.get_scale()

    def test_plain_and_by_hand(self):
        for by_hand in (False, True):
            model, reference = model_of().float(), model_of().float()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.run_steps(model, distributed(model), lambda step: [t.float() for t in mine(step)], by_hand)
            right = sgd(reference)
            for step in range(STEPS):
                right.zero_grad()
                loss_of(reference, *(tensor.float() for tensor in global_batch(step))).backward()
                if by_hand:
                    torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.5)
                right.step()
            self.assertTrainedAlike(model, reference, rtol=1e-4, atol=1e-5)

    def test_infinities_of_one_rank(self):
        def samples(step):
            inputs, targets = (tensor.float() for tensor in mine(step))
            return inputs * (float("inf") if step == 1 and hvd.rank() == 0 else 1), targets

        for by_hand in (False, True):
            model = model_of().float()
            scale = self.run_steps(model, distributed(model), samples, by_hand)
            self.assertEqual(scale, 128.0)  # the scale was halved once, on all ranks
            self.assertTrue(all(parameter.isfinite().all() for parameter in model.parameters()))
            self.assertTrainedAlike(model, model)


class AutocastTraining(Case):
    def test_bfloat16_of_the_cpu(self):
        model, reference = model_of().float(), model_of().float()
        optimizer, right = distributed(model), sgd(reference)
        for step in range(STEPS):
            for trained, by, of in ((model, optimizer, mine), (reference, right, global_batch)):
                by.zero_grad()
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    inputs, targets = (tensor.float() for tensor in of(step))
                    loss = torch.nn.functional.mse_loss(trained(inputs).float(), targets)
                loss.backward()
                by.step()
        self.assertTrainedAlike(model, reference, rtol=0.05, atol=0.02)


class InASet(Case):
    def test_members_train_together_and_others_alone(self):
        if hvd.size() == 1:
            self.skipTest("takes several ranks")
        members = [0, 1]
        process_set = hvd.add_process_set(members) if hvd.size() > 2 else hvd.global_process_set
        model, reference = model_of(), model_of()
        train(model, distributed(model, process_set=process_set), mine)
        ranks = members if hvd.rank() in members else [hvd.rank()]
        right = sgd(reference)
        for step in range(STEPS):
            right.zero_grad()
            for rank in ranks:
                (loss_of(reference, *batch(step, rank)) / len(ranks)).backward()
            right.step()
        for parameter, expected in zip(model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(parameter, expected)
        hvd.remove_process_set(process_set)


def adasum_of(vectors):
    """Computes Adasum by its formula, pair by pair. The number of vectors must be a power of two."""
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [
            (1 - torch.dot(a, b) / (2 * torch.dot(a, a))) * a + (1 - torch.dot(a, b) / (2 * torch.dot(b, b))) * b
            for a, b in pairs
        ]
    return vectors[0]


class ByAdasum(Case):
    def test_changes_are_combined(self):
        if hvd.size() & (hvd.size() - 1):
            self.skipTest("the formula here is of powers of two")
        model = model_of()
        optimizer = distributed(model, torch.optim.SGD(model.parameters(), lr=0.1), op=hvd.Adasum)
        references = [model_of() for _ in range(hvd.size())]
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(model, *mine(step)).backward()
            optimizer.step()
            before = [parameter.detach().clone() for parameter in references[0].parameters()]
            changes = []
            for rank, reference in enumerate(references):
                by = torch.optim.SGD(reference.parameters(), lr=0.1)
                by.zero_grad()
                loss_of(reference, *batch(step, rank)).backward()
                by.step()
                changes.append([new.detach() - old for new, old in zip(reference.parameters(), before, strict=True)])
            for reference in references:
                for parameter, old, of_ranks in zip(
                    reference.parameters(), before, zip(*changes, strict=True), strict=True
                ):
                    combined = adasum_of([change.reshape(-1) for change in of_ranks]).reshape(old.shape)
                    parameter.data.copy_(old + combined)
        self.assertTrainedAlike(model, references[0])

    def test_what_it_refuses(self):
        if hvd.size() == 1:
            self.skipTest("a single process has the normal class")
        model = model_of()
        optimizer = distributed(model, op=hvd.Adasum)
        with self.assertRaises(AssertionError), optimizer.skip_synchronize():
            pass
        loss_of(model, *mine(0)).backward()
        with self.assertRaises(AssertionError):
            optimizer.zero_grad()
        optimizer.step()
        optimizer.zero_grad()


class Refused(unittest.TestCase):
    def refused(self, error, text, **options):
        model = model_of()
        with self.assertRaisesRegex(error, text):
            hvd.DistributedOptimizer(sgd(model), **options)

    def test_arguments(self):
        model = model_of()
        names = list(model.named_parameters())
        self.refused(ValueError, "predivide", gradient_predivide_factor=2.0, op=hvd.Sum)
        self.refused(ValueError, "op is 99; expected Average", op=99)
        self.refused(ValueError, "op is 'sum'; expected Average", op="sum")
        self.refused(ValueError, "backward_passes_per_step", backward_passes_per_step=0)
        self.refused(ValueError, "gradient_storage", gradient_storage="shared")
        self.refused(ValueError, "groups", groups=0)
        self.refused(ValueError, "groups", groups=-1)
        self.refused(ValueError, "torch.Tensor", groups=[["weight"]])
        self.refused(ValueError, "more than once", groups=[[names[0][1]], [names[0][1]]])
        self.refused(ValueError, "tuples", named_parameters=["weight"])
        self.refused(ValueError, "unique", named_parameters=[("a", p) for _, p in names])
        self.refused(ValueError, "not named", named_parameters=names[:2])
        with self.assertRaisesRegex(ValueError, "already"):
            hvd.DistributedOptimizer(distributed(model))

    def test_signature_is_horovods(self):
        parameters = inspect.signature(hvd.DistributedOptimizer).parameters
        self.assertEqual(
            [(name, parameter.default) for name, parameter in parameters.items()][1:-1],
            [
                ("named_parameters", None),
                ("compression", hvd.Compression.none),
                ("backward_passes_per_step", 1),
                ("op", hvd.Average),
                ("gradient_predivide_factor", 1.0),
                ("num_groups", 0),
                ("groups", None),
                ("sparse_as_dense", False),
                ("process_set", hvd.global_process_set),
            ],
        )
        self.assertTrue(issubclass(_DistributedOptimizer, torch.optim.Optimizer))

    def test_a_mismatch_names_the_parameter(self):
        if hvd.size() == 1:
            self.skipTest("takes several ranks")
        model = torch.nn.Sequential(torch.nn.Linear(5, 2 + hvd.rank()), torch.nn.Linear(2 + hvd.rank(), 3)).double()
        optimizer = distributed(model)
        loss_of(model, *mine(0)).backward()
        with self.assertRaisesRegex(hvd.HorovodInternalError, r"allreduce\.[01]\.(weight|bias)"):
            optimizer.step()
        optimizer.zero_grad()
        self.assertEqual(hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), hvd.size())


if __name__ == "__main__":
    unittest.main()
