// Libraries that are loaded and unloaded.
#include "unit/preload/traced_program.h"

namespace headroom::test {
namespace {

TEST(TraceLoader, AssignsAllocationsToThePluginLoadedAtThatTime) {
  for (const char* mode : {"fp", "unwind"}) {
    TracedProgram traced(std::string("full=1,stacks=") + mode);
    ASSERT_EQ(traced.run({program_path("traced_loader"), program_path("libtraced_plugin.so"), "5"})
                  .status.exit_code,
              0);
    const SeenRecording seen = traced.root();
    std::vector<const recording::Module*> plugins;
    for (const auto& module : seen.info.modules)
      if (module.path.ends_with("libtraced_plugin.so")) plugins.push_back(&module);
    ASSERT_EQ(plugins.size(), 5u) << mode;
    std::size_t in_place = 0;
    for (const SeenEvent& event : seen.events) {
      if (event.event.size != 99901) continue;
      ASSERT_FALSE(event.frames.empty());
      for (const auto* plugin : plugins)
        if (event.frames[0] >= plugin->start && event.frames[0] < plugin->end &&
            plugin->loaded <= event.event.time && plugin->unloaded && *plugin->unloaded >= event.event.time)
          ++in_place;
    }
    EXPECT_EQ(in_place, 5u) << mode;
    for (const auto* plugin : plugins) EXPECT_EQ(plugin->build_id.size(), 40u);
  }
}

TEST(TraceLoader, DlopenSearchesTheCallersRunpath) {
  // The plugin is opened by its bare name, which is found only through the caller's RUNPATH.
  TracedProgram traced;
  const ProgramRun run = traced.run({program_path("traced_runpath_loader"), "libtraced_plugin.so", "2"});
  EXPECT_EQ(run.status.exit_code, 0);
  EXPECT_EQ(traced.root().allocations_of(99901), 2u);
}

// The process's executable is then the loader, so the program's functions must not be assigned to it.
TEST(TraceLoader, RecordsTheProgramAsAModuleWhenStartedThroughTheLoader) {
  const std::string program = program_path("traced_process");
  TracedProgram direct;
  ASSERT_EQ(direct.run({program, "exit"}).status.exit_code, 7);
  const auto module_of = [&](const SeenRecording& seen) {
    for (const auto& module : seen.info.modules)
      if (module.path == program) return module;
    return recording::Module{};
  };
  const SeenRecording before = direct.root();
  const std::string build_id = module_of(before).build_id;
  ASSERT_FALSE(build_id.empty());
  std::string loader;
  for (const auto& module : before.info.modules)
    if (module.path.find("/ld-") != std::string::npos) loader = module.path;
  if (loader.empty()) GTEST_SKIP() << "no dynamic loader of glibc here";
  TracedProgram traced;
  ASSERT_EQ(traced.run({loader, program, "exit"}).status.exit_code, 7);
  const SeenRecording seen = traced.root();
  EXPECT_EQ(module_of(seen).build_id, build_id);
  EXPECT_EQ(seen.allocations_of(77701), 3u);
}

// Whether the library's calls reach the hooks depends on the loader. The recording notes once that they may
// not.
TEST(TraceLoader, NotesLibrariesOpenedWithDeepbind) {
  const auto notes_of = [](std::vector<std::string> command) {
    TracedProgram traced;
    EXPECT_EQ(traced.run(command).status.exit_code, 0);
    const auto notes = traced.root().info.notes;
    return std::count_if(notes.begin(), notes.end(), [](const std::string& note) {
      return note.find("RTLD_DEEPBIND") != std::string::npos;
    });
  };
  const std::string loader = program_path("traced_loader"), plugin = program_path("libtraced_plugin.so");
  EXPECT_EQ(notes_of({loader, plugin, "3", "deep"}), 1);
  EXPECT_EQ(notes_of({loader, plugin, "3"}), 0);
}

}  // namespace
}  // namespace headroom::test
