# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Messages from one rank to another. Other ranks take no part.

A message goes to a receive on the other rank that has the same tag and process set. Messages with the same sender,
receiver, tag and set arrive in the order of the calls. ``peer`` is always a rank of the job, also for a process set. If
the dtype or the number of elements differs, both ranks raise ``Mismatch``, unless the send has already completed. If
the other rank has died or shut down, the operation raises ``Aborted``.

A send completes when the receiver has received the message. A send of up to 8 KiB (on one host up to 64 KiB)
may complete earlier: while the receiving rank waits for any operation, Rueda can store the message there until the receive is called. If the receive
then does not fit, only the receiver raises ``Mismatch``, and the sender logs a line. Two ranks may both send a small
message first and receive afterwards. To do this with larger messages, both ranks must use send_async().
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
    """Starts a send() and returns a handle at once. The tensor must not change before the handle has completed.

    Example::

        sent = rueda.send_async(activations, peer=1)
        rueda.receive(gradients, peer=1)
        sent.wait()
    """
    return _native.send_async(tensor, peer, tag, process_set.process_set_id)


@blocking_form_of(send_async)
def send() -> None:
    """Sends a tensor to one rank, which must receive it with the same tag.

    Args:
        tensor: a tensor of any shape; it may have no elements. If it is not contiguous, it is copied.
        peer: the rank that receives the message. It may be this rank, if another thread or a pending handle receives
            it.
        tag: any 32-bit number. It distinguishes messages between two ranks.

    Example::

        rueda.send(activations, peer=rueda.rank() + 1, tag=step)
    """


def receive_async(
    out: Tensor, peer: int | None = None, tag: int = 0, *, process_set: ProcessSet = global_process_set
) -> Handle[int]:
    """Starts a receive() and returns a handle at once.

    Example::

        handles = [rueda.receive_async(parts[rank], rank) for rank in range(rueda.size())]
    """
    return _native.receive_async(out, peer, tag, process_set.process_set_id)


@blocking_form_of(receive_async)
def receive() -> None:
    """Receives a tensor from one rank, or from any rank that sends a tensor with the tag.

    Args:
        out: contiguous and writable memory, with the sender's dtype and number of elements. After an error its contents
            are undefined.
        peer: the rank that sends. With None, any rank may send.
        tag: the tag that the sender gave to send().

    Returns:
        The rank that sent the tensor.

    Example::

        sender = rueda.receive(activations, tag=step)
    """
