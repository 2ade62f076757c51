// `headroom trace --gpu-mem-limit` as a person uses it, with the fake driver of tests/support.
#include <unistd.h>

#include "base/json.h"
#include "cli/command.h"
#include "trace/device_account.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Words = std::vector<std::string>;

class TraceGpu : public testing::Test {
 protected:
  CommandResult trace(const Words& flags, const std::string& route, const std::string& limit) {
    Words words{"trace"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(),
                 {"--out", recording().string(), "--", HEADROOM_GUEST, "proc", route, limit, "7340032"});
    CommandOptions options;
    options.folder = folder_.path();
    options.environment = {{"LD_LIBRARY_PATH", HEADROOM_FAKE_CUDA}};
    return run_headroom(words, options);
  }
  fs::path recording() const { return folder_ / "a.hrec"; }
  TemporaryFolder folder_;
};

TEST_F(TraceGpu, ALimitHoldsForTheWholeCommand) {
  const CommandResult result = trace({"--gpu-mem-limit", "512MiB"}, "all", std::to_string(512 << 20));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("process  another held"));
}

TEST_F(TraceGpu, TheReportSaysWhatWasRefusedAndWhoHeldTheRest) {
  ASSERT_EQ(trace({"--gpu-mem-limit", "0=256MiB"}, "plain", std::to_string(256 << 20)).exit_code, 0);
  const CommandResult text = run_headroom({"report", recording().string()});
  EXPECT_THAT(text.out, HasSubstr("GPU 0, Fake GPU 0, 64.00 GiB, limited to 256.0 MiB"));
  EXPECT_THAT(text.out, HasSubstr("Refused at"));
  EXPECT_THAT(text.out, HasSubstr("held by"));
  const CommandResult json = run_headroom({"report", recording().string(), "--json"});
  auto document = parse_json(json.out);
  ASSERT_TRUE(document);
  const Json& device = get_member(*document, "devices").at(0);
  EXPECT_EQ(get_integer(device, "limit_bytes"), 256 << 20);
  EXPECT_EQ(get_integer(device, "peak_bytes"), 36 * 7340032);
  EXPECT_EQ(get_integer(device, "refused_count"), 2);
  EXPECT_EQ(get_integer(device, "at_end_bytes"), 0);
}

TEST_F(TraceGpu, WrongLimitsAreNamed) {
  const std::vector<std::pair<Words, const char*>> wrong{
      {{"--gpu-mem-limit", "5"}, "is not a size"},
      {{"--gpu-mem-limit", "0GiB"}, "leaves nothing"},
      {{"--gpu-mem-limit", "x=1GiB"}, "names no device"},
      {{"--gpu-mem-limit", "99=1GiB"}, "names no device"},
      {{"--gpu-mem-limit", "0=1GiB,0=2GiB"}, "twice"},
      {{"--share", "a/b"}, "is no name"},
      {{"--share", "headroom-test-nobody"}, "has no limit to share"},
  };
  for (const auto& [flags, sentence] : wrong) {
    const CommandResult result = trace(flags, "plain", "1");
    EXPECT_EQ(result.exit_code, 2) << flags.back();
    EXPECT_THAT(result.err, HasSubstr(sentence)) << flags.back();
    EXPECT_FALSE(fs::exists(recording()));
  }
}

TEST_F(TraceGpu, CommandsShareALimitByName) {
  const std::string name = "headroom-test-" + std::to_string(::getpid());
  {
    // Another command of that name that holds nothing yet.
    ledger::Limits limits;
    for (std::uint64_t& limit : limits.bytes) limit = 256 << 20;
    auto other = trace::DeviceAccount::open(limits, name);
    ASSERT_TRUE(other) << other.error().sentence();
    ledger::Account account;
    ASSERT_TRUE(account.open_shared(other->file().c_str()));
    ASSERT_TRUE(account.charge(0, 100 << 20));
    // It has the limit of the first without being told, and what the first left of it.
    EXPECT_EQ(trace({"--share", name, "--force"}, "threads", std::to_string(256 << 20)).exit_code, 1);
    const CommandResult result = trace({"--share", name, "--gpu-mem-limit", "1GiB", "--force"}, "plain", "1");
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("is not that of --share"));
  }
  const CommandResult alone = trace({"--share", name, "--force"}, "plain", "1");
  EXPECT_EQ(alone.exit_code, 2) << "the last one took the account away";
}

}  // namespace
}  // namespace headroom::test
