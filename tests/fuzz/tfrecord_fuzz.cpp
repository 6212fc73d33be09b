// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes TFRecord files and tf.train.Example messages. The first byte chooses what the rest is: a file, or the message
// of one record. For a message, this target computes the right CRC, because a fuzzer would hardly find it.
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "data/crc32c.hpp"
#include "tests/fuzz/data_inputs.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;

Examples examples() {
    return Examples{{{"label"},
                     {"i", DType::int64, 3},
                     {"f", DType::float32, 2, 0.5},
                     {"many", DType::int64, 0},
                     {"some", DType::float32, 0},
                     {"long name", DType::uint8, 2},
                     {"text", DType::uint8, 0}}};
}

std::string as_file(std::string_view record) {
    std::string file(12, '\0');
    const std::uint64_t length = record.size();
    const std::uint32_t length_crc = masked(crc32c(&length, sizeof length));
    std::memcpy(file.data(), &length, sizeof length);
    std::memcpy(file.data() + sizeof length, &length_crc, sizeof length_crc);
    file += record;
    const std::uint32_t data_crc = masked(crc32c(record.data(), record.size()));
    file.append(reinterpret_cast<const char*>(&data_crc), sizeof data_crc);
    return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const std::string_view rest(reinterpret_cast<const char*>(bytes) + 1, size - 1);
    // The two implementations of CRC-32C must agree for every input.
    rueda::data::fuzz::expect(crc32c(bytes, size) == portable_crc32c(bytes, size));
    if (bytes[0] % 2 == 0) {
        rueda::data::fuzz::check_format(examples(), "", as_file(rest), bytes[0]);
    } else {
        rueda::data::fuzz::check_format(examples(), "", rest, bytes[0]);
        rueda::data::fuzz::check_format(Tfrecords{}, "", rest, bytes[0]);
    }
    return 0;
}
