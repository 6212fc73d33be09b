// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes LibSVM and CSV files. The first byte chooses the format and its options.
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/fuzz/data_inputs.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;

Csv csv(bool header, bool quotes) {
    return Csv{.columns = {{"a"}, {"b", DType::int64, -1}, {"c", DType::uint8}, {"d", DType::float64, 0.5}},
               .separator = quotes ? ',' : '\t',
               .header = header,
               .quotes = quotes};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const std::uint8_t choice = bytes[0];
    const std::string_view rest(reinterpret_cast<const char*>(bytes) + 1, size - 1);
    const bool first = (choice & 2) != 0;
    const bool second = (choice & 4) != 0;
    if ((choice & 1) != 0) {
        rueda::data::fuzz::check_format(Libsvm{.one_based = first, .fields = second, .query_ids = first != second}, "",
                                        rest, choice / 8);
    } else {
        const std::string header = second ? "d,c,\"b\",a,x" : "d\tc\tb\ta\tx";
        rueda::data::fuzz::check_format(csv(first, second), first ? header : "", rest, choice / 8);
    }
    return 0;
}
