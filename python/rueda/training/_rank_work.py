# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Long work of a program that is no training step: on rank 0 alone, or on all ranks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from rueda import _lifecycle, _messages, _objects
from rueda._tensors import numpy
from rueda.errors import Internal, RuedaError, Timeout

T = TypeVar("T")

_logger = logging.getLogger("rueda.training")
# The tags of this module's messages. A program should use other tags.
_ENDED, _WAITED = 0x7275_6564, 0x7275_6565
# How long rank 0 waits for the answers of the other ranks. A thread of Rueda answers, so an answer takes milliseconds.
_ANSWER_SECONDS = 1.0


def on_rank_zero(
    what: str,
    body: Callable[[], T],
    *,
    share: bool = False,
    warn_after: float = 1.0,
    warn: Callable[[str], None] | None = None,
) -> T | None:
    """Runs long work on rank 0, for example an evaluation. All ranks must make the call.

    The other ranks go on at once. When they next need rank 0, they wait for it. While rank 0 works, stall reports and
    ``rueda top`` say that rank 0 is busy with ``what`` and for how long. After the work, rank 0 asks the other ranks how
    long an operation of theirs has waited. If it was long, rank 0 prints one line that says so.

    Args:
        what: what the work is, in a few words, for example "evaluate".
        body: is called on rank 0, and must not call operations on the ranks.
        share: True gives the result to all ranks, so all wait for it. The result must be an object that pickle can send.
        warn_after: the number of seconds of waiting from which rank 0 prints the line.
        warn: is called with the line; by default the logger "rueda.training" gets a warning.

    Returns:
        The result of ``body`` on rank 0, and on all ranks with ``share``. Otherwise None.

    Raises:
        The exception of ``body``, on rank 0. With ``share``, the other ranks raise it, too.

    Example::

        accuracy = rueda.training.on_rank_zero("evaluate", lambda: evaluate(model), share=True)
    """
    result: Any = None
    failure: Exception | None = None
    if _lifecycle.rank() == 0:
        began = time.monotonic()
        try:
            with _lifecycle.busy(what):
                result = body()
        except Exception as error:
            if not share:
                raise
            failure = error  # the other ranks wait for the result, so they must get the error
        _report_waits(what, time.monotonic() - began, warn_after, warn or _logger.warning)
    else:
        _answer_at_the_end()
    if share:
        result, failure = _objects.broadcast_object((result, failure), 0, "rueda.training.on_rank_zero")
        if failure is not None:
            raise failure
    return result  # type: ignore[no-any-return]


def _answer_at_the_end() -> None:
    """Makes a thread of Rueda tell rank 0, when its work has ended, how long an operation of this rank has waited."""
    np = numpy()
    wants_answer = np.zeros(1, np.uint8)

    def answer(handle: Any) -> None:
        try:
            handle.wait()
            if not wants_answer[0]:
                return
            waited = float(_lifecycle.metrics()["rueda_oldest_pending_operation_seconds"])
            _messages.send_async(np.array([waited]), peer=0, tag=_WAITED)
        except RuedaError:
            pass  # the job has ended, so nobody needs the answer

    _messages.receive_async(wants_answer, peer=0, tag=_ENDED).add_done_callback(answer)


def _report_waits(what: str, seconds: float, warn_after: float, warn: Callable[[str], None]) -> None:
    """Asks the other ranks how long they have waited, and warns if it was long."""
    np = numpy()
    others = range(1, _lifecycle.size())
    wants_answers = seconds >= warn_after  # otherwise no rank can have waited that long
    for rank in others:
        _messages.send_async(np.array([wants_answers], np.uint8), peer=rank, tag=_ENDED)
    if not wants_answers:
        return
    waits = {rank: np.zeros(1) for rank in others}
    # Messages of two ranks arrive in order, so a late answer does not take the place of a later one.
    handles = {rank: _messages.receive_async(waits[rank], peer=rank, tag=_WAITED) for rank in others}
    deadline = time.monotonic() + _ANSWER_SECONDS
    answered = {}
    for rank, handle in handles.items():
        try:
            handle.wait(timeout=max(deadline - time.monotonic(), 0))
            answered[rank] = min(float(waits[rank][0]), seconds)
        except Timeout:
            continue  # the rank has not called on_rank_zero() yet, so it has not waited for it
    waiting = {rank: waited for rank, waited in answered.items() if waited >= warn_after}
    if waiting:
        longest = max(waiting, key=waiting.__getitem__)
        count = f"{len(waiting)} of {len(others)} other rank{'s' if len(others) > 1 else ''} waited"
        warn(
            f"Rank 0 worked on '{what}' for {seconds:.1f} s, and {count} for it; rank {longest} waited for "
            f"{waiting[longest]:.1f} s. Divide the work with on_all_ranks(), do it less often, or do it in another program"
        )


def on_all_ranks(what: str, body: Callable[[], T]) -> list[T]:
    """Runs work on every rank, for example the evaluation of this rank's share, and gives all results to all ranks. All
    ranks must make the call.

    While a rank works, stall reports and ``rueda top`` say that it is busy with ``what``.

    Args:
        what: what the work is, in a few words.
        body: is called on every rank. It may call operations on the ranks if all ranks call the same ones.

    Returns:
        The results of all ranks, in the order of the ranks. They must be objects that pickle can send.

    Raises:
        If ``body`` fails on some ranks, these raise its exception. The others raise Internal, which names the first of
        these ranks and its error.

    Example::

        correct = sum(rueda.training.on_all_ranks("evaluate", lambda: count_correct(rueda.training.shard(len(test)))))
    """
    result: Any = None
    failure: Exception | None = None
    try:
        with _lifecycle.busy(what):
            result = body()
    except Exception as error:  # any exception: the other ranks must be told
        failure = error
    text = None if failure is None else f"{type(failure).__name__}: {failure}"
    everyones = _objects.allgather_object((result, text), "rueda.training.on_all_ranks")
    if failure is not None:
        raise failure
    for rank, (_, problem) in enumerate(everyones):
        if problem is not None:
            raise Internal(f"'{what}' failed on rank {rank}: {problem}")
    return [each for each, _ in everyones]
