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

/// Texts that say why operations of a process set end without a result. If there is no memory for a text, the functions
/// return a shorter text.
///
/// Threads: any.
class EndReasons {
public:
    explicit EndReasons(const SetView& view);

    /// Makes the error of one operation from a reason that ends many operations. `name` is empty for an operation
    /// without a name. The name is not added if the reason already begins with it.
    [[nodiscard]] static Status about(std::string_view name, const Status& reason);
    /// The reason: this rank has shut down, or has removed the set.
    [[nodiscard]] Status shut_down_here() const noexcept;
    /// The reason: another rank has shut down, or has removed the set. `name` is the name of the operation, as in
    /// about().
    [[nodiscard]] Status shut_down(std::string_view name) const noexcept;
    /// Like shut_down(), for an operation without a name. The text says how many such operations each rank has started,
    /// so that the user sees whether this rank made one call more than the other ranks.
    [[nodiscard]] Status shut_down_unnamed(const TensorEntry& entry) const noexcept;
    /// The reason: all slots for names are taken. `slots`, the number of slots, comes from the log, so all ranks give
    /// the same text.
    [[nodiscard]] Status exhausted(std::string_view name, std::uint64_t slots) const;

private:
    const SetView& view_;
    Status no_memory_;  // the failure for lack of memory, allocated in advance
};

}  // namespace rueda::core
