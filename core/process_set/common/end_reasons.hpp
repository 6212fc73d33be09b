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

/// Texts that say why operations of a set end without a result. If there is no memory for a text, a shorter one is
/// returned.
///
/// Threads: any.
class EndReasons {
public:
    explicit EndReasons(const SetView& view);

    /// Turns a reason that ends many operations into the error of one of them. `name` is empty for an operation without
    /// a name. If the reason already begins with this tensor, the name is not added.
    [[nodiscard]] static Status about(std::string_view name, const Status& reason);
    /// The reason: this rank has shut down, or has removed the set.
    [[nodiscard]] Status shut_down_here() const noexcept;
    /// The reason: another rank has shut down, or has removed the set. `name` is as for about().
    [[nodiscard]] Status shut_down(std::string_view name) const noexcept;
    /// Like shut_down(), for an operation without a name. The text says how many such operations each rank has started,
    /// because the other ranks may have ended after this rank had made one call more than they did.
    [[nodiscard]] Status shut_down_unnamed(const TensorEntry& entry) const noexcept;
    /// The reason: all slots for names are taken. `slots`, the number of slots, comes from the log, so the text is the
    /// same on every rank.
    [[nodiscard]] Status exhausted(std::string_view name, std::uint64_t slots) const;

private:
    const SetView& view_;
    Status no_memory_;  // allocated in advance, because there may be no memory for it later
};

}  // namespace rueda::core
