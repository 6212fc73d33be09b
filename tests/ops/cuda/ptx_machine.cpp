// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ptx_machine.hpp"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "reference.hpp"

namespace rueda::ops::cuda::test {
namespace {

// The words of all instructions that the machine knows. A word's position is the number of its instruction.
constexpr const char* kOps[] = {"mov",  "add",  "sub", "mul",  "div", "rem", "min", "max", "neg",
                                "not",  "and",  "or",  "xor",  "shl", "shr", "bfe", "bfi", "prmt",
                                "selp", "setp", "cvt", "cvta", "ld",  "st",  "bra", "ret", "sqrt"};
enum Op : int {
    mov,
    add,
    sub,
    mul,
    div_,
    rem,
    min_,
    max_,
    neg,
    not_,
    and_,
    or_,
    xor_,
    shl,
    shr,
    bfe,
    bfi,
    prmt,
    selp,
    setp,
    cvt,
    cvta,
    ld,
    st,
    bra,
    ret,
    sqrt_
};
constexpr int kMulWide = 100;
constexpr int kMulHigh = 101;

constexpr const char* kSpecials[] = {"%tid.x", "%ctaid.x", "%ntid.x", "%nctaid.x", "%ctaid.y"};

[[noreturn]] void fail(const std::string& what, std::string_view where) {
    throw std::runtime_error("PTX: " + what + ": " + std::string(where));
}

std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\n\r");
    return begin == std::string_view::npos ? std::string_view()
                                           : text.substr(begin, text.find_last_not_of(" \t\n\r") - begin + 1);
}

std::string without_comments(std::string_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text.substr(i, 2) == "//") {
            i = text.find('\n', i);
            if (i == std::string_view::npos) {
                break;
            }
        }
        result += text[i];
    }
    return result;
}

std::vector<std::string> words_of(std::string_view text, char separator) {
    std::vector<std::string> words;
    std::size_t begin = 0;
    while (begin <= text.size()) {
        const std::size_t end = std::min(text.find(separator, begin), text.size());
        words.emplace_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return words;
}

std::uint64_t masked(std::uint64_t value, std::uint32_t bits) {
    return bits >= 64 ? value : value & ((std::uint64_t{1} << bits) - 1);
}
std::int64_t extended(std::uint64_t value, std::uint32_t bits) {
    return static_cast<std::int64_t>(value << (64 - bits)) >> (64 - bits);
}

float as_float(std::uint64_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits)); }
double as_number(std::uint64_t bits) { return std::bit_cast<double>(bits); }
/// GPUs return this NaN from every operation on float32.
std::uint64_t bits_of(float v) { return std::isnan(v) ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(v); }
std::uint64_t bits_of(double v) { return std::bit_cast<std::uint64_t>(v); }

/// Converts a double to an integer. The number is truncated and limited to the range; NaN becomes 0.
std::uint64_t integer_of(double value, bool is_signed, std::uint32_t bits) {
    if (std::isnan(value)) {
        return 0;
    }
    const long double whole = std::trunc(static_cast<long double>(value));
    const long double end = std::ldexp(1.0L, static_cast<int>(is_signed ? bits - 1 : bits));
    if (is_signed) {
        const long double limited = whole >= end ? end - 1 : whole < -end ? -end : whole;
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(limited));
    }
    return static_cast<std::uint64_t>(whole >= end ? end - 1 : whole < 0 ? 0.0L : whole);
}

template <class T>
bool ordered(std::string_view comparison, T a, T b) {
    if (comparison == "eq") {
        return a == b;
    }
    if (comparison == "ne") {
        return a != b;
    }
    if (comparison == "lt" || comparison == "lo") {
        return a < b;
    }
    if (comparison == "le" || comparison == "ls") {
        return a <= b;
    }
    return comparison == "gt" || comparison == "hi" ? a > b : a >= b;
}

/// Compares floating-point numbers. A comparison that ends with u is true if one of the numbers is NaN.
bool compared(std::string_view comparison, double a, double b) {
    const bool has_nan = std::isnan(a) || std::isnan(b);
    if (comparison == "nan" || comparison == "num") {
        return has_nan == (comparison == "nan");
    }
    if (comparison.size() == 3 && comparison[2] == 'u') {
        return has_nan || ordered(comparison.substr(0, 2), a, b);
    }
    return !has_nan && ordered(comparison, a, b);
}

}  // namespace

PtxMachine::PtxMachine(std::string_view commented) {
    const std::string text = without_comments(commented);
    const std::string entry = ".entry ";
    for (std::size_t at = text.find(entry); at != std::string::npos; at = text.find(entry, at)) {
        const std::size_t name = at + entry.size();
        const std::string kernel = text.substr(name, text.find('(', name) - name);
        const std::size_t begin = text.find('{', name) + 1;
        std::size_t end = begin;
        for (int depth = 1; depth > 0; ++end) {
            depth += text.at(end) == '{' ? 1 : text[end] == '}' ? -1 : 0;
        }
        kernels_.emplace(kernel, kernel_of(std::string_view(text).substr(begin, end - 1 - begin)));
        at = end;
    }
}

/// Divides the body into statements. A brace at the beginning of a statement opens or closes a scope, and is ignored;
/// other braces belong to operands.
PtxMachine::Kernel PtxMachine::kernel_of(std::string_view body) {
    Kernel kernel;
    std::map<std::string, std::size_t> registers;
    std::map<std::string, std::size_t> labels;
    std::vector<std::pair<std::size_t, std::string>> jumps;
    for (const std::string& piece : words_of(body, ';')) {
        std::string_view statement = trimmed(piece);
        while (!statement.empty()) {
            const std::size_t colon = statement.find(':');
            if (statement[0] == '{' || statement[0] == '}') {
                statement = trimmed(statement.substr(1));
            } else if (colon != std::string_view::npos) {
                labels[std::string(trimmed(statement.substr(0, colon)))] = kernel.code.size();
                statement = trimmed(statement.substr(colon + 1));
            } else {
                break;
            }
        }
        if (statement.empty() || statement[0] == '.') {
            continue;
        }
        kernel.code.push_back(instruction_of(statement, registers));
        if (kernel.code.back().code == bra) {
            jumps.emplace_back(kernel.code.size() - 1,
                               std::string(trimmed(statement.substr(statement.find_last_of(" \t")))));
        }
    }
    for (const auto& [from, label] : jumps) {
        kernel.code[from].target = labels.at(label);
    }
    kernel.registers = registers.size();
    return kernel;
}

PtxMachine::Instruction PtxMachine::instruction_of(std::string_view statement,
                                                   std::map<std::string, std::size_t>& registers) {
    Instruction result;
    result.name = statement;
    const auto number_of = [&](const std::string& name) {
        return registers.emplace(name, registers.size()).first->second;
    };
    if (statement[0] == '@') {
        const std::size_t end = statement.find_first_of(" \t");
        result.guard_is_inverted = statement[1] == '!';
        result.guard = static_cast<std::int64_t>(number_of(
            std::string(statement.substr(result.guard_is_inverted ? 2 : 1, end - (result.guard_is_inverted ? 2 : 1)))));
        statement = trimmed(statement.substr(end));
    }
    const std::size_t end = std::min(statement.find_first_of(" \t"), statement.size());
    const std::vector<std::string> words = words_of(statement.substr(0, end), '.');
    result.op = words[0];
    for (std::size_t i = 0; i < std::size(kOps); ++i) {
        if (words[0] == kOps[i]) {
            result.code = static_cast<int>(i);
            break;
        }
        if (i + 1 == std::size(kOps)) {
            fail("unknown instruction", statement);
        }
    }
    for (const std::string& word : words) {
        if (word == "wide") {
            result.code = kMulWide;
        } else if (word == "hi" && words[0] == "mul") {
            result.code = kMulHigh;
        } else if (word == "pred") {
            result.to = result.type;
            result.type = {'p', 1};
        } else if (word.size() > 1 && std::string_view("usbf").find(word[0]) != std::string_view::npos &&
                   word.find_first_not_of("0123456789", 1) == std::string::npos) {
            result.to = result.type;
            result.type = {word[0], static_cast<std::uint32_t>(std::stoul(word.substr(1)))};
        } else if (words[0] == "setp" && word != words[0]) {
            result.op = word;  // the comparison
        }
    }
    if (result.code == bra || result.code == ret) {
        return result;
    }
    std::string_view rest = statement.substr(end);
    while (!(rest = trimmed(rest)).empty()) {
        const bool is_group = rest[0] == '{';
        const std::size_t stop = is_group ? rest.find('}') : std::min(rest.find(','), rest.size());
        std::string_view token = trimmed(rest.substr(is_group ? 1 : 0, stop - (is_group ? 1 : 0)));
        const std::size_t comma = rest.find(',', stop);
        rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
        const auto add_operand = [&](std::string_view name) {
            const std::string text(trimmed(name));
            for (std::size_t i = 0; i < std::size(kSpecials); ++i) {
                if (text == kSpecials[i]) {
                    result.operands.push_back({Kind::special, i});
                    return;
                }
            }
            if (text.find("_param_0") != std::string::npos) {
                result.operands.push_back({Kind::argument, 0});
            } else if (text[0] == '%' || std::isalpha(static_cast<unsigned char>(text[0])) != 0) {
                result.operands.push_back({Kind::reg, number_of(text)});
            } else if (text.substr(0, 2) == "0d" || text.substr(0, 2) == "0f") {
                result.operands.push_back({Kind::constant, std::stoull(text.substr(2), nullptr, 16)});
            } else if (text[0] == '-') {
                result.operands.push_back({Kind::constant, static_cast<std::uint64_t>(std::stoll(text, nullptr, 0))});
            } else {
                result.operands.push_back({Kind::constant, std::stoull(text, nullptr, 0)});
            }
        };
        if (token[0] == '[') {
            token = token.substr(1, token.size() - 2);
            const std::size_t plus = token.find('+');
            add_operand(token.substr(0, plus));
            add_operand(plus == std::string_view::npos ? "0" : token.substr(plus + 1));
        } else if (is_group) {
            const std::vector<std::string> names = words_of(token, ',');
            for (const std::string& name : names) {
                add_operand(name);
            }
            result.split = names.size();
        } else {
            add_operand(token);
        }
    }
    return result;
}

struct PtxMachine::Thread {
    std::vector<std::uint64_t> registers;
    std::uint64_t argument;
    std::uint64_t specials[std::size(kSpecials)];

    [[nodiscard]] std::uint64_t read(const Operand& operand) const {
        switch (operand.kind) {
            case Kind::reg:
                return registers[operand.value];
            case Kind::constant:
                return operand.value;
            case Kind::argument:
                return argument;
            case Kind::special:
                return specials[operand.value];
            case Kind::none:
                break;
        }
        return 0;
    }
    [[nodiscard]] std::uint64_t read(const Instruction& i, std::size_t operand) const {
        return masked(read(i.operands.at(operand)), i.type.bits);
    }
    [[nodiscard]] std::int64_t read_signed(const Instruction& i, std::size_t operand) const {
        return extended(read(i, operand), i.type.bits);
    }
    void write(const Operand& operand, std::uint64_t value) { registers.at(operand.value) = value; }

    void move(const Instruction& i);
    void access(const Instruction& i);
    [[nodiscard]] std::uint64_t converted(const Instruction& i) const;
    [[nodiscard]] std::uint64_t computed(const Instruction& i) const;
    [[nodiscard]] std::uint64_t computed_float(const Instruction& i) const;
    [[nodiscard]] std::uint64_t computed_signed(const Instruction& i) const;
    [[nodiscard]] std::uint64_t computed_unsigned(const Instruction& i) const;
};

/// Executes mov, also from and to a group of registers.
void PtxMachine::Thread::move(const Instruction& i) {
    if (i.split == 0) {
        write(i.operands[0], read(i, 1));
        return;
    }
    const auto parts = static_cast<std::uint32_t>(i.split);
    const std::uint32_t bits = i.type.bits / parts;
    const bool is_packed = i.name.find('{') > i.name.find(',');
    std::uint64_t all = is_packed ? 0 : read(i, parts);
    for (std::uint32_t part = 0; part < parts; ++part) {
        if (is_packed) {
            all |= masked(read(i.operands[1 + part]), bits) << (part * bits);
        } else {
            write(i.operands[part], masked(all >> (part * bits), bits));
        }
    }
    if (is_packed) {
        write(i.operands[0], all);
    }
}

/// ld and st.
void PtxMachine::Thread::access(const Instruction& i) {
    const std::size_t size = i.type.bits / 8;
    const std::size_t number = std::max<std::size_t>(i.split, 1);
    const std::size_t at = i.code == ld ? number : 0;
    const std::uint64_t address = read(i.operands.at(at)) + i.operands.at(at + 1).value;
    if (address % (size * number) != 0) {
        fail("misaligned address", i.name);
    }
    auto* memory = reinterpret_cast<std::byte*>(address);
    for (std::size_t part = 0; part < number; ++part, memory += size) {
        if (i.code == st) {
            const std::uint64_t value = read(i.operands.at(2 + part));
            std::memcpy(memory, &value, size);
            continue;
        }
        std::uint64_t value = 0;
        std::memcpy(&value, memory, size);
        write(i.operands[part],
              i.type.letter == 's' ? static_cast<std::uint64_t>(extended(value, i.type.bits)) : value);
    }
}

std::uint64_t PtxMachine::Thread::converted(const Instruction& i) const {
    const std::uint64_t bits = read(i, 1);
    if (i.type.letter != 'f') {
        const std::int64_t value = extended(bits, i.type.bits);
        const bool is_signed = i.type.letter == 's';
        if (i.to.letter == 'f') {
            return i.to.bits == 64 ? bits_of(is_signed ? static_cast<double>(value) : static_cast<double>(bits))
                                   : bits_of(is_signed ? static_cast<float>(value) : static_cast<float>(bits));
        }
        return masked(is_signed ? static_cast<std::uint64_t>(value) : bits, i.to.bits);
    }
    const double value = i.type.bits == 64   ? as_number(bits)
                         : i.type.bits == 32 ? static_cast<double>(as_float(bits))
                                             : ops::test::decode(DType::float16, static_cast<std::uint16_t>(bits));
    if (i.to.letter != 'f') {
        return integer_of(value, i.to.letter == 's', i.to.bits);
    }
    if (i.to.bits == 16) {
        return std::isnan(value) ? 0x7FFF : ops::test::encode(DType::float16, value);
    }
    return i.to.bits == 32 ? bits_of(static_cast<float>(value)) : bits_of(value);
}

std::uint64_t PtxMachine::Thread::computed_float(const Instruction& i) const {
    const auto apply = [&](auto a, auto b) {
        switch (i.code) {
            case add:
                return bits_of(a + b);
            case sub:
                return bits_of(a - b);
            case mul:
                return bits_of(a * b);
            case div_:
                return bits_of(a / b);
            case neg:
                return bits_of(-a);
            case sqrt_:
                return bits_of(std::sqrt(a));
            default:
                fail("unknown operation on floating-point numbers", i.name);
        }
    };
    const std::uint64_t a = read(i, 1);
    const std::uint64_t b = i.operands.size() > 2 ? read(i, 2) : 0;
    return i.type.bits == 64 ? apply(as_number(a), as_number(b)) : apply(as_float(a), as_float(b));
}

std::uint64_t PtxMachine::Thread::computed_signed(const Instruction& i) const {
    const std::int64_t a = read_signed(i, 1);
    const std::int64_t b = i.operands.size() > 2 ? read_signed(i, 2) : 0;
    switch (i.code) {
        case div_:
            return static_cast<std::uint64_t>(a / b);
        case rem:
            return static_cast<std::uint64_t>(a % b);
        case min_:
            return static_cast<std::uint64_t>(std::min(a, b));
        case max_:
            return static_cast<std::uint64_t>(std::max(a, b));
        case shr:
            return static_cast<std::uint64_t>(a >> std::min<std::uint64_t>(read(i.operands[2]), i.type.bits - 1));
        case kMulWide:
            return static_cast<std::uint64_t>(a * b);
        default:
            return computed_unsigned(i);
    }
}

std::uint64_t PtxMachine::Thread::computed_unsigned(const Instruction& i) const {
    const std::uint64_t a = read(i, 1);
    const std::uint64_t b = i.operands.size() > 2 ? read(i, 2) : 0;
    const auto third = [&] { return masked(read(i.operands.at(3)), 32); };
    switch (i.code) {
        case add:
            return a + b;
        case sub:
            return a - b;
        case mul:
        case kMulWide:
            return a * b;
        case kMulHigh: {
            __extension__ using Wide = unsigned __int128;
            return static_cast<std::uint64_t>((static_cast<Wide>(a) * b) >> i.type.bits);
        }
        case div_:
            return a / b;
        case rem:
            return a % b;
        case min_:
            return std::min(a, b);
        case max_:
            return std::max(a, b);
        case neg:
            return ~a + 1;
        case not_:
            return ~a;
        case and_:
            return a & b;
        case or_:
            return a | b;
        case xor_:
            return a ^ b;
        case shl:
            return read(i.operands[2]) >= i.type.bits ? 0 : a << read(i.operands[2]);
        case shr:
            return read(i.operands[2]) >= i.type.bits ? 0 : a >> read(i.operands[2]);
        case bfe:
            return masked(a >> masked(b, 8), static_cast<std::uint32_t>(third()));
        case bfi: {
            const std::uint64_t position = third();
            const std::uint64_t ones = masked(~std::uint64_t{0}, static_cast<std::uint32_t>(read(i.operands.at(4))));
            return (b & ~(ones << position)) | ((a & ones) << position);
        }
        case prmt: {
            const std::uint64_t bytes = a | (b << 32);
            std::uint64_t result = 0;
            for (std::uint32_t byte = 0; byte < 4; ++byte) {
                const std::uint64_t selector = (third() >> (4 * byte)) & 15;
                const std::uint64_t value = (bytes >> (8 * (selector & 7))) & 255;
                result |= ((selector & 8) == 0 ? value : (value >> 7) * 255) << (8 * byte);
            }
            return result;
        }
        default:
            fail("unknown operation on integers", i.name);
    }
}

std::uint64_t PtxMachine::Thread::computed(const Instruction& i) const {
    switch (i.code) {
        case cvt:
            return converted(i);
        case cvta:
            return read(i, 1);
        case selp:
            return (read(i.operands.at(3)) & 1) != 0 ? read(i, 1) : read(i, 2);
        case setp:
            if (i.type.letter == 'f') {
                return i.type.bits == 64 ? compared(i.op, as_number(read(i, 1)), as_number(read(i, 2)))
                                         : compared(i.op, static_cast<double>(as_float(read(i, 1))),
                                                    static_cast<double>(as_float(read(i, 2))));
            }
            return i.type.letter == 's' ? ordered(i.op, read_signed(i, 1), read_signed(i, 2))
                                        : ordered(i.op, read(i, 1), read(i, 2));
        default:
            break;
    }
    const std::uint64_t value = i.type.letter == 'f'   ? computed_float(i)
                                : i.type.letter == 's' ? computed_signed(i)
                                                       : computed_unsigned(i);
    return masked(value, i.code == kMulWide ? 2 * i.type.bits : i.type.bits);
}

void PtxMachine::run(const std::string& name, Dimensions grid, Dimensions block, const void* argument,
                     std::size_t bytes) const {
    const Kernel& kernel = kernels_.at(name);
    std::vector<std::uint64_t> copy((bytes + 7) / 8);  // aligned as CUDA aligns parameters
    std::memcpy(copy.data(), argument, bytes);
    for (std::uint64_t index = 0; index < std::uint64_t{grid.x} * grid.y * block.x; ++index) {
        const std::uint64_t position = index / block.x;
        Thread thread{std::vector<std::uint64_t>(kernel.registers, 0xDEADBEEFDEADBEEF),
                      reinterpret_cast<std::uint64_t>(copy.data()),
                      {index % block.x, position % grid.x, block.x, grid.x, position / grid.x}};
        for (std::size_t at = 0;; ++at) {
            const Instruction& i = kernel.code.at(at);
            if (i.guard >= 0 &&
                ((thread.registers[static_cast<std::size_t>(i.guard)] & 1) == 0) != i.guard_is_inverted) {
                continue;
            }
            if (i.code == ret) {
                break;
            }
            if (i.code == bra) {
                at = i.target - 1;
            } else if (i.code == mov) {
                thread.move(i);
            } else if (i.code == ld || i.code == st) {
                thread.access(i);
            } else {
                thread.write(i.operands[0], thread.computed(i));
            }
        }
    }
}

}  // namespace rueda::ops::cuda::test
