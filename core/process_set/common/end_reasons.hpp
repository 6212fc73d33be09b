// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// Why operations of a set end without a result, as text. Without memory for the text, a shorter one is returned.
///
/// Threads: any.
class EndReasons {
public:
    explicit EndReasons(const SetView& view);

    /// Makes a reason that ends many operations the error of one of them. `name` is empty for an operation without a
    /// name. If the reason begins with this tensor, it is not named again.
    [[nodiscard]] static Status about(std::string_view name, const Status& reason);
    /// This rank has shut down, or has removed the set.
    [[nodiscard]] Status shut_down_here() const noexcept;
    /// Another rank has shut down, or has removed the set. `name` as above.
    [[nodiscard]] Status shut_down(std::string_view name) const noexcept;
    /// The same for an operation without a name, with how many such operations each rank has started: the others may
    /// have ended because this rank has made one call more.
    [[nodiscard]] Status shut_down_unnamed(const TensorEntry& entry) const noexcept;
    /// All slots for names are taken. The text is the same on every rank: `slots`, the number of slots, comes from the
    /// log.
    [[nodiscard]] Status exhausted(std::string_view name, std::uint64_t slots) const;

private:
    const SetView& view_;
    Status no_memory_;  // made in advance, because there may be no memory for it later
};

}  // namespace rueda::core
