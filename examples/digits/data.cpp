// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <numeric>
#include <string_view>
#include <system_error>

#include "rueda/error.hpp"
#include "rueda/training/sampler.hpp"

namespace digits {
namespace {

constexpr int kMaxPixel = 16;
// The text of a small gzipped file can be arbitrarily long. So the text must not be longer than kMaxImages lines of
// kMaxLine bytes. The longest line has 64 times "16,", a label and a line break. The file of the digits has 1797 lines.
constexpr std::size_t kMaxLine = 64 * 3 + 1 + 2;
constexpr std::size_t kMaxImages = 100'000;
constexpr std::size_t kMaxBytes = kMaxImages * kMaxLine;
constexpr std::uint64_t kSplitSeed = 1797;  ///< an arbitrary number; with another one, other images would be held out

using GzFile = std::unique_ptr<gzFile_s, decltype(&gzclose)>;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
    throw rueda::InvalidArgument("data file " + path.string() + ": " + what);
}

/// Returns the text of a plain or gzipped file; zlib recognises the kind.
std::string read_text(const std::filesystem::path& path) {
    if (std::filesystem::is_directory(path)) {
        refuse(path, "it is a folder; name a .csv or .csv.gz file");
    }
    const GzFile file(gzopen(path.c_str(), "rb"), &gzclose);
    if (!file) {
        refuse(path, "cannot be opened: " + std::generic_category().message(errno) +
                         "; name one with --data (digits.csv.gz is part of Debian's python3-sklearn)");
    }
    std::string text;
    std::array<char, 1 << 16> buffer{};
    int count = 0;
    while ((count = gzread(file.get(), buffer.data(), buffer.size())) > 0) {
        if (text.size() + static_cast<std::size_t>(count) > kMaxBytes) {
            refuse(path, "has more than " + std::to_string(kMaxBytes) + " bytes of text; expected at most " +
                             std::to_string(kMaxImages) + " lines of at most " + std::to_string(kMaxLine) +
                             " bytes: name a file of digits");
        }
        text.append(buffer.data(), static_cast<std::size_t>(count));
    }
    int error = Z_OK;
    const char* reason = gzerror(file.get(), &error);
    if (error != Z_OK && error != Z_STREAM_END) {
        refuse(path, "is damaged or truncated after " + std::to_string(text.size()) + " bytes of text (" +
                         (error == Z_ERRNO ? std::generic_category().message(errno) : reason) + "); get it again");
    }
    return text;
}

/// Reads images from the lines of a text. Counts the lines for error messages.
class Reader {
public:
    explicit Reader(const std::filesystem::path& path) : path_(path) {}

    Images read(std::string_view text) {
        while (!text.empty()) {
            const std::size_t end = std::min(text.find('\n'), text.size());
            std::string_view line = text.substr(0, end);
            text.remove_prefix(std::min(end + 1, text.size()));
            ++line_;
            if (line.ends_with('\r')) {
                line.remove_suffix(1);
            }
            read_line(line);
        }
        return std::move(images_);
    }

private:
    void read_line(std::string_view line) {
        const auto columns = std::count(line.begin(), line.end(), ',') + 1;
        if (columns != kPixels + 1) {
            refuse_line("has " + std::to_string(columns) + " columns; " + std::to_string(kPixels) +
                        " pixels and a label are expected");
        }
        for (int column = 1; column <= kPixels; ++column) {
            const int pixel = read_number(line, column, kMaxPixel);
            images_.pixels.push_back(static_cast<float>(pixel) / static_cast<float>(kMaxPixel));
        }
        images_.labels.push_back(read_number(line, kPixels + 1, kClasses - 1));
    }

    /// Removes a number and the comma after it from the beginning of the line. Returns the number.
    int read_number(std::string_view& line, std::int64_t column, std::int64_t most) {
        const std::string_view field = line.substr(0, line.find(','));
        int value = -1;
        const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
        if (error != std::errc() || end != field.data() + field.size() || value < 0 || value > most) {
            refuse_line("column " + std::to_string(column) + " is '" + std::string(field.substr(0, 20)) +
                        "'; a whole number from 0 to " + std::to_string(most) + " is expected");
        }
        line.remove_prefix(std::min(field.size() + 1, line.size()));
        return value;
    }

    [[noreturn]] void refuse_line(const std::string& what) const {
        refuse(path_, "line " + std::to_string(line_) + ": " + what);
    }

    const std::filesystem::path& path_;
    std::int64_t line_ = 0;
    Images images_;
};

std::string checksum_of(const std::string& text) {
    const auto* bytes = reinterpret_cast<const Bytef*>(text.data());
    return std::to_string(crc32_z(crc32(0, nullptr, 0), bytes, text.size()));
}

}  // namespace

Images Images::pick(std::span<const std::int64_t> indices) const {
    Images picked;
    for (const std::int64_t index : indices) {
        const auto begin = pixels.begin() + index * kPixels;
        picked.pixels.insert(picked.pixels.end(), begin, begin + kPixels);
        picked.labels.push_back(labels[static_cast<std::size_t>(index)]);
    }
    return picked;
}

Images Images::piece(std::int64_t first, std::int64_t count) const {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
    std::iota(indices.begin(), indices.end(), first);
    return pick(indices);
}

DataSet read_data(const std::filesystem::path& path) {
    const std::string text = read_text(path);
    const Images all = Reader(path).read(text);
    constexpr std::int64_t kFewest = 10;
    if (all.count() < kFewest) {
        refuse(path,
               "has " + std::to_string(all.count()) + " images; at least " + std::to_string(kFewest) + " are needed");
    }
    // The Sampler's only batch has all samples, so its share is a random permutation of all samples.
    const rueda::training::Sampler shuffled({.samples = all.count(), .batch = all.count(), .seed = kSplitSeed});
    const std::span<const std::int64_t> order = shuffled.share(0);
    const auto held_out = static_cast<std::size_t>(all.count() / 5);
    return {all.pick(order.subspan(held_out)), all.pick(order.first(held_out)), checksum_of(text)};
}

}  // namespace digits
