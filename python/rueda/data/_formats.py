# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Descriptions of sources and formats for the input pipeline."""

from __future__ import annotations

import dataclasses
import math
import operator
import os
from collections.abc import Iterable, Sequence
from typing import Any

from rueda.errors import InvalidArgument

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class Source:
    """Describes where samples come from. files(), fifo(), sagemaker_channel() and memory() return such objects. The files
    are opened later, by the pipeline.
    """

    description: dict[str, Any]
    content: bytes | None = dataclasses.field(default=None, repr=False)  #: the bytes of memory()


def _source(kind: str, compression: str, **place: Any) -> Source:
    return Source({"kind": kind, "compression": compression, **place})


def files(*patterns: Path, compression: str = "automatic") -> Source:
    """Returns a source: the files that match any of the patterns (see ``man 7 glob``), sorted by name. If a pattern
    matches no file, the pipeline raises an error.

    Args:
        patterns: for example "train-*.tfrecord".
        compression: "automatic" chooses by the end of the name (".gz" or ".zst"), "none", "gzip" or "zstd".

    Example::

        source = rueda.data.files("train-*.tfrecord", "more/*.tfrecord")
    """
    return _source("files", compression, patterns=[os.fspath(pattern) for pattern in patterns])


def fifo(path: Path, compression: str = "automatic") -> Source:
    """Returns a source: a named pipe. At most one process of a host may read a named pipe.

    Example::

        source = rueda.data.fifo("/tmp/samples")
    """
    return _source("fifo", compression, path=os.fspath(path))


def sagemaker_channel(channel: str, compression: str = "automatic") -> Source:
    """Returns a source: the FIFOs of a SageMaker channel in Pipe mode, one FIFO for each epoch.

    Example::

        source = rueda.data.sagemaker_channel("train")
    """
    return _source("sagemaker", compression, channel=channel)


def memory(name: str, content: bytes | bytearray | memoryview, compression: str = "none") -> Source:
    """Returns a source: bytes in this process. Each pipeline makes a copy of them.

    Args:
        name: the name that messages about these bytes show; not empty.
        content: the bytes of a file, for example of a file that the program has downloaded.
        compression: "none", "gzip" or "zstd"; "automatic" chooses by the end of the name.

    Example::

        source = rueda.data.memory("two rows", b"label,x\\n1,0.5\\n0,0.25\\n")
    """
    if not isinstance(content, bytes | bytearray | memoryview):
        raise InvalidArgument(
            f"memory: content is of type {type(content).__name__}; expected bytes; encode a text, for example with "
            'content.encode("utf-8")'
        )
    if not name:
        raise InvalidArgument("memory: name is empty; expected a name, which messages about these bytes show")
    source = _source("memory", compression, name=name)
    return dataclasses.replace(source, content=bytes(content))


def _missing(value: float | None) -> float | str | None:
    # JSON has no NaN and no infinity, so texts stand for them.
    return value if value is None or math.isfinite(value) else repr(float(value))


@dataclasses.dataclass(frozen=True)
class Feature:
    """One feature of a tf.train.Example, which becomes one column.

    Attributes:
        name: the name in the Example.
        dtype: "float32" for a float_list, "int64" for an int64_list, "uint8" for a bytes_list.
        length: the number of values in every sample. 0: the samples have different numbers of values, and the column
            is Ragged.
        missing: the value for samples that do not have this feature; only for numbers of fixed length. None: a sample
            without this feature is an error.

    Example::

        feature = rueda.data.Feature("ids", "int64", 26)
    """

    name: str
    dtype: str = "float32"
    length: int = 1
    missing: float | None = None


@dataclasses.dataclass(frozen=True)
class Examples:
    """TFRecord files whose records are tf.train.Example messages.

    Attributes:
        features: the features that become columns.
        check_data: whether the checksum of each record is checked.

    Example::

        format = rueda.data.Examples([rueda.data.Feature("label"), rueda.data.Feature("ids", "int64", 26)])
    """

    features: Sequence[Feature]
    check_data: bool = True

    def _options(self) -> dict[str, Any]:
        features = [{**dataclasses.asdict(each), "missing": _missing(each.missing)} for each in self.features]
        return {"type": "examples", "features": features, "check_data": self.check_data}


@dataclasses.dataclass(frozen=True)
class Libsvm:
    """Text files with a sample per line: ``label index:value index:value …``. The columns are "label", and the ragged
    columns "index" and "value".

    Attributes:
        one_based: True: the indices in the file begin with 1. They are reduced by 1, so the column's indices begin
            with 0.
        fields: True: the file has libffm's ``field:index:value``, and the batch has a ragged column "field", too.
        query_ids: True: lines may contain ``qid:number``, and the batch has a column "qid" with this number.

    Example::

        format = rueda.data.Libsvm(one_based=True)
    """

    one_based: bool = False
    fields: bool = False
    query_ids: bool = False

    def _options(self) -> dict[str, Any]:
        return {"type": "libsvm", **dataclasses.asdict(self)}


@dataclasses.dataclass(frozen=True)
class CsvColumn:
    """One column of a CSV file.

    Attributes:
        name: the name in the first row of the file.
        dtype: "float32", "float64", "int64", or "uint8" for texts.
        missing: the value of an empty field. None: an empty number is an error.

    Example::

        column = rueda.data.CsvColumn("age", "float32", missing=float("nan"))
    """

    name: str
    dtype: str = "float32"
    missing: float | None = None


@dataclasses.dataclass(frozen=True)
class Csv:
    """Text files with a sample per row (RFC 4180).

    Attributes:
        columns: the columns that are read.
        separator: the character between two fields.
        header: True: the first row of each file has the names of its columns. False: ``columns`` lists all fields of
            a row.
        quotes: True: fields may be quoted, so a field can contain separators and newlines. False: a quote is an ordinary
            character, and each line is a row.

    Example::

        format = rueda.data.Csv([rueda.data.CsvColumn("label"), rueda.data.CsvColumn("age", missing=0)])
    """

    columns: Iterable[CsvColumn]
    separator: str = ","
    header: bool = True
    quotes: bool = True

    def _options(self) -> dict[str, Any]:
        columns = [{**dataclasses.asdict(each), "missing": _missing(each.missing)} for each in self.columns]
        return {
            "type": "csv",
            "columns": columns,
            "separator": self.separator,
            "header": self.header,
            "quotes": self.quotes,
        }


@dataclasses.dataclass(frozen=True)
class Tfrecords:
    """TFRecord files with any content. The batch has one column, "record", with the bytes of each record.

    Example::

        format = rueda.data.Tfrecords()
    """

    check_data: bool = True

    def _options(self) -> dict[str, Any]:
        return {"type": "tfrecords", "check_data": self.check_data}


@dataclasses.dataclass(frozen=True)
class Lines:
    """Text files with a sample per line. The batch has one column, "line", with the bytes of each line.

    Example::

        format = rueda.data.Lines()
    """

    def _options(self) -> dict[str, Any]:
        return {"type": "lines"}


@dataclasses.dataclass(frozen=True)
class ArrayColumn:
    """A tensor of safetensors files, which becomes one column.

    Attributes:
        name: the name in the file.
        dtype: the column's dtype: "float32", "float64", "int64" or "uint8". A tensor of another dtype needs a wider
            one: int64 for other integers, float32 for float16 and bfloat16, uint8 for bool.
        width: the number of values in each row: the product of the tensor's extents without the first one.

    Example::

        column = rueda.data.ArrayColumn("image", "uint8", 28 * 28)
    """

    name: str
    dtype: str = "float32"
    width: int = 1


@dataclasses.dataclass(frozen=True)
class Safetensors:
    """safetensors files. Sample i consists of row i of each listed tensor, so these tensors have the same first extent.
    A file is mapped into memory, and a rank reads only the rows of its own samples. Do not cut or overwrite a file while
    a pipeline reads it.

    Attributes:
        tensors: the tensors that become columns.
        check_data: whether the listed tensors are checked when a file is opened. Only files with the checksums of
            rueda.training's checkpoints are checked. Each rank then reads these tensors from beginning to end.

    Example::

        format = rueda.data.Safetensors(
            [rueda.data.ArrayColumn("image", "uint8", 28 * 28), rueda.data.ArrayColumn("label", "int64")]
        )
    """

    tensors: Sequence[ArrayColumn]
    check_data: bool = True

    def _options(self) -> dict[str, Any]:
        tensors = [{**dataclasses.asdict(each), "width": operator.index(each.width)} for each in self.tensors]
        return {"type": "safetensors", "tensors": tensors, "check_data": self.check_data}


@dataclasses.dataclass(frozen=True)
class WholeFiles:
    """Files with any content, for example images: each file is one sample. The columns are "name" and "bytes". Threads
    of the library read the files; a rank reads only the files of its own samples. The map function Decode turns the
    bytes into arrays.

    Example::

        format = rueda.data.WholeFiles()
    """

    def _options(self) -> dict[str, Any]:
        return {"type": "whole_files"}


Format = Examples | Libsvm | Csv | Tfrecords | Lines | Safetensors | WholeFiles
