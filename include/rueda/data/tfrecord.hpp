// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Writes TFRecord files and tf.train.Example messages.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "rueda/data/source.hpp"

namespace rueda::data {

/// Builds a serialized tf.train.Example. The features stand in the message in the order in which they were added.
/// Threads: one thread at a time may use an object.
class RUEDA_API ExampleBuilder {
public:
    /// Adds a feature, and returns *this. A name must not be added twice.
    ExampleBuilder& add(std::string_view name, std::span<const float> values);
    ExampleBuilder& add(std::string_view name, std::span<const std::int64_t> values);
    ExampleBuilder& add(std::string_view name, std::span<const std::string> values);
    ExampleBuilder& add(std::string_view name, float value) { return add(name, std::span<const float>(&value, 1)); }
    ExampleBuilder& add(std::string_view name, std::int64_t value) {
        return add(name, std::span<const std::int64_t>(&value, 1));
    }
    /// Returns the message and begins a new one.
    [[nodiscard]] std::string finish();

private:
    void add_entry(std::string_view name, std::uint8_t list_field, std::string_view list);

    std::string features_;
    std::string list_;
};

/// Returns a record as a TFRecord file contains it: with its length and checksums. Use this function in a program that
/// writes the file itself.
[[nodiscard]] RUEDA_API std::string tfrecord_frame(std::string_view record);

/// Writes a TFRecord file. Threads: one thread at a time may use an object.
class RUEDA_API TfrecordWriter {
public:
    /// Creates the file, or empties it. With FileCompression::automatic, the ending of the file's name decides. Throws
    /// InvalidArgument if the file cannot be opened. Throws Unsupported for gzip if this build has no zlib, and always
    /// for zstd, because TensorFlow cannot read it.
    explicit TfrecordWriter(const std::string& path, FileCompression compression = FileCompression::automatic);
    TfrecordWriter(TfrecordWriter&&) noexcept;
    TfrecordWriter& operator=(TfrecordWriter&&) noexcept;
    /// Closes the file. The destructor cannot report an error. Call close() before, if you want the errors of the last
    /// write.
    ~TfrecordWriter();

    /// Appends a record. Throws ResourceExhausted if the file cannot be written, for example because the disk is full.
    /// Throws InvalidArgument for a record of 2 GiB or more, because Pipeline does not read such a record.
    void write(std::string_view record);
    /// Writes the bytes that are still in memory, and closes the file. Throws the same errors as write().
    void close();

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace rueda::data
