# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Messages from one rank to another rank. Other ranks take no part.

A message goes to the receive of the other rank with the same tag and process set. Messages with the same sender,
receiver, tag and set arrive in the order of the calls. Ranks are numbered as in the job, also in a process set. The dtype
and the number of elements must agree, otherwise both ranks raise ``Mismatch``. ``Aborted``: the other rank has died or
shut down.

A send completes when its message has been received. A send of up to 8 KiB also completes when the receiver holds the
message and waits for something else, so both ranks may send first. For larger messages, use send_async() then.
"""

from __future__ import annotations

from rueda import _native
from rueda._forms import blocking_form_of
from rueda._native import Handle
from rueda._process_sets import ProcessSet, global_process_set
from rueda._tensors import Tensor


def send_async(
    tensor: Tensor, peer: int, tag: int = 0, *, process_set: ProcessSet = global_process_set
) -> Handle[None]:
    """send() that returns a handle at once. The tensor must not change before the handle has completed.

    Example::

        sent = rueda.send_async(activations, peer=1)
        rueda.receive(gradients, peer=1)
        sent.wait()
    """
    return _native.send_async(tensor, peer, tag, process_set.process_set_id)


@blocking_form_of(send_async)
def send() -> None:
    """Sends a tensor to one rank, which receives it with the same tag.

    Args:
        tensor: it has any shape, and may have no elements. If it is not contiguous, it is copied.
        peer: the rank that receives. It may be this rank, if another thread or a handle receives.
        tag: any number of 32 bits; it tells messages between two ranks apart.

    Example::

        rueda.send(activations, peer=rueda.rank() + 1, tag=step)
    """


def receive_async(
    out: Tensor, peer: int | None = None, tag: int = 0, *, process_set: ProcessSet = global_process_set
) -> Handle[int]:
    """receive() that returns a handle at once.

    Example::

        handles = [rueda.receive_async(parts[rank], rank) for rank in range(rueda.size())]
    """
    return _native.receive_async(out, peer, tag, process_set.process_set_id)


@blocking_form_of(receive_async)
def receive() -> None:
    """Receives a tensor from one rank, or from any rank that sends one with the tag.

    Args:
        out: contiguous and writable memory, with the sender's dtype and number of elements. After an error its contents
            are undefined.
        peer: the rank that sends; None: any rank.
        tag: the tag that the sender gave to send().

    Returns:
        The rank that sent it.

    Example::

        sender = rueda.receive(activations, tag=step)
    """
