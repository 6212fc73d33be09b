// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ops/cuda/host_kernels.hpp"

namespace rueda::ops::cuda::test {

/// Executes the PTX of kernels on the host, one thread after the other. It knows the instructions that the compilers
/// use for this folder's kernels, and throws std::runtime_error for any other one. The memory is the host's memory. An
/// access that is not aligned to its size also throws.
///
/// This machine finds errors that the host build cannot have: in inline PTX, and in the compilers' output. It does not
/// show how fast a kernel is.
class PtxMachine {
public:
    explicit PtxMachine(std::string_view text);

    /// Runs a kernel with one parameter of `bytes` bytes.
    void run(const std::string& kernel, Dimensions grid, Dimensions block, const void* argument,
             std::size_t bytes) const;

    [[nodiscard]] std::size_t kernels() const { return kernels_.size(); }

private:
    enum class Kind : std::uint8_t { none, reg, constant, argument, special };
    struct Operand {
        Kind kind = Kind::none;
        std::uint64_t value = 0;  ///< the number of the register, the value of the constant, or an offset
    };
    /// A type: its letter u, s, b, f or p (predicate), and its number of bits.
    struct Type {
        char letter = 'b';
        std::uint32_t bits = 0;
    };
    struct Instruction {
        std::string name;  ///< the instruction as written, for messages
        std::string op;    ///< its first word
        int code = 0;      ///< the operation and the comparison, as a number
        Type type;         ///< the last type in the instruction's name
        Type to;           ///< the first type in the name, if the name contains two types
        std::vector<Operand> operands;
        std::size_t split = 0;  ///< the number of registers in braces, if an operand consists of such registers
        std::int64_t guard = -1;
        bool guard_is_inverted = false;
        std::size_t target = 0;
    };
    struct Kernel {
        std::vector<Instruction> code;
        std::size_t registers = 0;
    };
    struct Thread;

    static Kernel kernel_of(std::string_view body);
    static Instruction instruction_of(std::string_view statement, std::map<std::string, std::size_t>& registers);

    std::map<std::string, Kernel> kernels_;
};

}  // namespace rueda::ops::cuda::test
