// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stacks/libdw.hpp"

#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>

namespace rueda::core {
namespace {

template <class Function>
bool find(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    return function != nullptr;
}

}  // namespace

/// The functions of the library that Rueda calls. Their names are those of libdwfl.h, without the prefix dwfl_. Handles
/// of the library are declared as void*, and Dwarf_Addr is declared as std::uint64_t.
struct Libdw::Functions {
    /// Struct Dwfl_Callbacks of libdwfl.h. Its members are pointers to functions, and none of them is called from here.
    struct Callbacks {
        void* find_elf = nullptr;
        void* find_debuginfo = nullptr;
        void* section_address = nullptr;
        char** debuginfo_path = nullptr;  ///< null: the usual places
    };

    Callbacks callbacks;
    void* (*begin)(const Callbacks* callbacks) = nullptr;
    void (*end)(void* session) = nullptr;
    void (*report_begin)(void* session) = nullptr;
    int (*linux_proc_report)(void* session, pid_t pid) = nullptr;
    int (*report_end)(void* session, void* removed, void* argument) = nullptr;
    void* (*addrmodule)(void* session, std::uint64_t address) = nullptr;
    void* (*module_getsrc)(void* module, std::uint64_t address) = nullptr;
    const char* (*lineinfo)(void* line, std::uint64_t* address, int* number, int* column, std::uint64_t* modified,
                            std::uint64_t* length) = nullptr;
    const char* (*module_addrname)(void* module, std::uint64_t address) = nullptr;

    [[nodiscard]] bool find_all(void* library) {
        callbacks.find_elf = dlsym(library, "dwfl_linux_proc_find_elf");
        // dwfl_standard_find_debuginfo would also ask a server for debug information (DEBUGINFOD_URLS), which may take
        // minutes.
        callbacks.find_debuginfo = dlsym(library, "dwfl_build_id_find_debuginfo");
        return callbacks.find_elf != nullptr && callbacks.find_debuginfo != nullptr &&
               find(library, "dwfl_begin", begin) && find(library, "dwfl_end", end) &&
               find(library, "dwfl_report_begin", report_begin) &&
               find(library, "dwfl_linux_proc_report", linux_proc_report) &&
               find(library, "dwfl_report_end", report_end) && find(library, "dwfl_addrmodule", addrmodule) &&
               find(library, "dwfl_module_getsrc", module_getsrc) && find(library, "dwfl_lineinfo", lineinfo) &&
               find(library, "dwfl_module_addrname", module_addrname);
    }
};

std::unique_ptr<Libdw> Libdw::load() {
    void* const library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    Functions functions;
    if (library == nullptr || !functions.find_all(library)) {
        return nullptr;
    }
    return std::unique_ptr<Libdw>(new Libdw(functions));
}

Libdw::Libdw(const Functions& functions) : functions_(std::make_unique<Functions>(functions)) {}

Libdw::~Libdw() {
    if (session_ != nullptr) {
        functions_->end(session_);
    }
}

bool Libdw::read_modules() {
    if (session_ == nullptr) {
        session_ = functions_->begin(&functions_->callbacks);
    }
    if (session_ == nullptr) {
        return false;
    }
    functions_->report_begin(session_);
    const bool is_read = functions_->linux_proc_report(session_, getpid()) == 0;
    return functions_->report_end(session_, nullptr, nullptr) == 0 && is_read;
}

std::optional<Libdw::Line> Libdw::line_of(std::uintptr_t address) const {
    void* const module = functions_->addrmodule(session_, address);
    void* const line = module != nullptr ? functions_->module_getsrc(module, address) : nullptr;
    Line found;
    const char* const file =
        line != nullptr ? functions_->lineinfo(line, nullptr, &found.number, nullptr, nullptr, nullptr) : nullptr;
    if (file == nullptr || found.number <= 0) {
        return std::nullopt;
    }
    found.file = file;
    return found;
}

std::string Libdw::symbol_of(std::uintptr_t address) const {
    void* const module = functions_->addrmodule(session_, address);
    const char* const name = module != nullptr ? functions_->module_addrname(module, address) : nullptr;
    return name == nullptr ? "" : name;
}

}  // namespace rueda::core
