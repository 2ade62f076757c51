#include "serve/httplib/tls.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <climits>

namespace headroom::serve {
namespace {

// From openssl/ssl.h and openssl/tls1.h; the same in OpenSSL 1.1 and 3.
constexpr int kPem = 1;                                 // SSL_FILETYPE_PEM
constexpr int kSetMode = 33;                            // SSL_CTRL_MODE
constexpr int kSetLeastVersion = 123;                   // SSL_CTRL_SET_MIN_PROTO_VERSION
constexpr long kTls12 = 0x0303;                         // TLS1_2_VERSION
constexpr long kPartialWrites = 1, kMovingBuffer = 2;   // SSL_MODE_ENABLE_PARTIAL_WRITE, …
constexpr int kErrorWantRead = 2, kErrorWantWrite = 3;  // SSL_ERROR_WANT_READ, …

template <class Function>
bool find_ssl(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool find_functions(void* library, SslLibrary& ssl) {
  return find_ssl(library, "TLS_server_method", ssl.server_method) &&
         find_ssl(library, "SSL_CTX_new", ssl.new_context) &&
         find_ssl(library, "SSL_CTX_free", ssl.free_context) &&
         find_ssl(library, "SSL_CTX_ctrl", ssl.control_context) &&
         find_ssl(library, "SSL_CTX_use_certificate_chain_file", ssl.use_certificate_file) &&
         find_ssl(library, "SSL_CTX_use_PrivateKey_file", ssl.use_key_file) &&
         find_ssl(library, "SSL_CTX_check_private_key", ssl.check_key) &&
         find_ssl(library, "SSL_CTX_set_default_passwd_cb", ssl.set_passphrase_function) &&
         find_ssl(library, "SSL_new", ssl.new_session) && find_ssl(library, "SSL_free", ssl.free_session) &&
         find_ssl(library, "SSL_set_fd", ssl.set_fd) && find_ssl(library, "SSL_ctrl", ssl.control) &&
         find_ssl(library, "SSL_accept", ssl.accept) && find_ssl(library, "SSL_read", ssl.read) &&
         find_ssl(library, "SSL_write", ssl.write) && find_ssl(library, "SSL_shutdown", ssl.shutdown) &&
         find_ssl(library, "SSL_get_error", ssl.error) &&
         find_ssl(library, "ERR_clear_error", ssl.clear_errors);
}

template <class Bytes>
int size_for_ssl(const Bytes& data) {
  return static_cast<int>(std::min<std::size_t>(data.size(), INT_MAX));
}

// Without this function, OpenSSL asks for the passphrase of a key on the terminal, and waits.
int no_passphrase(char*, int, int, void*) { return 0; }

// Not by opening: the file may be a FIFO (`--tls-key <(…)`), which can be opened only once.
Status check_readable(const std::filesystem::path& file, const char* flag) {
  if (::access(file.c_str(), R_OK) == 0) return {};
  const int code = errno;
  return input_error(fmt::format("cannot read {}", file.string()), errno_text(code),
                     fmt::format("check {}", flag));
}

Status use_files(const SslLibrary& ssl, ssl_ctx_st* context, const TlsFiles& files) {
  if (auto readable = check_readable(files.certificate, "--tls-cert"); !readable) return readable;
  if (auto readable = check_readable(files.key, "--tls-key"); !readable) return readable;
  ssl.set_passphrase_function(context, no_passphrase);
  // The key comes first: after the certificate, use_key_file() would also fail for the key of another one.
  if (ssl.use_key_file(context, files.key.c_str(), kPem) != 1)
    return input_error(fmt::format("cannot use the key {}", files.key.string()),
                       "it is no private key in PEM format, or it has a passphrase",
                       "check --tls-key; to remove a passphrase: openssl pkey -in KEY -out NEW");
  if (ssl.use_certificate_file(context, files.certificate.c_str()) != 1)
    return input_error(fmt::format("cannot use the certificate {}", files.certificate.string()),
                       "OpenSSL accepts no certificate of this file, which must be in PEM format",
                       "check --tls-cert");
  if (ssl.check_key(context) != 1)
    return input_error(fmt::format("cannot use the certificate {} with the key {}",
                                   files.certificate.string(), files.key.string()),
                       "the key belongs to another certificate", "check --tls-cert and --tls-key");
  return {};
}

}  // namespace

Result<SslLibrary> SslLibrary::open(std::span<const char* const> names) {
  for (const char* name : names) {
    void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    SslLibrary ssl{};
    if (library != nullptr && find_functions(library, ssl)) return ssl;
  }
  return input_error("cannot serve HTTPS",
                     fmt::format("cannot open OpenSSL's library ({})", fmt::join(names, " or ")),
                     "install libssl3 or libssl1.1 (Debian and Ubuntu), or omit --tls-cert and --tls-key");
}

TlsSession::TlsSession(const SslLibrary& ssl, ssl_ctx_st* context, int socket)
    : ssl_(ssl), session_(ssl.new_session(context)) {
  if (session_ == nullptr) return;
  ssl_.set_fd(session_, socket);
  ssl_.control(session_, kSetMode, kPartialWrites | kMovingBuffer, nullptr);
}

TlsSession::~TlsSession() {
  if (session_ == nullptr) return;
  ssl_.shutdown(session_);
  ssl_.free_session(session_);
}

TlsSession::Outcome TlsSession::outcome_of(int result) const {
  if (result > 0) return {result, 0};
  const int error = ssl_.error(session_, result);
  if (error == kErrorWantRead) return {result, POLLIN};
  if (error == kErrorWantWrite) return {result, POLLOUT};
  return {result, 0};
}

TlsSession::Outcome TlsSession::accept() {
  if (session_ == nullptr) return {};
  ssl_.clear_errors();
  return outcome_of(ssl_.accept(session_));
}

TlsSession::Outcome TlsSession::read(std::span<char> data) {
  ssl_.clear_errors();
  return outcome_of(ssl_.read(session_, data.data(), size_for_ssl(data)));
}

TlsSession::Outcome TlsSession::write(std::span<const char> data) {
  ssl_.clear_errors();
  return outcome_of(ssl_.write(session_, data.data(), size_for_ssl(data)));
}

Result<std::unique_ptr<TlsServer>> TlsServer::open(const TlsFiles& files) {
  auto ssl = SslLibrary::open();
  if (!ssl) return forward_error(ssl);
  ssl_ctx_st* context = ssl->new_context(ssl->server_method());
  if (context == nullptr) return internal_error("cannot serve HTTPS", "OpenSSL has not enough memory");
  std::unique_ptr<TlsServer> server(new TlsServer(*ssl, context));
  if (ssl->control_context(context, kSetLeastVersion, kTls12, nullptr) != 1)
    return internal_error("cannot serve HTTPS", "OpenSSL refuses TLS 1.2");
  if (auto used = use_files(*ssl, context, files); !used) return forward_error(used);
  return server;
}

TlsServer::~TlsServer() { ssl_.free_context(context_); }

}  // namespace headroom::serve
