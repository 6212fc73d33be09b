// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/checkpoints/metadata_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "base/safetensors/safetensors.hpp"

namespace rueda::training {
namespace {

/// Parses metadata from a text that another rank sent.
Metadata parse_metadata_text(const std::string& text) {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object() ||
        !std::all_of(json.begin(), json.end(), [](const auto& value) { return value.is_string(); })) {
        throw Internal(
            fmt::format("the metadata that the root broadcast ({} bytes) are not a map of strings", text.size()));
    }
    return json.get<Metadata>();
}

}  // namespace

Metadata broadcast_metadata(const Metadata& metadata, int root) {
    std::string text = rank() == root ? nlohmann::json(metadata).dump() : std::string();
    std::array<std::int64_t, 1> length = {static_cast<std::int64_t>(text.size())};
    broadcast("rueda.training.checkpoint.metadata_length", TensorView(length), root);
    if (length[0] < 0 || static_cast<std::uint64_t>(length[0]) > kMaxHeaderBytes) {
        throw Internal(fmt::format("the root announced {} bytes of metadata; at most {} are possible", length[0],
                                   kMaxHeaderBytes));
    }
    text.resize(static_cast<std::size_t>(length[0]));
    broadcast("rueda.training.checkpoint.metadata", TensorView(text.data(), DType::uint8, Shape{length[0]}), root);
    return parse_metadata_text(text);
}

}  // namespace rueda::training
