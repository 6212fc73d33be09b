// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "curve.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "rueda/error.hpp"

namespace digits {
namespace {

constexpr std::string_view kColumns = "step,epoch,loss,learning_rate,accuracy";

/// Returns the shortest text that is read as the same number.
std::string text_of(double value) {
    std::array<char, 32> text{};
    const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
    return {text.data(), result.ptr};
}

template <class T>
bool take(std::string_view& line, T& value) {
    const std::string_view field = line.substr(0, line.find(','));
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    line.remove_prefix(std::min(field.size() + 1, line.size()));
    return error == std::errc() && end == field.data() + field.size();
}

bool parse(std::string_view line, CurvePoint& point) {
    if (!take(line, point.step) || !take(line, point.epoch) || !take(line, point.loss) ||
        !take(line, point.learning_rate)) {
        return false;
    }
    return line.empty() || take(line, point.accuracy.emplace());
}

/// Writes `text` to a temporary file beside `path`, and then renames this file to `path`.
void write_text(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::path partial = path;
    partial += ".partial";
    errno = 0;
    std::ofstream file(partial, std::ios::trunc);
    file << text << std::flush;
    std::error_code error(file ? 0 : errno, std::generic_category());
    file.close();
    if (!error) {
        std::filesystem::rename(partial, path, error);
    }
    if (error) {
        const std::string message =
            path.string() + " cannot be written: " + error.message() + "; make room or name another --checkpoint-dir";
        const bool full = error == std::errc::no_space_on_device;
        std::filesystem::remove(partial, error);
        rueda::throw_error(full ? rueda::ErrorCode::resource_exhausted : rueda::ErrorCode::invalid_argument, message);
    }
}

}  // namespace

void write_csv(const std::filesystem::path& path, const Curve& curve) {
    std::string text(kColumns);
    text += '\n';
    for (const CurvePoint& point : curve) {
        text += std::to_string(point.step) + ',' + std::to_string(point.epoch) + ',' + text_of(point.loss) + ',' +
                text_of(point.learning_rate) + ',' + (point.accuracy ? text_of(*point.accuracy) : "") + '\n';
    }
    write_text(path, text);
}

Curve read_csv(const std::filesystem::path& path, std::int64_t end) {
    Curve curve;
    std::ifstream file(path);
    std::string line;
    for (std::int64_t number = 1; std::getline(file, line); ++number) {
        CurvePoint point;
        if (number == 1 ? line != kColumns : !parse(line, point)) {
            throw rueda::InvalidArgument(path.string() + " line " + std::to_string(number) + " is '" +
                                         line.substr(0, 60) + "'; '" + std::string(kColumns) +
                                         "' is expected: move the file away");
        }
        if (number > 1 && point.step < end) {
            curve.push_back(point);
        }
    }
    return curve;
}

}  // namespace digits
