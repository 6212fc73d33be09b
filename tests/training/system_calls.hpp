// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file Replaces the C library's functions for files in the whole test program, including those that the C++ library
/// calls. A test can choose a call by its number. This call fails, or the process is killed at this call. The test can
/// also see the order of the calls.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rueda::training::test {

enum class Fault : std::uint8_t {
    none,
    input_output_error,  ///< the call fails with EIO
    no_space,            ///< the call fails with ENOSPC
    short_write,         ///< a write stores only half of the bytes; other calls work
    death,               ///< the process is killed before the call, as by SIGKILL
    death_in_write,      ///< a write stores half of the bytes, and then the process is killed
};

/// Makes one later call fail. If `call` is 1, the next call fails. No other thread may use files while this function
/// runs.
void set_fault(Fault fault, int call);
/// Makes every write fail with ENOSPC, or lets writes work again. Threads: any.
void set_disk_full(bool is_full);
/// hold_writes(true) holds every write until hold_writes(false) is called. Threads: any.
void hold_writes(bool hold);

/// Makes open() of exactly this path fail with EACCES. If the path is empty, no path is forbidden. Only one test at a
/// time may use this function.
void forbid_opening(const std::string& path);
/// Makes the start of every thread fail with EAGAIN, or lets it work again. Threads: any.
void refuse_threads(bool refuse);

/// Returns the number of calls since set_fault().
int counted_calls();

/// Records calls such as "fsync /path/of/the/file" and "rename /from /to". Only one test at a time may do so.
void start_recording();
std::vector<std::string> stop_recording();

}  // namespace rueda::training::test
