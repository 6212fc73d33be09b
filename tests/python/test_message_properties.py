# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Sends random messages between random ranks, in the job and in process sets, while other operations run. Many sizes are
just below or above a limit: of messages that are sent whole (8 KiB between hosts, 64 KiB on one host), and of the
stretches in which a host's rings pass on a message (24 KiB). Some receives accept any rank. Each message must arrive
once, with the right bytes, in the order of its channel. Runs on any layout of hosts."""

import random
import unittest
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import rueda
from hypothesis import given
from hypothesis import strategies as st
from properties import JobTest, same_everywhere, seeds

WHOLE_BETWEEN_HOSTS = 8 << 10  # the largest message in bytes that is sent whole; a longer one is announced first
WHOLE_ON_ONE_HOST = 64 << 10
STRETCH = 24 << 10
LIMITS = [WHOLE_BETWEEN_HOSTS, STRETCH, WHOLE_ON_ONE_HOST]
SIZES = [0, 1, 7, 100, *(limit + more for limit in LIMITS for more in (-1, 0, 1)), 300_000]
DTYPES = ["uint8", "int16", "float32", "float64"]
TAGS = [0, 1, -(2**31), 2**31 - 1]
#: For these tags, receives accept any sender. All messages with such a tag to one rank have the same size, because any
#: of them may arrive first.
TAGS_OF_ANYBODY = [100, 101]


@dataclass(frozen=True)
class Message:
    number: int
    set_index: int
    source: int
    target: int
    tag: int
    dtype: str
    count: int

    @property
    def channel(self):
        return self.set_index, self.source, self.target, self.tag

    @property
    def inbox(self):
        """Returns a key that is the same for all receives that may get this message. Receives with a tag of
        TAGS_OF_ANYBODY accept any sender, so their key does not contain the sender."""
        return self.channel if self.tag not in TAGS_OF_ANYBODY else (self.set_index, None, self.target, self.tag)

    def tensor(self) -> np.ndarray:
        return (
            np.random.default_rng(self.number).integers(0, 256, self.count * 8, np.uint8)[: self.bytes].view(self.dtype)
        )

    @property
    def bytes(self) -> int:
        return self.count * np.dtype(self.dtype).itemsize


class MessageProperties(JobTest):
    def plan(self, seed: int, count: int, small: bool) -> list[Message]:
        """Draws all messages. Every rank draws the same list."""
        same = random.Random(seed)
        kinds = {}
        messages = []
        for number in range(count):
            set_index = same.randrange(len(self.sets))
            members = self.sets[set_index].ranks
            source, target, tag = same.choice(members), same.choice(members), same.choice(TAGS + TAGS_OF_ANYBODY)
            size = same.choice([size for size in SIZES if not small or size <= WHOLE_BETWEEN_HOSTS])
            dtype = same.choice(DTYPES)
            kind = dtype, size // np.dtype(dtype).itemsize
            if tag in TAGS_OF_ANYBODY:
                kind = kinds.setdefault((set_index, target, tag), kind)
            messages.append(Message(1000 * seed + number, set_index, source, target, tag, *kind))
        return messages

    @staticmethod
    def shuffled(messages, own):
        """Returns the messages in this rank's own order. The messages of a channel keep their order."""
        queues = defaultdict(list)
        for message in messages:
            queues[message.channel].append(message)
        order = [channel for channel, queue in queues.items() for _ in queue]
        own.shuffle(order)
        return [queues[channel].pop(0) for channel in order]

    def send(self, message, blocking):
        send = rueda.send if blocking else rueda.send_async
        return send(message.tensor(), message.target, message.tag, process_set=self.sets[message.set_index])

    def receive(self, message, blocking):
        """Starts a receive into new memory. Returns three values: the message's inbox (the key of its receives), the
        result of receive() or receive_async() (the sender or a handle), and the memory."""
        out = np.zeros(message.count, message.dtype)
        peer = None if message.tag in TAGS_OF_ANYBODY else message.source
        receive = rueda.receive if blocking else rueda.receive_async
        return message.inbox, receive(out, peer, message.tag, process_set=self.sets[message.set_index]), out

    def compare(self, messages, received):
        """Checks the received messages: (inbox, sender, memory) in the order of the calls."""
        expected = defaultdict(list)
        for message in messages:
            expected[message.inbox, message.source].append(message)
        for inbox, sender, tensor in received:
            message = expected[inbox, sender].pop(0)  # a sender's messages arrive in the order of its calls
            self.assertEqual(tensor.tobytes(), message.tensor().tobytes())
        self.assertEqual(sum(map(len, expected.values())), 0)

    @same_everywhere(60)
    @given(
        st.sampled_from(["all at once", "receives first", "sends first", "blocking sends of small ones first"]),
        st.integers(1, 40),
        seeds,
    )
    def check(self, way, count, seed):
        me = rueda.rank()
        own = random.Random(seed + me)
        blocking_sends = way.startswith("blocking")
        # Blocking sends are limited to what a receiver stores: 256 KiB from each sender.
        messages = self.plan(seed, min(count, 30) if blocking_sends else count, small=blocking_sends)
        mine = [message for message in messages if message.target == me]
        sends = self.shuffled([message for message in messages if message.source == me], own)
        # Several receives may accept messages from any sender with the same tag. Such receives have the same size, so
        # it does not matter which of them gets which message.
        receives = self.shuffled(mine, own)
        received, handles = [], []
        if way == "all at once":
            steps = [(True, message) for message in sends] + [(False, message) for message in receives]
            sends_left, receives_left = iter(sends), iter(receives)
            own.shuffle(steps)
            for is_send, _ in steps:
                if is_send:
                    handles.append(self.send(next(sends_left), blocking=False))
                else:
                    received.append(self.receive(next(receives_left), blocking=False))
        elif way == "receives first":  # all receives are started first, so no send waits forever
            received = [self.receive(message, blocking=False) for message in receives]
            for message in sends:
                if own.random() < 0.5:
                    handles.append(self.send(message, blocking=False))
                else:
                    self.send(message, blocking=True)
        else:
            handles = [self.send(message, blocking_sends) for message in sends]
            handles = [handle for handle in handles if handle is not None]
            for message in receives:
                received.append(self.receive(message, blocking=own.random() < 0.5))
        total = rueda.allreduce(np.ones(3), "among them", rueda.Sum)
        np.testing.assert_array_equal(total, np.full(3, rueda.size()))
        own.shuffle(handles)
        for handle in handles:
            handle.wait()
        ended = [(inbox, end if isinstance(end, int) else end.result(), out) for inbox, end, out in received]
        # A small send completes before its receive. Without this barrier, a receive from any rank could get a message
        # of the next example.
        rueda.barrier()
        self.compare(mine, ended)

    def test_each_message_arrives_once_and_in_order(self):
        self.check()

    @same_everywhere(15)
    @given(st.integers(0, 5), st.integers(0, 5), st.sampled_from(SIZES), seeds)
    def check_mismatches(self, before, after, size, seed):
        """One message does not fit its receive: both ranks must get the same error text, and the messages before and
        after it must arrive."""
        me, last = rueda.rank(), rueda.size() - 1
        fits = [np.random.default_rng([seed, i]).integers(0, 9, size // 8) for i in range(before + 1 + after)]
        outs = [np.zeros(size // 8 + (i == before), int) for i in range(len(fits))]
        receives = [rueda.receive_async(out, 0, 5) for out in outs] if me == last else []
        # The receives start before the messages arrive, so that the senders also get the error.
        rueda.barrier()
        sends = [rueda.send_async(tensor, last, 5) for tensor in fits] if me == 0 else []
        texts = []
        for i, handle in enumerate([*sends, *receives]):
            if i == before:
                with self.assertRaises(rueda.Mismatch) as caught:
                    handle.wait()
                texts.append(str(caught.exception))
            else:
                handle.wait()
        for i, out in enumerate(outs):
            if me == last and i != before:
                np.testing.assert_array_equal(out, fits[i])
        told = [text for texts in rueda.allgather_object(texts) for text in texts]
        bytes_ = size // 8 * 8
        about = f"rank 0 sends {bytes_} bytes of int64; rank {last} receives {bytes_ + 8} bytes of int64"
        self.assertEqual(len(told), 2)
        for text in told:
            self.assertIn(about, text)

    def test_one_that_does_not_fit(self):
        if rueda.size() > 1:
            self.check_mismatches()


if __name__ == "__main__":
    unittest.main()
