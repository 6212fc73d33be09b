# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Checks that the source tree follows its rules, and that the rules find violations."""

import collections
import os
import pathlib
import re
import unittest

import tree

ROOT = pathlib.Path(os.environ["RUEDA_SOURCE"])


def read(path: pathlib.PurePosixPath) -> str:
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


class Tree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = tree.files(ROOT)

    def test_includes_go_one_way(self):
        code = [path for path in self.files if path.suffix in tree.CODE]
        self.assertGreater(len(code), 20)
        complaints = [
            text
            for path in code
            for text in tree.include_complaints(path, read(path), lambda name: (ROOT / name).is_file())
        ]
        self.assertEqual(complaints, [])

    def test_every_source_names_its_license(self):
        without = []
        for path in self.files:
            text = read(path)
            if tree.needs_spdx(path, text.partition("\n")[0]) and not tree.has_spdx(text):
                without.append(str(path))
        self.assertEqual(without, [], f"the first lines should say: {' and '.join(tree.SPDX)}")

    def test_every_room_and_folder_of_it_has_a_readme(self):
        folders = [room for room in tree.ROOMS if room not in ("include", "examples")]
        folders += [f"{room}/{folder}" for room, layers in tree.LAYERS.items() for folder in layers if folder]
        without = [folder for folder in folders if not (ROOT / folder / "README.md").is_file()]
        self.assertEqual(without, [])

    def test_every_folder_of_a_room_with_three_sources_has_a_readme(self):
        rooms = tree.ROOMS.keys() - {"examples"}
        sources = [path for path in self.files if path.parts[0] in rooms and path.suffix in {*tree.CODE, ".py"}]
        counts = collections.Counter(path.parent for path in sources)
        large = [folder for folder, count in counts.items() if count >= 3]
        self.assertGreater(len(large), 50)
        self.assertEqual([str(folder) for folder in large if not (ROOT / folder / "README.md").is_file()], [])

    def test_links_in_documents_lead_somewhere(self):
        broken = []
        for path in self.files:
            if path.suffix == ".md":
                for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", read(path)):
                    if not (ROOT / path.parent / target).exists():
                        broken.append(f"{path}: {target}")
        self.assertEqual(broken, [])

    def test_documents_show_the_programs_as_they_are(self):
        shown = 0
        documents = (
            "operations.md",
            "cpp.md",
            "checkpoints.md",
            "python.md",
            "compression.md",
            "pytorch.md",
            "migrating-from-horovod.md",
            "pytorch-distributed.md",
            "frameworks.md",
            "gpu.md",
            "training.md",
            "data.md",
            "elastic.md",
            "training-in-python.md",
        )
        for document in (*(f"docs/{name}" for name in documents), "README.md"):
            text = read(pathlib.PurePosixPath(document))
            blocks = re.findall(r"<!-- (examples/\S+) -->\n```(?:cpp|python)\n(.*?)```", text, re.DOTALL)
            for name, block in blocks:
                with self.subTest(document=document, program=name):
                    program = (ROOT / name).read_text(encoding="utf-8").split("\n", 2)[2]
                    self.assertEqual(block, program)
                shown += 1
            programs = text.count("```cpp") + text.count("```python")
            self.assertEqual(len(blocks), programs, f"a program in {document} that no test compiles")
        self.assertGreaterEqual(shown, len(list(ROOT.glob("examples/snippets/**/*.[cp][py]*"))))

    def test_examples_are_in_their_list(self):
        for folder in sorted({path.parent for path in self.files if path.match("examples/pytorch/*.py")}):
            listed = re.findall(r"^\| `(\w+\.py)` \|", read(folder / "README.md"), re.MULTILINE)
            there = [path.name for path in self.files if path.parent == folder and path.suffix == ".py"]
            self.assertEqual(sorted(listed), sorted(there), f"{folder}/README.md")


class Rules(unittest.TestCase):
    TREE = {"base/text.hpp", "core/runtime/runtime.hpp", "core/negotiation/log.hpp", "include/rueda/rueda.h"}

    def complaints(self, path: str, text: str) -> list[str]:
        return tree.include_complaints(pathlib.PurePosixPath(path), text, self.TREE.__contains__)

    def test_downward_own_and_public_includes_are_fine(self):
        text = (
            '#include "base/text.hpp"\n#include "core/negotiation/log.hpp"\n#include "rueda/rueda.h"\n#include <map>\n'
        )
        self.assertEqual(self.complaints("core/runtime/runtime.cpp", text), [])

    def test_upward_includes_are_not(self):
        for room in ("base", "ops", "collectives", "launcher", "include/rueda", "examples/digits"):
            with self.subTest(room=room):
                self.assertEqual(len(self.complaints(f"{room}/a.hpp", '#include "core/runtime/runtime.hpp"\n')), 1)

    def test_brackets_do_not_hide_an_upward_include(self):
        self.assertEqual(len(self.complaints("base/a.hpp", "  #  include <core/runtime/runtime.hpp>\n")), 1)

    def test_public_headers_include_nothing_private(self):
        self.assertEqual(len(self.complaints("include/rueda/a.hpp", '#include "base/text.hpp"\n')), 1)

    def test_a_room_does_not_include_its_own_upper_part(self):
        self.assertEqual(len(self.complaints("core/negotiation/a.hpp", '#include "core/runtime/runtime.hpp"\n')), 1)

    def test_a_room_inside_a_room_has_rules_of_its_own(self):
        known = {"core/c_interface/guarded.hpp", "data/batch.hpp", "data/c_interface/text.hpp"}.__contains__
        for path, name, count in (
            ("data/c_interface/a.cpp", "core/c_interface/guarded.hpp", 0),
            ("data/c_interface/a.cpp", "data/batch.hpp", 0),
            ("data/c_interface/a.cpp", "data/c_interface/text.hpp", 0),
            ("data/formats/a.cpp", "core/c_interface/guarded.hpp", 1),
            ("data/formats/a.cpp", "data/c_interface/text.hpp", 1),
        ):
            with self.subTest(path=path, name=name):
                complaints = tree.include_complaints(pathlib.PurePosixPath(path), f'#include "{name}"\n', known)
                self.assertEqual(len(complaints), count)

    def test_a_folder_that_no_layer_names_is_not_fine(self):
        self.assertEqual(len(self.complaints("core/other/a.hpp", '#include "core/negotiation/log.hpp"\n')), 1)

    def test_strangers_do_not_include_each_other(self):
        known = {"collectives/host/arena/arena.hpp"}.__contains__
        path = pathlib.PurePosixPath("collectives/mpi/a.cpp")
        self.assertEqual(len(tree.include_complaints(path, '#include "collectives/host/arena/arena.hpp"\n', known)), 1)

    def test_relative_and_unknown_includes_are_not_fine(self):
        self.assertEqual(len(self.complaints("core/runtime/a.cpp", '#include "../negotiation/log.hpp"\n')), 1)
        self.assertEqual(len(self.complaints("core/runtime/a.cpp", '#include "runtime.hpp"\n')), 1)

    def test_license_lines(self):
        both = "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n# SPDX-FileCopyrightText: 2026 The Rueda authors\n"
        self.assertTrue(tree.has_spdx(both))
        self.assertFalse(tree.has_spdx(both.replace("Apache-2.0", "MIT")))
        self.assertFalse(tree.has_spdx("\n" * 10 + both))
        self.assertFalse(tree.has_spdx(both.replace("Apache-2.0\n#", "Apache-2.0")))
        self.assertTrue(tree.needs_spdx(pathlib.PurePosixPath("scripts/test"), "#!/usr/bin/env bash"))
        self.assertFalse(tree.needs_spdx(pathlib.PurePosixPath("README.md"), "# Rueda"))


if __name__ == "__main__":
    unittest.main()
