#include "serve/httplib/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

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

TEST(Tls, RejectsFilesThatAreNoCertificate) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "cert.pem", "no certificate");
  const auto server = TlsServer::open({folder / "cert.pem", folder / "no_key.pem"});
  ASSERT_FALSE(server.has_value());
  EXPECT_THAT(server.error().sentence(), HasSubstr("they are not a matching pair of PEM files"));
}

}  // namespace
}  // namespace headroom::serve
