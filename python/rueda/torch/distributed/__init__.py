# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The backend "rueda" of torch.distributed: ``init_process_group("rueda")``. DDP, FSDP2 and ZeRO work with it like with
other backends.

Example::

    import torch.distributed as dist
    import rueda.torch.distributed  # also by `import rueda.torch`; with PyTorch 2.14 and later not needed at all

    dist.init_process_group("rueda")
    model = torch.nn.parallel.DistributedDataParallel(model)

Start the program with ``torchrun --nproc-per-node 2 train.py``, ``ruedarun -np 2 python train.py``, plain ``mpirun``,
or ``torch.multiprocessing.spawn``.
"""

from __future__ import annotations

import torch.distributed as dist

__all__ = ["is_available", "offers", "register"]

_registered = False


def is_available() -> bool:
    """Returns True if this PyTorch has torch.distributed and accepts backends of other packages.

    Example::

        backend = "rueda" if rueda.torch.distributed.is_available() else "gloo"
    """
    return dist.is_available() and hasattr(dist, "Backend") and hasattr(dist.Backend, "register_backend")


def offers(feature: str) -> bool:
    """Returns True if this PyTorch supports a feature with the backend "rueda". Some versions of PyTorch support these
    features only with PyTorch's own backends.

    Args:
        feature: "functional collectives" (FSDP2, DTensor and torch.compile need them), "monitored_barrier", "device:backend"
            ("cpu:rueda,cuda:nccl"), "split_group" (torch.distributed.split_group), or "entry point" (init_process_group("rueda") needs
            no import).

    Example::

        if rueda.torch.distributed.offers("functional collectives"):
            fully_shard(model)
    """
    if feature not in _FEATURES:
        raise ValueError(f"there is no feature {feature!r}; expected one of {sorted(_FEATURES)}")
    return is_available() and _FEATURES[feature]()


def register() -> None:
    """Registers the backend "rueda" with torch.distributed. The import of this module calls this function. A second
    call does nothing.

    Raises:
        RuntimeError: this PyTorch has no torch.distributed, or it does not accept backends of other packages.
    """
    global _registered
    if _registered:
        return
    if not is_available():
        import torch

        raise RuntimeError(
            f"PyTorch {torch.__version__} was built without torch.distributed, or takes no backends from outside: "
            "use rueda.torch (hvd) instead"
        )
    from rueda.torch.distributed import _compiling, _rendezvous

    if _has_backends():
        from rueda.torch.distributed import _backend

        _backend.register()
    else:
        from rueda.torch.distributed import _process_group

        _process_group.register()
    _rendezvous.install()
    _compiling.hide(__name__)
    _registered = True


def _has_backends() -> bool:
    """Returns True if Python can subclass c10d's Backend in this PyTorch. Python can do this if the constructor of
    Backend takes a rank and a size.
    """
    from torch._C import _distributed_c10d as c10d

    base = getattr(dist, "BackendBase", None) or getattr(c10d, "Backend", None)
    if base is None:
        return False
    try:
        return bool(type("Probe", (base,), {})(0, 1).size() == 1)
    except TypeError:
        return False


def _finds_groups_by_name() -> bool:
    """Returns True if functional collectives of this PyTorch find every group by its name, even if another package made
    the group.
    """
    from torch._C import _distributed_c10d as c10d

    return _has_backends() or hasattr(c10d, "_resolve_process_group")


def _has_entry_points() -> bool:
    return hasattr(dist.Backend, "_ensure_backend_registered")


_FEATURES = {
    "device:backend": _has_backends,
    "entry point": _has_entry_points,
    "functional collectives": _finds_groups_by_name,
    "monitored_barrier": _has_backends,
    "split_group": _has_backends,
}

if is_available():
    register()
