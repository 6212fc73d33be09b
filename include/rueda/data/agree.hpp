// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Functions that all ranks call together. average_weight() computes the weight of a rank's mean in the average over
/// the ranks. agree() gives a growing vocabulary the same new terms on all ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "rueda/data/vocabulary.hpp"
#include "rueda/rueda.hpp"

namespace rueda::data {

/// Returns the weight of this rank's mean in the average over the ranks. Use it if the ranks have different numbers of
/// samples in a step: multiply this rank's mean by the weight, and reduce the products with ReduceOp::average. The
/// result is the mean over the samples of all ranks. `counted` is the number of this rank's samples (Batch::counted()).
/// The weight is counted × size / (sum of `counted` over the ranks). If this rank has no samples, it has no mean, and
/// the weight is 0: contribute zeros then.
///
/// All ranks must call average_weight() in each step. A rank that has called join() counts as a rank without samples.
/// The weight is right only for JoinAverage::all, the default.
inline double average_weight(std::int64_t counted) {
    std::array<std::int64_t, 1> total = {counted};
    allreduce("rueda.data.average_weight", total, {.op = ReduceOp::sum});
    return total[0] == 0 ? 0.0
                         : static_cast<double>(counted) * static_cast<double>(size()) / static_cast<double>(total[0]);
}

/// Exchanges the unknown texts that the ranks have counted. The most frequent of these texts become terms. All ranks
/// must call this function at the same point of their programs, for example at the end of an epoch or after every 1000
/// steps. If a program has several vocabularies, all ranks must call this function for them in the same order.
/// Afterwards all ranks have the same terms. Returns the number of new terms. Throws InvalidArgument, on all ranks, if
/// the ranks' vocabularies differed before.
inline std::int64_t agree(Vocabulary& vocabulary) {
    const std::string mine = vocabulary.unmerged();
    const Shape shape{static_cast<std::int64_t>(mine.size())};
    const Handle gathered = allgather("rueda.data.vocabulary", InputView(mine.data(), DType::uint8, shape));
    const TensorView all = gathered.output();
    return vocabulary.merge({static_cast<const char*>(all.data()), static_cast<std::size_t>(all.shape().elements())});
}

}  // namespace rueda::data
