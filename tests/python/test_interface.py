# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests the public package: every function has documentation with an example, the constants equal those of the C
interface, and the stub file is complete."""

import ast
import enum
import inspect
import os
import pathlib
import re
import unittest

import rueda

ROOT = pathlib.Path(os.environ["RUEDA_SOURCE"])
HEADER = (ROOT / "include/rueda/rueda.h").read_text(encoding="utf-8")


def is_plain_data(thing: object) -> bool:
    return isinstance(thing, enum.Enum) or (inspect.isclass(thing) and issubclass(thing, Exception | enum.Enum))


class Interface(unittest.TestCase):
    def test_everything_has_an_example(self):
        for name in rueda.__all__:
            thing = getattr(rueda, name)
            if not is_plain_data(thing):
                with self.subTest(name=name):
                    self.assertIn("Example::\n\n    ", inspect.getdoc(thing) or "")

    def test_examples_are_python(self):
        for name in rueda.__all__:
            for block in re.findall(r"Example::\n\n((?:    .*\n?|\n)+)", inspect.getdoc(getattr(rueda, name)) or ""):
                with self.subTest(name=name):
                    ast.parse("async def example():\n" + block)

    def test_asynchronous_forms_take_the_same_arguments(self):
        for name in rueda.__all__:
            if "_async" in name:
                with self.subTest(name=name):
                    blocking = getattr(rueda, name.replace("_async", ""))
                    asynchronous = inspect.signature(getattr(rueda, name)).parameters
                    self.assertEqual(list(asynchronous.values()), list(inspect.signature(blocking).parameters.values()))

    def test_blocking_forms_show_their_result(self):
        shown = {
            name: inspect.signature(getattr(rueda, name)).return_annotation for name in ("allreduce", "gather", "send")
        }
        self.assertEqual(shown, {"allreduce": "Array", "gather": "Result | None", "send": "None"})
        self.assertEqual((rueda.gather.__name__, rueda.gather.__module__), ("gather", "rueda._roots"))

    def test_numbers_are_those_of_the_c_interface(self):
        for kind, members in (
            ("rueda_dtype", {dtype.name.upper(): dtype.value for dtype in rueda.DType}),
            ("rueda_reduce_op", {op.name.upper(): op.value for op in rueda.ReduceOp}),
            ("rueda_compression", {f"COMPRESSION_{way.name.upper()}": way.value for way in rueda.Compression}),
        ):
            body = re.search(rf"enum {kind} {{(.*?)}};", HEADER, re.DOTALL).group(1)
            declared = {name: int(number) for name, number in re.findall(r"RUEDA_(\w+)\s*=\s*(\d+)", body)}
            self.assertEqual(members, declared)
        codes = re.search(r"enum rueda_status {(.*?)};", HEADER, re.DOTALL).group(1)
        for name, number in re.findall(r"RUEDA_(\w+) = (\d+)", codes):
            if name != "OK":
                self.assertEqual(getattr(rueda, name.title().replace("_", "")).code, int(number))

    def test_the_stub_names_what_the_module_has(self):
        stub = ast.parse((ROOT / "python/rueda/_native.pyi").read_text(encoding="utf-8"))
        declared = {node.name for node in stub.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        module = {name for name in dir(rueda._native) if not name.startswith("__") and name != "version"}
        self.assertEqual(declared, module)

    def test_version(self):
        self.assertRegex(rueda.__version__, r"^\d+\.\d+\.\d+$")
        self.assertIn(f'RUEDA_VERSION "{rueda.__version__}"', (ROOT / "include/rueda/version.h").read_text())


if __name__ == "__main__":
    unittest.main()
