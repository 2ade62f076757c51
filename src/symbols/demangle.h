// Demangles C++ and Rust symbols.
#pragma once

#include <string>
#include <string_view>

namespace headroom::symbols {

// "_ZN3foo3barEi" becomes "foo::bar(int)". "_RNvC3foo3bar" (Rust, v0) and "_ZN3foo3bar17h0123456789abcdefE"
// (Rust, legacy) become "foo::bar". A version ("@@GLIBC_2.2.5") is removed; "@plt" stays. Other names are
// returned unchanged, and so are names whose readable form is longer than 16 KiB.
std::string demangle(std::string_view symbol);

// True for names that demangle() may change.
bool is_mangled(std::string_view symbol);

}  // namespace headroom::symbols
