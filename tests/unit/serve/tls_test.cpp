#include "serve/httplib/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "support/test_support.h"

namespace headroom::serve {
namespace {
using testing::HasSubstr;

TEST(Tls, NamesTheLibrariesThatItCannotOpen) {
  constexpr std::array names{"libssl.so.none", "libssl.so.0"};
  const auto ssl = SslLibrary::open(names);
  ASSERT_FALSE(ssl.has_value());
  EXPECT_EQ(ssl.error().kind, ErrorKind::input);
  EXPECT_EQ(ssl.error().sentence(),
            "cannot serve HTTPS: cannot open OpenSSL's library (libssl.so.none or libssl.so.0); "
            "install libssl3 or libssl1.1 (Debian and Ubuntu), or omit --tls-cert and --tls-key");
}

TEST(Tls, RejectsALibraryWithoutOpenSslsFunctions) {
  constexpr std::array names{"libm.so.6"};
  EXPECT_FALSE(SslLibrary::open(names).has_value());
}

TEST(Tls, OpensTheFirstInstalledLibrary) {
  constexpr std::array names{"libssl.so.none", "libssl.so.3"};
  const auto ssl = SslLibrary::open(names);
  ASSERT_TRUE(ssl.has_value()) << ssl.error().sentence();
  EXPECT_NE(ssl->server_method(), nullptr);
}

class TlsFilesTest : public testing::Test {
 protected:
  // Writes KIND.cert and KIND.key with these arguments of `openssl req`.
  void make_pair(const std::string& kind, std::vector<std::string> more) {
    SpawnOptions options;
    options.command = {"openssl", "req", "-x509", "-subj", "/CN=a"};
    more.insert(more.end(), {"-keyout", path(kind + ".key"), "-out", path(kind + ".cert")});
    options.command.insert(options.command.end(), more.begin(), more.end());
    auto process = Subprocess::spawn(options);
    ASSERT_TRUE(process) << process.error().sentence();
    ASSERT_TRUE(process->wait().success());
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  // Empty if the server can use them.
  std::string error_of(const std::string& certificate, const std::string& key) const {
    const auto server = TlsServer::open({folder_ / certificate, folder_ / key});
    return server ? "" : server.error().sentence();
  }
  test::TemporaryFolder folder_;
};

TEST_F(TlsFilesTest, NamesTheFileThatIsMissing) {
  test::write_text(folder_ / "a.cert", "x");
  EXPECT_EQ(error_of("none.cert", "a.key"),
            "cannot read " + path("none.cert") + ": No such file or directory; check --tls-cert");
  EXPECT_EQ(error_of("a.cert", "none.key"),
            "cannot read " + path("none.key") + ": No such file or directory; check --tls-key");
}

TEST_F(TlsFilesTest, NamesTheFileThatIsNotPem) {
  make_pair("a", {"-newkey", "rsa:2048", "-nodes"});
  EXPECT_EQ(error_of("a.cert", "a.key"), "");
  test::write_text(folder_ / "text", "neither certificate nor key");
  EXPECT_THAT(error_of("text", "a.key"), HasSubstr("cannot use the certificate " + path("text") + ": "));
  EXPECT_THAT(error_of("a.cert", "text"), HasSubstr("cannot use the key " + path("text") + ": "));
}

TEST_F(TlsFilesTest, RejectsAKeyWithAPassphrase) {
  make_pair("a", {"-newkey", "rsa:2048", "-passout", "pass:secret"});
  EXPECT_EQ(error_of("a.cert", "a.key"),
            "cannot use the key " + path("a.key") +
                ": it is no private key in PEM format, or it has a passphrase; check --tls-key; to remove a "
                "passphrase: openssl pkey -in KEY -out NEW");
}

TEST_F(TlsFilesTest, RejectsTheKeyOfAnotherCertificate) {
  make_pair("a", {"-newkey", "rsa:2048", "-nodes"});
  make_pair("same_kind", {"-newkey", "rsa:2048", "-nodes"});
  make_pair("curve", {"-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"});
  for (const std::string key : {"same_kind.key", "curve.key"})
    EXPECT_EQ(error_of("a.cert", key), "cannot use the certificate " + path("a.cert") + " with the key " +
                                           path(key) +
                                           ": the key belongs to another certificate; check --tls-cert and "
                                           "--tls-key");
}

}  // namespace
}  // namespace headroom::serve
