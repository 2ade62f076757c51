// Readable names of C++ and Rust symbols.
#pragma once

#include <string>
#include <string_view>

namespace headroom::symbols {

// "_ZN3foo3barEi" is "foo::bar(int)", "_RNvC3foo3bar" (Rust, v0) and "_ZN3foo3bar17h0123456789abcdefE" (Rust,
// legacy) are "foo::bar". A version ("@@GLIBC_2.2.5") is cut off, "@plt" is kept. Names that are not mangled,
// and those whose readable form is longer than a reader would read (16 KiB), are returned as they are.
std::string demangle(std::string_view symbol);

// True for names that demangle() may turn into readable ones.
bool is_mangled(std::string_view symbol);

}  // namespace headroom::symbols
