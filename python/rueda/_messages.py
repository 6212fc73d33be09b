# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Messages from one rank to another, in which no other rank takes part.

A message goes to the receive of the other rank with the same tag and process set; those with the same sender, receiver,
tag and set go in the order of the calls. Ranks are those of the job, also in a process set. The dtype and the number of
elements must agree: ``Mismatch`` on both ranks where they do not. ``Aborted`` where the other rank has died or shut down.

A send ends when its message has been received; one of up to 8 KiB also when it lies with the receiver and that one
waits for something else, so that both ranks may send first. Larger ones need send_async() for that.
"""

from __future__ import annotations

from rueda import _native
from rueda._native import Handle
from rueda._process_sets import ProcessSet, global_process_set
from rueda._tensors import Tensor


def send(tensor: Tensor, peer: int, tag: int = 0, *, process_set: ProcessSet = global_process_set) -> None:
    """Send a tensor to one rank, which receives it with the same tag.

    Args:
        tensor: of any shape, also without elements. One that is not contiguous is copied.
        peer: to whom; may be this rank, if another thread or a handle receives.
        tag: any number of 32 bits; tells messages between two ranks apart.

    Example::

        rueda.send(activations, peer=rueda.rank() + 1, tag=step)
    """
    _native.send(tensor, peer, tag, process_set.process_set_id)


def send_async(
    tensor: Tensor, peer: int, tag: int = 0, *, process_set: ProcessSet = global_process_set
) -> Handle[None]:
    """send() that returns at once. The tensor must not change before the handle has completed.

    Example::

        sent = rueda.send_async(activations, peer=1)
        rueda.receive(gradients, peer=1)
        sent.wait()
    """
    return _native.send_async(tensor, peer, tag, process_set.process_set_id)


def receive(out: Tensor, peer: int | None = None, tag: int = 0, *, process_set: ProcessSet = global_process_set) -> int:
    """Receive a tensor from one rank, or from whichever sends one with the tag.

    Args:
        out: contiguous and writable, of the sender's dtype and number of elements. What it holds after an error is not
            defined.
        peer: from whom; None: from any rank.
        tag: as given to send().

    Returns:
        The rank that sent it.

    Example::

        sender = rueda.receive(activations, tag=step)
    """
    return _native.receive(out, peer, tag, process_set.process_set_id)


def receive_async(
    out: Tensor, peer: int | None = None, tag: int = 0, *, process_set: ProcessSet = global_process_set
) -> Handle[int]:
    """receive() that returns at once.

    Example::

        handles = [rueda.receive_async(parts[rank], rank) for rank in range(rueda.size())]
    """
    return _native.receive_async(out, peer, tag, process_set.process_set_id)
