// TLS by the system's OpenSSL 3 or 1.1. The library is opened at run time, so one build serves both versions,
// a machine without OpenSSL can serve HTTP, and the system's updates of OpenSSL apply.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "base/result.h"
#include "serve/http_server.h"

struct ssl_st;
struct ssl_ctx_st;
struct ssl_method_st;

namespace headroom::serve {

inline constexpr std::array kSslLibraries{"libssl.so.3", "libssl.so.1.1"};

// The functions of OpenSSL that the server calls. They have the same types in both versions.
struct SslLibrary {
  const ssl_method_st* (*server_method)();
  ssl_ctx_st* (*new_context)(const ssl_method_st*);
  void (*free_context)(ssl_ctx_st*);
  long (*control_context)(ssl_ctx_st*, int command, long value, void*);
  int (*use_certificate_file)(ssl_ctx_st*, const char* file);
  int (*use_key_file)(ssl_ctx_st*, const char* file, int type);
  int (*check_key)(const ssl_ctx_st*);
  void (*set_passphrase_function)(ssl_ctx_st*, int (*)(char* text, int size, int is_writing, void* data));
  ssl_st* (*new_session)(ssl_ctx_st*);
  void (*free_session)(ssl_st*);
  int (*set_fd)(ssl_st*, int fd);
  long (*control)(ssl_st*, int command, long value, void*);
  int (*accept)(ssl_st*);
  int (*read)(ssl_st*, void* data, int size);
  int (*write)(ssl_st*, const void* data, int size);
  int (*shutdown)(ssl_st*);
  int (*error)(const ssl_st*, int result);
  void (*clear_errors)();

  // Opens the first of the libraries that is installed. It stays open until the process ends.
  static Result<SslLibrary> open(std::span<const char* const> names = kSslLibraries);
};

// The TLS layer of one connection, on a non-blocking socket.
class TlsSession {
 public:
  TlsSession(const SslLibrary& ssl, ssl_ctx_st* context, int socket);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // `wanted` is the poll event (POLLIN or POLLOUT) that the operation waits for; 0 if it failed.
  struct Outcome {
    int result = 0;  // 1 (accept) or a number of bytes (read, write); 0 or less: see `wanted`
    short wanted = 0;
  };
  Outcome accept();
  Outcome read(std::span<char> data);
  Outcome write(std::span<const char> data);

 private:
  Outcome outcome_of(int result) const;

  const SslLibrary& ssl_;
  ssl_st* session_;  // nullptr if OpenSSL could not create it; every operation then fails
};

// A certificate with its key, for sessions of TLS 1.2 or later.
class TlsServer {
 public:
  static Result<std::unique_ptr<TlsServer>> open(const TlsFiles& files);
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  std::unique_ptr<TlsSession> new_session(int socket) const {
    return std::make_unique<TlsSession>(ssl_, context_, socket);
  }

 private:
  TlsServer(const SslLibrary& ssl, ssl_ctx_st* context) : ssl_(ssl), context_(context) {}

  SslLibrary ssl_;
  ssl_ctx_st* context_;
};

}  // namespace headroom::serve
