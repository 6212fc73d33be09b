// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// The formats of samples that a pipeline reads, and the columns that each format has.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rueda/data/batch.hpp"
#include "rueda/types.hpp"

namespace rueda::data {

/// One feature of a tf.train.Example, which becomes one column.
struct Feature {
    std::string name;
    DType dtype =
        DType::float32;       ///< the column's type: float32 for float_list, int64 for int64_list, uint8 for bytes_list
    std::int64_t length = 1;  ///< number of values in every sample. With 0, samples may have different numbers of
                              ///< values, and the column is ragged. For a bytes_list, 0 has another meaning: a sample
                              ///< has at most one text, and a sample without a text gets an empty one
    /// The value for a sample that does not have this feature. It is only for numbers with a fixed length. If it is
    /// nullopt, a sample without the feature is an error.
    std::optional<double> missing = std::nullopt;
};

/// TFRecord files whose records are serialized tf.train.Example messages. A feature that is not listed is ignored.
struct Examples {
    std::vector<Feature> features;
    /// whether the pipeline checks the CRC of each record's data. The CRC of a record's length is always checked
    bool check_data = true;
};

/// Text files with a sample per line: `label index:value index:value … # comment`. The columns are "label" (float32),
/// and the ragged columns "index" (int64) and "value" (float32) with the same offsets. Indices may have any order and
/// may repeat.
struct Libsvm {
    /// whether the indices in the file begin with 1. The indices in the column always begin with 0
    bool one_based = false;
    bool fields = false;  ///< whether the lines have libffm's form `field:index:value`. If so, there is also a ragged
                          ///< column "field" (int64)
    bool query_ids = false;  ///< If true, there is a column "qid" (int64) with the number that follows `qid:`. If
                             ///< false, `qid:number` is ignored
};

/// One column of a CSV file.
struct CsvColumn {
    std::string name;
    DType dtype = DType::float32;  ///< the column's type: float32, float64, int64, or uint8 for texts
    /// the value of an empty field. If this is nullopt, an empty field is an error in a column of numbers; in a column
    /// of texts it is an empty text
    std::optional<double> missing = std::nullopt;
};

/// Text files with a sample per row (RFC 4180). A field in double quotes may contain separators, newlines and doubled
/// quotes.
struct Csv {
    std::vector<CsvColumn> columns;
    char separator = ',';
    bool header = true;  ///< If true, the first row of each file has the names of its columns, of which `columns` may
                         ///< select some. All files must have the same first row. If false, `columns` must list all
                         ///< fields of a row, in order
    bool quotes = true;  ///< If false, a quote is an ordinary character, and each line is a row
};

/// TFRecord files with any content. The column "record" (uint8) has the bytes of each record.
struct Tfrecords {
    bool check_data = true;
};

/// Text files with a sample per line. The column "line" (uint8) has the text of each line, without the end of the line.
struct Lines {};

/// A column in which every sample has the same number of values.
struct ArrayColumn {
    std::string name;
    DType dtype = DType::float32;  ///< float32, float64, int64 or uint8
    std::int64_t width = 1;        ///< number of values in every sample
};

/// Files in the safetensors format. Sample i consists of row i of each tensor in `tensors`, so these tensors must have
/// the same first extent. The product of a tensor's other extents is the width of its column. A tensor that is not
/// listed is ignored. The column's dtype is that of the tensor, or a wider one: int64 for other integers, float32 for
/// float16 and bfloat16, uint8 for bool.
///
/// A file is mapped into memory, and a rank reads only the rows of its own samples. Do not cut or overwrite a file
/// while a pipeline reads it. If a process reads a mapped page after the file was cut before this page, the system ends
/// the process. Replacing the file by a new one of the same name (rename) is safe.
struct Safetensors {
    std::vector<ArrayColumn> tensors;
    /// whether the pipeline checks the listed tensors when it opens a file that has checksums. Files of
    /// write_checkpoint() have checksums. To check the tensors, each rank reads them from beginning to end
    bool check_data = true;
};

/// Files with any content, for example images: each file is one sample. The threads that parse samples also read the
/// files. A rank reads only the files of its own samples.
struct WholeFiles {
    /// the columns that `decode` fills. Without `decode`, the columns are "name" and "bytes" (texts), and this list
    /// must be empty
    std::vector<ArrayColumn> columns = {};
    /// A function that turns the bytes of a file into the values of a sample. It must fill all values of all columns.
    /// Several threads may call the function at the same time, for different files. If the function throws an
    /// exception, the file counts as malformed, and the message names the file.
    std::function<void(const FileBytes&, const SampleRow&)> decode = {};
};

using Format = std::variant<Examples, Libsvm, Csv, Tfrecords, Lines, Safetensors, WholeFiles>;

}  // namespace rueda::data
