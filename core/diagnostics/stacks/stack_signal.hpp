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

/// Takes the stack of this process's main thread. A thread sends a signal to the main thread. The signal's handler
/// writes the addresses of the stack to memory that was prepared, and the sending thread waits until the handler has
/// written them (docs/design/0015-stacks.md).
///
/// The disposition of a signal belongs to the process, so the state behind these functions belongs to the process too.
/// The handler may run in any thread of the program. The handler does nothing in a forked child, because it acts only
/// in the process that installed it.

/// number_of() returns the number of the signal that a setting names, and name_of() returns the signal's name for
/// people. For the setting `none` they return 0 and "".
[[nodiscard]] int number_of(base::StackSignal signal);
[[nodiscard]] std::string_view name_of(base::StackSignal signal);

/// The main thread's stack at the time when the handler ran.
struct RawStack {
    std::vector<std::uintptr_t> addresses;  ///< innermost first: the interrupted instruction, then return addresses
    bool is_complete = true;                ///< whether all frames of the stack were recorded
    std::string traceback;                  ///< what the interpreter's handler wrote; "" if there is none
};

/// Installs the handler. Returns false, and changes nothing, if the program has a handler for this signal, ignores it,
/// or blocks it in the calling thread. Threads: only one thread at a time may be in this function or in
/// remove_stack_handler().
[[nodiscard]] bool install_stack_handler(int number);
/// Restores the default action, unless other code has replaced Rueda's handler. No thread may be taking a stack.
void remove_stack_handler();
/// The signal whose handler is installed; 0 if there is none. Any thread.
[[nodiscard]] int stack_signal();

/// Takes the stack of the main thread, which is not the calling thread. Waits until the main thread has run the
/// handler, for `patience` at most. Fails with Unsupported if the handler is not installed, and with Timeout if the
/// main thread does not run the handler in time. Any thread; a second caller waits until the first one has finished.
[[nodiscard]] Result<RawStack> capture_main_thread(std::chrono::nanoseconds patience);

/// Whether the signal has come from another process, or from the program, since the last call. Any thread.
[[nodiscard]] bool take_print_request();

/// Call this when an interpreter (Python) has just replaced Rueda's handler of the stack signal by its own handler.
/// Whenever the interpreter's handler is called, it writes the traceback of the interrupted thread to the file
/// `descriptor`, from the file's current offset on. This function installs Rueda's handler again. From now on, Rueda's
/// handler also calls the interpreter's handler. If Rueda's handler is installed already, only the descriptor changes.
/// If `descriptor` is -1, Rueda's handler does not call the interpreter's any more. The caller must keep the descriptor
/// open as long as it is in use. Fails with Unsupported if there is no stack signal.
[[nodiscard]] Status adopt_traceback_handler(int descriptor);

}  // namespace rueda::core
