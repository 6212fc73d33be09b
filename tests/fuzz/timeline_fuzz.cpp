// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes the reader of timeline files. Every rank that it returns must be a rank of the job, and a header that was read
// must be the same after it was written and read again.
#include <algorithm>
#include <string>
#include <string_view>

#include "base/timeline/timeline_part.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    using namespace rueda;
    using fuzz::expect;
    const Result<base::TimelinePart> read = base::parse_timeline({reinterpret_cast<const char*>(bytes), size});
    if (!read.is_ok()) {
        expect(read.status().code() == ErrorCode::invalid_argument && !read.status().message().empty());
        return 0;
    }
    const base::TimelinePart& part = read.value();
    const auto is_of_job = [&part](std::int32_t rank) { return rank >= 0 && rank < part.header.size; };
    expect(std::all_of(part.ranks.begin(), part.ranks.end(), is_of_job));
    expect(std::all_of(part.operations.begin(), part.operations.end(),
                       [&](const base::TimelineOperation& operation) { return is_of_job(operation.rank); }));
    expect(std::all_of(part.others.begin(), part.others.end(),
                       [](const std::string& line) { return line.find('\n') == std::string::npos; }));
    const std::string header = base::format_header(part.header) + "\n";
    const Result<base::TimelinePart> again = base::parse_timeline(header);
    expect(again.is_ok() && base::format_header(again.value().header) + "\n" == header);
    expect(base::are_of_one_job(part.header, again.value().header));
    return 0;
}
