// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// The agreement of the ranks on the new terms of a growing vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rueda/data/vocabulary.hpp"
#include "rueda/rueda.hpp"

namespace rueda::data {

/// Exchanges the unknown texts that the ranks have counted, and makes terms of the most frequent ones. All ranks must
/// call this function at the same point of their programs, for example at the end of an epoch or after every 1000
/// steps. If a program has several vocabularies, the ranks must call it for them in the same order. Afterwards all
/// ranks have the same terms. Returns the number of new terms. Throws InvalidArgument, on all ranks, if the ranks'
/// vocabularies differed before.
inline std::int64_t agree(Vocabulary& vocabulary) {
    const std::string mine = vocabulary.unmerged();
    const Shape shape{static_cast<std::int64_t>(mine.size())};
    const Handle gathered = allgather("rueda.data.vocabulary", InputView(mine.data(), DType::uint8, shape));
    const TensorView all = gathered.output();
    return vocabulary.merge({static_cast<const char*>(all.data()), static_cast<std::size_t>(all.shape().elements())});
}

}  // namespace rueda::data
