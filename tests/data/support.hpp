// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rueda/data/pipeline.hpp"
#include "rueda/data/tfrecord.hpp"
#include "rueda/error.hpp"
#include "tests/support/folder.hpp"

namespace rueda::data::test {

using tests::Folder;

inline void write_file(const std::string& path, std::string_view bytes) {
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Uses no assertions of Catch, because any thread may call this function.
inline void make_fifo(const std::string& path) {
    if (::mkfifo(path.c_str(), 0600) != 0) {
        throw std::runtime_error("mkfifo " + path + " failed");
    }
}

/// Reads all bytes of a source, in pieces of `piece` bytes.
inline std::string read_all(const Source& source, std::size_t piece = 1000) {
    ByteReader reader(source);
    std::string all;
    std::vector<std::byte> buffer(piece);
    while (const std::size_t count = reader.read(buffer)) {
        all.append(reinterpret_cast<const char*>(buffer.data()), count);
    }
    return all;
}

/// Runs the function and returns the message of the exception that it throws.
template <class Function>
std::string message_of(Function function) {
    try {
        function();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

/// Returns the first batch of the bytes, with at most 1000 rows.
inline Batch parse(std::string bytes, Format format, std::int64_t malformed_limit = 0) {
    PipelineOptions options{
        .sources = memory("given bytes", std::move(bytes)), .format = std::move(format), .batch = 1000};
    options.epochs = 1;
    options.threads = 1;
    options.malformed_limit = malformed_limit;
    Pipeline pipeline(options);
    Batch batch;
    pipeline.next(batch);
    return batch;
}

template <class T>
std::vector<T> values(const Batch& batch, std::string_view column) {
    const auto all = batch.values<T>(column);
    return {all.begin(), all.end()};
}

inline std::vector<std::int64_t> offsets(const Batch& batch, std::string_view column) {
    const auto all = batch.column(column).offsets();
    return {all.begin(), all.end()};
}

/// The bytes of a TFRecord file with these records.
inline std::string tfrecord_bytes(const std::vector<std::string>& records) {
    const Folder folder;
    TfrecordWriter writer(folder.file("records"));
    for (const std::string& record : records) {
        writer.write(record);
    }
    writer.close();
    return read_file(folder.file("records"));
}

}  // namespace rueda::data::test
