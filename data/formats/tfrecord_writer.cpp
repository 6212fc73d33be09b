// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/status.hpp"
#include "data/crc32c.hpp"
#include "data/formats/splitter.hpp"
#include "data/formats/wire.hpp"
#include "data/sources/byte_stream.hpp"
#include "rueda/data/tfrecord.hpp"

#ifdef RUEDA_HAS_ZLIB
#include <zlib.h>
#endif

namespace rueda::data {

/// A file that is written in order. Threads: one at a time.
class OutputFile {
public:
    virtual ~OutputFile() = default;
    [[nodiscard]] virtual Status write(std::string_view bytes) = 0;
    [[nodiscard]] virtual Status close() = 0;
};

namespace {

class PlainFile final : public OutputFile {
public:
    PlainFile(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}
    PlainFile(const PlainFile&) = delete;
    PlainFile& operator=(const PlainFile&) = delete;
    ~PlainFile() override {
        if (file_ != nullptr) {
            [[maybe_unused]] const int result = std::fclose(file_);  // close() reports errors
        }
    }

    Status write(std::string_view bytes) override {
        if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
            return system_failure(ErrorCode::resource_exhausted, fmt::format("writing '{}': fwrite", path_));
        }
        return {};
    }
    Status close() override {
        if (std::fclose(std::exchange(file_, nullptr)) != 0) {
            return system_failure(ErrorCode::resource_exhausted, fmt::format("writing '{}': fclose", path_));
        }
        return {};
    }

private:
    std::FILE* file_;
    std::string path_;
};

Result<std::unique_ptr<OutputFile>> open_plain_output(const std::string& path) {
    std::FILE* const file = std::fopen(path.c_str(), "wbe");
    if (file == nullptr) {
        return system_failure(ErrorCode::invalid_argument, fmt::format("creating '{}': fopen", path));
    }
    return std::unique_ptr<OutputFile>(std::make_unique<PlainFile>(file, path));
}

#ifdef RUEDA_HAS_ZLIB
class GzipFile final : public OutputFile {
public:
    GzipFile(gzFile file, std::string path) : file_(file), path_(std::move(path)) {}
    GzipFile(const GzipFile&) = delete;
    GzipFile& operator=(const GzipFile&) = delete;
    ~GzipFile() override {
        if (file_ != nullptr) {
            [[maybe_unused]] const int result = ::gzclose(file_);  // close() reports errors
        }
    }

    Status write(std::string_view bytes) override {
        if (!bytes.empty() && ::gzfwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
            return system_failure(ErrorCode::resource_exhausted, fmt::format("writing '{}': gzfwrite", path_));
        }
        return {};
    }
    Status close() override {
        if (::gzclose(std::exchange(file_, nullptr)) != Z_OK) {
            return system_failure(ErrorCode::resource_exhausted, fmt::format("writing '{}': gzclose", path_));
        }
        return {};
    }

private:
    gzFile file_;
    std::string path_;
};

Result<std::unique_ptr<OutputFile>> open_gzip_output(const std::string& path) {
    const gzFile file = ::gzopen(path.c_str(), "wbe");
    if (file == nullptr) {
        return system_failure(ErrorCode::invalid_argument, fmt::format("creating '{}': gzopen", path));
    }
    return std::unique_ptr<OutputFile>(std::make_unique<GzipFile>(file, path));
}
#else
Result<std::unique_ptr<OutputFile>> open_gzip_output(const std::string& path) {
    return failure(ErrorCode::unsupported,
                   "creating '{}': this build of Rueda has no zlib, so it cannot compress with gzip; install zlib's "
                   "development package (on Debian: zlib1g-dev) and build Rueda again, or use FileCompression::none",
                   path);
}
#endif

/// The bytes before and behind a record in a TFRecord file.
class TfrecordFrame {
public:
    explicit TfrecordFrame(std::string_view record) {
        const std::uint64_t length = record.size();
        std::memcpy(head_, &length, sizeof length);
        const std::uint32_t length_crc = masked(crc32c(&length, sizeof length));
        std::memcpy(head_ + sizeof length, &length_crc, sizeof length_crc);
        const std::uint32_t data_crc = masked(crc32c(record.data(), record.size()));
        std::memcpy(foot_, &data_crc, sizeof data_crc);
    }
    [[nodiscard]] std::string_view head() const noexcept { return {head_, sizeof head_}; }
    [[nodiscard]] std::string_view foot() const noexcept { return {foot_, sizeof foot_}; }

private:
    char head_[kTfrecordHeadBytes];
    char foot_[kTfrecordFootBytes];
};

Result<std::unique_ptr<OutputFile>> open_output(const std::string& path, FileCompression compression) {
    switch (compression_of({path, SourceKind::file, compression, nullptr})) {
        case FileCompression::gzip:
            return open_gzip_output(path);
        case FileCompression::zstd:
            return failure(
                ErrorCode::unsupported,
                "creating '{}': TFRecord files are not written with zstd, because TensorFlow could not read them; "
                "use gzip or none",
                path);
        case FileCompression::automatic:
        case FileCompression::none:
            break;
    }
    return open_plain_output(path);
}

}  // namespace

struct TfrecordWriter::Parts {
    std::unique_ptr<OutputFile> file;
    std::string path;
};

TfrecordWriter::TfrecordWriter(const std::string& path, FileCompression compression)
    : parts_(std::make_unique<Parts>()) {
    auto file = open_output(path, compression);
    file.status().throw_if_failed();
    parts_->file = std::move(file).value();
    parts_->path = path;
}

TfrecordWriter::TfrecordWriter(TfrecordWriter&&) noexcept = default;
TfrecordWriter& TfrecordWriter::operator=(TfrecordWriter&&) noexcept = default;
TfrecordWriter::~TfrecordWriter() = default;

void TfrecordWriter::write(std::string_view record) {
    if (parts_->file == nullptr) {
        throw InvalidArgument(fmt::format("writing '{}': the file is already closed", parts_->path));
    }
    if (record.size() > kMostRecordBytes) {
        throw InvalidArgument(
            fmt::format("writing '{}': the record has {} bytes, expected at most {}; write it as several records",
                        parts_->path, record.size(), kMostRecordBytes));
    }
    const TfrecordFrame frame(record);
    parts_->file->write(frame.head()).throw_if_failed();
    parts_->file->write(record).throw_if_failed();
    parts_->file->write(frame.foot()).throw_if_failed();
}

std::string tfrecord_frame(std::string_view record) {
    const TfrecordFrame frame(record);
    return std::string(frame.head()).append(record).append(frame.foot());
}

void TfrecordWriter::close() {
    if (parts_->file != nullptr) {
        const Status status = parts_->file->close();
        parts_->file = nullptr;
        status.throw_if_failed();
    }
}

ExampleBuilder& ExampleBuilder::add(std::string_view name, std::span<const float> values) {
    list_.clear();
    wire::append_field(list_, 1, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
    add_entry(name, 2, list_);
    return *this;
}

ExampleBuilder& ExampleBuilder::add(std::string_view name, std::span<const std::int64_t> values) {
    std::string packed;
    for (const std::int64_t value : values) {
        wire::append_varint(packed, static_cast<std::uint64_t>(value));
    }
    list_.clear();
    wire::append_field(list_, 1, packed);
    add_entry(name, 3, list_);
    return *this;
}

ExampleBuilder& ExampleBuilder::add(std::string_view name, std::span<const std::string> values) {
    list_.clear();
    for (const std::string& value : values) {
        wire::append_field(list_, 1, value);
    }
    add_entry(name, 1, list_);
    return *this;
}

/// Adds an entry to the map Features.feature. The key is `name`. The value is a Feature whose field `list_field`
/// contains `list`.
void ExampleBuilder::add_entry(std::string_view name, std::uint8_t list_field, std::string_view list) {
    std::string feature;
    wire::append_field(feature, list_field, list);
    std::string entry;
    wire::append_field(entry, 1, name);
    wire::append_field(entry, 2, feature);
    wire::append_field(features_, 1, entry);
}

std::string ExampleBuilder::finish() {
    std::string example;
    wire::append_field(example, 1, features_);
    features_.clear();
    return example;
}

}  // namespace rueda::data
