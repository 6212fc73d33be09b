// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

namespace rueda::tests::gpu {

/// Whether the process exists and has not ended. A process that has ended counts as ended even if its parent has not
/// waited for it yet.
[[nodiscard]] bool is_alive(int process);

}  // namespace rueda::tests::gpu
