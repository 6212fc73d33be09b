// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Whole files as samples.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "data/formats/array_columns.hpp"
#include "data/formats/output.hpp"
#include "data/formats/parser.hpp"
#include "data/formats/splitter.hpp"
#include "data/sources/byte_stream.hpp"

namespace rueda::data {

namespace {

/// Reads one file at a time, always into the same buffer.
class FileBuffer {
public:
    explicit FileBuffer(std::span<const Source> sources) : sources_(sources) {}

    /// The name and the bytes in the result stay valid until the next call. Throws an error if the file cannot be read.
    /// Such a file does not count as a malformed record, so malformed_limit does not apply to it.
    [[nodiscard]] FileBytes read(std::uint32_t source) {
        const Source& file = sources_[source];
        auto stream = open_stream(file, 0, never_given_);
        stream.status().throw_if_failed();
        std::size_t size = 0;
        while (true) {
            if (size == bytes_.size()) {
                bytes_.resize(std::max(kFirstBytes, 2 * size));
            }
            const auto count = stream.value()->read(std::as_writable_bytes(std::span(bytes_)).subspan(size));
            count.status().throw_if_failed();
            if (count.value() == 0) {
                break;
            }
            size += count.value();
            if (size > kMostRecordBytes) {
                failure(ErrorCode::invalid_argument,
                        "reading '{}': the file has more than {} bytes, so it cannot be one sample; divide it",
                        file.name, kMostRecordBytes)
                    .throw_if_failed();
            }
        }
        return {file.name, std::as_bytes(std::span(bytes_)).first(size)};
    }

private:
    static constexpr std::size_t kFirstBytes = std::size_t{64} << 10;

    std::span<const Source> sources_;
    // This signal is never given. Only a wait for a FIFO would look at it, and complete() refuses FIFOs for this
    // format.
    StopSignal never_given_;
    std::string bytes_;
};

/// Makes two columns of texts: the names of the files, and their unchanged bytes.
class PlainFileParser final : public Parser {
public:
    explicit PlainFileParser(std::span<const Source> sources) : buffer_(sources) {}

    void begin(Batch& batch, std::size_t rows) override {
        // Adding a column can move the other columns in memory, so both are added before one is used.
        batch.add_column("name", DType::uint8);
        batch.add_column("bytes", DType::uint8);
        names_ = TextOutput(batch.column("name"), rows);
        texts_ = TextOutput(batch.column("bytes"), rows);
        read_ = 0;
    }
    Status parse(const Record& record, std::size_t row) override {
        const FileBytes file = buffer_.read(record.source);
        read_ += file.bytes.size();
        names_.put(row, file.name);
        texts_.put(row, {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()});
        return {};
    }
    void end(std::size_t rows) override {
        names_.end(rows);
        texts_.end(rows);
    }
    [[nodiscard]] std::size_t bytes_read() const override { return read_; }

private:
    FileBuffer buffer_;
    TextOutput names_;
    TextOutput texts_;
    std::size_t read_ = 0;
};

/// Fills the columns with the values that WholeFiles::decode, a function of the program, makes from the files.
class DecodingParser final : public Parser {
public:
    DecodingParser(const WholeFiles& format, std::span<const Source> sources)
        : buffer_(sources), outputs_(format.columns), decode_(format.decode) {}

    void begin(Batch& batch, std::size_t rows) override {
        batch_ = &batch;
        outputs_.begin(batch, rows);
        read_ = 0;
    }
    Status parse(const Record& record, std::size_t row) override {
        const FileBytes file = buffer_.read(record.source);
        read_ += file.bytes.size();
        try {
            decode_(file, SampleRow(*batch_, row));
        } catch (const std::exception& error) {
            return failure(ErrorCode::invalid_argument, "the decode function failed: {}", error.what());
        }
        return {};
    }
    void end(std::size_t rows) override { outputs_.end(*batch_, rows); }
    [[nodiscard]] std::size_t bytes_read() const override { return read_; }

private:
    FileBuffer buffer_;
    ArrayOutputs outputs_;
    std::function<void(const FileBytes&, const SampleRow&)> decode_;
    Batch* batch_ = nullptr;
    std::size_t read_ = 0;
};

}  // namespace

Result<std::unique_ptr<Parser>> make_file_parser(const WholeFiles& format, std::span<const Source> sources) {
    if (format.decode) {
        RUEDA_RETURN_IF_FAILED(check_array_columns("WholeFiles", format.columns));
        return std::unique_ptr<Parser>(std::make_unique<DecodingParser>(format, sources));
    }
    if (!format.columns.empty()) {
        return failure(ErrorCode::invalid_argument,
                       "pipeline: WholeFiles has the column '{}' and no decode function that fills it; set decode, or "
                       "leave out the columns to get the bytes of the files",
                       format.columns.front().name);
    }
    return std::unique_ptr<Parser>(std::make_unique<PlainFileParser>(sources));
}

}  // namespace rueda::data
