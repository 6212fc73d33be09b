// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes the header of a checkpoint file, which may come from anywhere. The first eight input bytes are the number of
// data bytes; the rest is the header's text. The tensors of an accepted header must fill the data without gaps and
// overlaps. Writing and reading the header again must not change it. The same text is also given to the parser of the
// file `in-use`, which names the process that saves into a folder.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/safetensors/safetensors.hpp"
#include "training/checkpoints/store_claim.hpp"

namespace {

using namespace rueda;
using namespace rueda::training;

void expect(bool holds) {
    if (!holds) {
        std::abort();
    }
}

void check_places(const Header& header, std::uint64_t data_bytes) {
    std::uint64_t place = 0;
    for (const StoredTensor& tensor : header.tensors) {
        expect(tensor.begin == place && tensor.end >= tensor.begin);
        std::uint64_t bytes = size_of(tensor.info.dtype);
        for (const std::int64_t extent : tensor.info.shape.extents()) {
            expect(extent >= 0);
            bytes *= static_cast<std::uint64_t>(extent);
        }
        expect(bytes == tensor.end - tensor.begin);
        place = tensor.end;
    }
    expect(place == data_bytes);
}

bool same(const StoredTensor& a, const StoredTensor& b) {
    return a.info.name == b.info.name && a.info.dtype == b.info.dtype && a.begin == b.begin && a.end == b.end &&
           a.checksum == b.checksum && a.info.shape.ndim() == b.info.shape.ndim() &&
           std::memcmp(a.info.shape.data(), b.info.shape.data(), a.info.shape.extents().size_bytes()) == 0;
}

void check_again(const Header& header, std::uint64_t data_bytes) {
    const auto text = format_header(header);
    expect(text.is_ok());
    const auto again = parse_header(text.value(), data_bytes);
    expect(again.is_ok());
    expect(again.value().metadata == header.metadata && again.value().has_checksums == header.has_checksums);
    expect(again.value().tensors.size() == header.tensors.size());
    for (std::size_t i = 0; i < header.tensors.size(); ++i) {
        expect(same(again.value().tensors[i], header.tensors[i]));
    }
}

void check_owner(std::string_view text) {
    if (const auto owner = parse_store_owner(text)) {
        expect(parse_store_owner(to_text(*owner)) == owner);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    std::uint64_t data_bytes = 0;
    if (size < sizeof(data_bytes)) {
        return 0;
    }
    std::memcpy(&data_bytes, bytes, sizeof(data_bytes));
    const std::string_view text(reinterpret_cast<const char*>(bytes) + sizeof(data_bytes), size - sizeof(data_bytes));
    check_owner(text);
    const auto header = parse_header(text, data_bytes);
    if (header.is_ok()) {
        check_places(header.value(), data_bytes);
        check_again(header.value(), data_bytes);
        Header with_checksums = header.value();
        with_checksums.has_checksums = true;
        for (StoredTensor& tensor : with_checksums.tensors) {
            tensor.checksum = tensor.checksum * 31 + tensor.end;
        }
        check_again(with_checksums, data_bytes);
    } else {
        expect(!header.status().message().empty());
    }
    return 0;
}
