# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests hashing and vocabularies, also in pipelines and with agreement of the ranks. Each rank has its own files."""

import collections
import pathlib
import random
import tempfile
import threading
import unittest

import numpy as np
import rueda
import rueda.training
from rueda import data


def setUpModule():
    rueda.init()


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, content):
        (self.folder / name).write_text(content, encoding="utf-8")
        return self.folder / name


class Hashing(WithFolder):
    def test_the_hash_is_xxh64(self):
        # The expected hashes are from libxxhash 0.8.1. A text's bucket is hash * buckets / 2^64.
        hashes = {"": 0xEF46DB3751D8E999, "abc": 0x44BC2CF5AD770999, "68fd1e64": 0x5D3CCD85C9C22FE4}
        buckets = data.hash_texts(list(hashes), 2**40)
        self.assertEqual(buckets.tolist(), [value >> 24 for value in hashes.values()])
        self.assertEqual(data.hash_texts(["abc"], 2**40, seed=42).tolist(), [0x13C1D910702770E6 >> 24])

    def test_all_forms_of_texts_give_the_same_buckets(self):
        texts = ["1", "-20", "", "déjà"]
        expected = data.hash_texts(texts, 1000)
        self.assertEqual(expected.dtype, np.int64)
        joined = "".join(texts).encode()
        offsets = np.cumsum([0] + [len(text.encode()) for text in texts])
        ragged = data.Ragged(np.frombuffer(joined, "uint8"), offsets)
        for form in (ragged, [text.encode() for text in texts], np.array(texts), np.array(texts, object)):
            np.testing.assert_array_equal(data.hash_texts(form, 1000), expected, strict=True)
        np.testing.assert_array_equal(data.hash_texts(np.array([[1], [-20]]), 1000), expected[:2].reshape(2, 1))
        np.testing.assert_array_equal(data.hash_texts(np.array([1, -20], "int8"), 1000), expected[:2])
        pairs = data.Ragged(ragged.values, ragged.offsets, width=2)
        np.testing.assert_array_equal(data.hash_texts(pairs, 1000), expected.reshape(2, 2))
        numbers = data.hash_texts(data.Ragged(np.array([1, -20, 1]), np.array([0, 1, 1, 3])), 1000)
        self.assertEqual([row.tolist() for row in numbers], [[expected[0]], [], [expected[1], expected[0]]])
        self.assertEqual(data.hash_texts([], 1000).shape, (0,))
        for form in ([1, -20], [np.int8(1), -20], np.array([1, -20], object)):
            np.testing.assert_array_equal(data.hash_texts(form, 1000), expected[:2], strict=True)
        np.testing.assert_array_equal(data.hash_texts([bytearray(b"1"), memoryview(b"-20")], 1000), expected[:2])
        self.assertEqual(data.Vocabulary(["3", "7"]).look_up([7, 3, 4]).tolist(), [1, 0, 2])

    def test_wrong_arguments(self):
        for texts, buckets, seed, message in (
            (["a"], 0, 0, "buckets is 0; it must be 1"),
            (["a"], 10, -1, "seed is -1"),
            (["a"], 1.5, 0, "buckets is 1.5; expected a whole number"),
            (np.zeros(3), 10, 0, "dtype float64; expected texts or integers"),
            (["a", 3], 10, 0, r"element 1 is 3 \(int\); expected str or bytes"),
            ([3, "a"], 10, 0, r"element 0 is 3 \(int\)"),
            ([True], 10, 0, r"element 0 is True \(bool\)"),
            ([2**63], 10, 0, "expected integers of at most 64 bits"),
            ("text", 10, 0, "'text' is one text; expected a list"),
            (b"text", 10, 0, "b'text' is one text; expected a list"),
            (data.Ragged(np.zeros(3, "uint8"), np.array([0, 4])), 10, 0, "the last offset is 4"),
        ):
            with self.subTest(message=message), self.assertRaisesRegex(rueda.InvalidArgument, message):
                data.hash_texts(texts, buckets, seed)


class Frozen(WithFolder):
    def test_terms_of_a_file_and_of_a_list(self):
        path = self.write("colours.txt", "red\r\ngreen\nbleu foncé")
        for colours in (data.Vocabulary(path), data.Vocabulary(["red", "green", "bleu foncé"])):
            self.assertEqual((len(colours), colours.ids, colours.grows), (3, 4, False))
            self.assertEqual(colours.terms(), ["red", "green", "bleu foncé"])
            found = colours.look_up(["green", "pink", "bleu foncé", "", "red"])
            np.testing.assert_array_equal(found, np.array([1, 3, 2, 3, 0]), strict=True)
        several = data.Vocabulary(path, unknown_buckets=7, most_terms=10, seed=5)
        self.assertEqual(several.look_up(["pink"]).tolist(), [10 + data.hash_texts(["pink"], 7, seed=5)[0]])
        self.assertEqual(data.Vocabulary(path, unknown_buckets=0).look_up(["pink"]).tolist(), [-1])
        self.assertEqual(data.Vocabulary(["7", "-3"]).look_up(np.array([-3, 7, 8])).tolist(), [1, 0, 2])

    def test_a_wrong_file(self):
        for content, message in (
            ("a\nb\na", r"line 3: 'a' is already line 1"),
            ("a\n\nb", "line 2: it is empty"),
            ("", "there is no term"),
        ):
            with self.subTest(content=content), self.assertRaisesRegex(rueda.InvalidArgument, message):
                data.Vocabulary(self.write("terms.txt", content))
        with self.assertRaisesRegex(rueda.InvalidArgument, "/there/is/none"):
            data.Vocabulary("/there/is/none")
        with self.assertRaisesRegex(rueda.InvalidArgument, "most_terms is 0"):
            data.Vocabulary(grows=True)
        with self.assertRaisesRegex(rueda.InvalidArgument, "there is no term 1"):
            data.Vocabulary(["a"]).term(1)

    def test_stages_of_a_pipeline(self):
        rows = "".join(f"w{number % 7},w{number % 5}\n" for number in range(100))
        path = self.write("rows.csv", rows)
        columns = [data.CsvColumn("a", "uint8"), data.CsvColumn("b", "uint8")]
        vocabulary = data.Vocabulary(["w3", "w0"])
        expected_a = [{0: 1, 3: 0}.get(number % 7, 2) for number in range(100)]
        expected_b = data.hash_texts([f"w{number % 5}" for number in range(100)], 50, 9).tolist()
        stages = [data.LookUp("a", vocabulary), data.Hash(["b"], 50, 9)]
        # The stages of the first list run in the library's threads. The second list contains a Python function, so its
        # stages run in the trainer's loop.
        for maps in (stages, [lambda batch: None, *stages]):
            pipeline = data.Pipeline(path, data.Csv(columns, header=False), 16, maps=maps)
            batches = list(pipeline)
            self.assertEqual(np.concatenate([batch["a"] for batch in batches]).tolist(), expected_a)
            self.assertEqual(np.concatenate([batch["b"] for batch in batches]).tolist(), expected_b)
            self.assertEqual(batches[0]["a"].dtype, np.int64)
        wrong = data.Pipeline(path, data.Csv(columns, header=False), 16, maps=[data.Hash("c", 5)])
        with self.assertRaisesRegex(rueda.InvalidArgument, "there is no column 'c'"):
            list(wrong)


class Growing(WithFolder):
    def test_ranks_agree_on_the_same_terms(self):
        rank, size = rueda.rank(), rueda.size()
        generator = random.Random(5)  # all ranks draw the same texts, and each rank takes its share of them
        texts = [f"t{min(generator.randrange(60), generator.randrange(60))}" for _ in range(4000)]
        vocabulary = data.Vocabulary(most_terms=40, grows=True, min_count=20)
        added = 0
        for part in range(4):
            mine = texts[part * 1000 : (part + 1) * 1000][rank::size]
            vocabulary.look_up_and_count(mine)
            added += vocabulary.agree()
        terms = vocabulary.terms()
        self.assertEqual(len(terms), added)
        # In the first agreement, the terms are ordered by their counts, and then by their bytes.
        first = sorted(collections.Counter(texts[:1000]).items(), key=lambda item: (-item[1], item[0]))
        frequent = [text for text, count in first if count >= 20]
        self.assertEqual(terms[: len(frequent)], frequent)
        self.assertEqual(rueda.allgather_object(terms), [terms] * size)
        states = rueda.allgather_object(vocabulary.state_dict()["vocabulary"].tobytes())
        self.assertEqual(len(set(states)), 1)
        # One process that counts all texts must find the same terms.
        alone = data.Vocabulary(most_terms=40, grows=True, min_count=20)
        for part in range(4):
            if rank == 0:
                alone.look_up_and_count(texts[part * 1000 : (part + 1) * 1000])
            alone.agree()
        self.assertEqual(alone.terms(), terms)

    def test_different_vocabularies_are_an_error_on_all_ranks(self):
        if rueda.size() == 1:
            self.skipTest("needs two ranks")
        vocabulary = data.Vocabulary(["other" if rueda.rank() == 1 else "one"], most_terms=5, grows=True)
        with self.assertRaisesRegex(rueda.InvalidArgument, "the vocabulary of rank 1 differs from that of rank 0"):
            vocabulary.agree()

    def test_no_count_is_lost_while_another_thread_counts(self):
        rounds = 20
        vocabulary = data.Vocabulary(most_terms=1000, grows=True, min_count=10**9)
        done = threading.Event()
        counted = 0

        def count():
            nonlocal counted
            while not done.is_set():
                vocabulary.look_up_and_count(["a"])
                counted += 1

        thread = threading.Thread(target=count)
        thread.start()
        try:
            for _round in range(rounds):
                vocabulary.agree()
        finally:
            done.set()
            thread.join()
        vocabulary.agree()
        total = int(rueda.allgather(np.array([counted])).sum())
        text = vocabulary.state_dict()["vocabulary"].tobytes().decode()
        self.assertEqual(
            text, f"rueda vocabulary 1\n1000 1 0 1 0 {min(total, 1)}\n" + (f"{total} a\n" if total else "")
        )

    def test_a_checkpoint_has_the_state(self):
        folder = rueda.broadcast_object(str(self.folder), 0)
        manager = rueda.training.CheckpointManager(folder)
        vocabulary = data.Vocabulary(most_terms=5, grows=True, min_count=2)
        if rueda.rank() == 0:
            vocabulary.look_up_and_count(["a", "a", "b", "déjà"])
            # The state contains the result of the last agreement. The counts since then stay in the vocabulary.
            text = vocabulary.state_dict()["vocabulary"].tobytes().decode()
            self.assertEqual(text, "rueda vocabulary 1\n5 1 0 1 0 0\n")
        vocabulary.agree()
        manager.save(1, {"w": np.zeros(2)}, {"terms": vocabulary})
        manager.wait()
        rueda.barrier()
        resumed = data.Vocabulary(most_terms=5, grows=True, min_count=2)
        manager.restore({"w": np.zeros(2)}, {"terms": resumed})
        self.assertEqual(resumed.terms(), ["a"])
        if rueda.rank() == 0:
            resumed.look_up_and_count(["b"])
        resumed.agree()
        self.assertEqual(resumed.terms(), ["a", "b"])
        with self.assertRaisesRegex(rueda.InvalidArgument, "most_terms = 5"):
            data.Vocabulary(most_terms=6, grows=True).load_state_dict(vocabulary.state_dict())
        with self.assertRaisesRegex(rueda.InvalidArgument, "state_dict"):
            resumed.load_state_dict({})
        rueda.barrier()

    def test_padding_is_not_counted(self):
        path = self.write("rows.csv", "w0,7\nw1,8\nw1,8\nw2,8\n")
        for kind in ("uint8", "int64"):  # padding is an empty text, or 0
            columns = data.Csv([data.CsvColumn("a", "uint8"), data.CsvColumn("b", kind)], header=False)
            for size in (1, 2, 3):
                vocabulary = data.Vocabulary(["7"], most_terms=9, grows=True)
                stage = data.LookUp(["a", "b"], vocabulary)
                for rank in range(size):  # this process simulates all ranks, one after another
                    options = {"rank": rank, "size": size, "remainder": "pad", "weights": "counts"}
                    batches = list(data.Pipeline(path, columns, 3, maps=[stage], **options))
                    share = 3 * (rank + 1) // size - 3 * rank // size
                    self.assertEqual([len(batch["b"]) for batch in batches], [share, share])
                    for batch in batches:
                        self.assertEqual(batch["a"].tolist(), [9 if count else 0 for count in batch["counts"]])
                vocabulary.agree()
                self.assertEqual(vocabulary.terms(), ["7", "8", "w1", "w0", "w2"])

    def test_the_loop_looks_up_in_the_order_of_the_batches(self):
        path = self.write("rows.csv", "".join(f"w{number // 10}\n" for number in range(100)))
        format = data.Csv([data.CsvColumn("a", "uint8")], header=False)
        vocabulary = data.Vocabulary(most_terms=100, grows=True)
        stage = data.LookUp("a", vocabulary)
        seen = []
        for batch in data.Pipeline(path, format, 10, maps=[stage], prefetch=8):
            seen.append(set(batch["a"].tolist()))
            if len(seen) == 3:
                # After this agreement, the text of the next batch must still be unknown, although that batch may have
                # been prepared before the agreement.
                vocabulary.agree()
        self.assertEqual(seen, [{100}] * 10)
        vocabulary.agree()
        self.assertEqual(vocabulary.terms(), [f"w{number}" for number in range(10)])
        batches = data.Pipeline(path, format, 10, maps=[stage])
        self.assertEqual([batch["a"][0] for batch in batches], list(range(10)))
        with self.assertRaisesRegex(rueda.InvalidArgument, "maps.0. looks up texts in a vocabulary that grows"):
            data.Pipeline(path, format, 10, maps=[stage], map_ahead=2)
        evaluation = data.LookUp("a", vocabulary, count_unknown=False)
        next(iter(data.Pipeline(self.write("more.csv", "new\n"), format, 1, maps=[evaluation])))
        self.assertEqual(vocabulary.agree(), 0)

    def test_a_vocabulary_is_saved_and_frozen(self):
        vocabulary = data.Vocabulary(["x"], most_terms=3, grows=True, most_unknown=2)
        vocabulary.look_up_and_count(["a", "b", "c", "c"])
        self.assertEqual(vocabulary.left_out, 2)
        vocabulary.agree()
        vocabulary.save(self.folder / "terms.txt")
        self.assertEqual((self.folder / "terms.txt").read_text(), "x\na\nb\n")
        vocabulary.freeze()
        self.assertFalse(vocabulary.grows)
        self.assertEqual(vocabulary.look_up_and_count(["b", "d"]).tolist(), [2, 3])
        self.assertEqual(data.Vocabulary(self.folder / "terms.txt").terms(), ["x", "a", "b"])


if __name__ == "__main__":
    unittest.main()
