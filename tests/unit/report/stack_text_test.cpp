#include "report/recording/stack_text.h"

#include <gtest/gtest.h>

namespace headroom::report {
namespace {

TEST(ShortFunction, RemovesParametersAndTemplateArguments) {
  for (const auto& [function, name] : std::initializer_list<std::pair<const char*, const char*>>{
           {"main", "main"},
           {"libengine.so (function unknown)", "libengine.so (function unknown)"},
           {"Session::run(std::span<Tensor const, 4ul>) const", "Session::run"},
           {"void copy<float, (Layout)2>(float*, int (*)(int))", "copy"},
           {"(anonymous namespace)::load(char const*)", "load"},
           {"Functor::operator()(int) const", "Functor::operator()"},
           {"operator<<(std::ostream&, int)", "operator<<"},
           {"std::vector<std::pair<int, int>>::push_back(int&&)", "std::vector::push_back"},
           {"libfoo.so+0x1a2b", "libfoo.so+0x1a2b"},
           {"make_state(unsigned long) [clone .constprop.0]", "make_state"},
           {"void copy<float>(float*) const [clone .isra.0] [clone .cold]", "copy"},
           {"make_state.constprop.0", "make_state"},
           {"", ""}})
    EXPECT_EQ(short_function(function), name);
}

TEST(OneLineStack, StartsAfterAllocatorFunctionsAndEndsAtMain) {
  EXPECT_EQ(one_line_stack({"operator new(unsigned long)", "PyObject_Malloc", "descend(int)", "descend(int)",
                            "main", "__libc_start_call_main"},
                           80),
            "descend ← main");
  EXPECT_EQ(one_line_stack(std::vector<std::string>{}, 80), "(no stack was taken)");
  EXPECT_EQ(one_line_stack({"xmalloc", "xcalloc"}, 80), "xmalloc ← xcalloc") << "there is nothing else";
}

TEST(ModuleOffsets, NameThePlaceIfFunctionsAreUnknown) {
  recording::RecordingInfo info;
  recording::Module module;
  module.path = "/usr/lib/libfoo.so";
  module.load_bias = 0x7000;
  module.start = 0x8000;
  module.end = 0x9000;
  info.modules.push_back(module);
  const FrameNames names = module_offsets(info);
  EXPECT_EQ(names(0x8011), std::vector<std::string>{"libfoo.so+0x1010"})
      << "the address of the call, not the return address";
  EXPECT_EQ(names(0x9001), std::vector<std::string>{"0x9001"});
}

}  // namespace
}  // namespace headroom::report
