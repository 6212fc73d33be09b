// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings/config.hpp"
#include "base/status.hpp"

namespace rueda::core {

/// Takes the stack of this process's main thread. A thread sends a signal to the main thread. Its handler writes the
/// addresses of the stack to memory that was prepared, and the sending thread waits for that
/// (docs/design/0015-stacks.md).
///
/// The disposition of a signal belongs to the process, so the state behind these functions belongs to the process too.
/// The handler may run in any thread of the program. It acts only in the process that installed it, so not in a forked
/// child.

/// The number of the signal that a setting names, and its name for people; 0 and "" for `none`.
[[nodiscard]] int number_of(base::StackSignal signal);
[[nodiscard]] std::string_view name_of(base::StackSignal signal);

/// The main thread's stack as the handler has found it.
struct RawStack {
    std::vector<std::uintptr_t> addresses;  ///< innermost first: the interrupted instruction, then return addresses
    bool is_complete = true;                ///< false: the stack has more frames than were recorded
    std::string traceback;                  ///< what the interpreter's handler wrote; "" if there is none
};

/// Installs the handler. Returns false, and changes nothing, if the program has a handler for this signal, ignores
/// it, or blocks it in the calling thread. Threads: one at a time, together with remove_stack_handler().
[[nodiscard]] bool install_stack_handler(int number);
/// Restores the default action, unless other code has installed a handler meanwhile. No capture may be under way.
void remove_stack_handler();
/// The signal whose handler is installed; 0 if there is none. Any thread.
[[nodiscard]] int stack_signal();

/// Takes the stack of the main thread, which is not the calling thread. It waits until the main thread has run the
/// handler, for `patience` at most. Fails with Unsupported if the handler is not installed, or not any more, and with
/// Timeout if the main thread does not run it. Any thread; one waits for another.
[[nodiscard]] Result<RawStack> capture_main_thread(std::chrono::nanoseconds patience);

/// Whether another process, or the program, has sent the signal since the last call. Any thread.
[[nodiscard]] bool take_print_request();

/// The handler that is now installed for the stack signal belongs to an interpreter: whenever it is called, it writes
/// the traceback of the interrupted thread to the file `descriptor`, from its current offset on. This function installs
/// our handler again, which calls that one. If ours is installed already, only the descriptor changes. -1: our handler
/// does not call the other one any more. The descriptor stays open as long as it is in use. Unsupported if there is no
/// stack signal.
[[nodiscard]] Status adopt_traceback_handler(int descriptor);

}  // namespace rueda::core
