#include "cli/verbs.h"

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "cli/common_flags.h"
#include "serve/run_serve.h"

namespace headroom::cli {
namespace {

constexpr std::size_t kShortestToken = 16;

tl::unexpected<Error> invalid_address(const std::string& text, std::string why) {
  return usage_error(fmt::format("invalid --listen address {}", text), std::move(why),
                     "use HOST:PORT, such as 127.0.0.1:9477 or [::1]:9477");
}

// True for "foo", false for "foo:9477" and "0.0.0.0".
bool is_name_without_port(const std::string& text) {
  return text.find_first_of(":[") == text.npos && text.find_first_not_of("0123456789.") != text.npos;
}

// "HOST:PORT", "[ADDRESS]:PORT", "HOST", ":PORT"
Result<serve::HttpAddress> address_from(const std::string& text) {
  serve::HttpAddress address;
  const auto wrong = [&](std::string why = {}) { return invalid_address(text, std::move(why)); };
  std::string host = text, port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == text.npos || (end + 1 < text.size() && text[end + 1] != ':')) return wrong();
    host = text.substr(1, end - 1);
    if (end + 1 < text.size()) port = text.substr(end + 2);
    if (end + 1 < text.size() && port.empty()) return wrong();
  } else if (const std::size_t colon = text.find(':'); colon != text.npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.empty()) return wrong();
  }
  if (!host.empty()) address.host = host;
  if (port.empty()) return address;
  if (port.find_first_not_of("0123456789") == port.npos && parse_number<int>(port).value_or(65536) > 65535)
    return wrong("the port is above 65535");
  const auto number = parse_number<int>(port);
  if (!number || *number < 0 || *number > 65535) return wrong();
  address.port = *number;
  return address;
}

Result<std::string> token_from(const std::string& file) {
  auto text = read_file(file, kibibytes(64));
  if (!text) {
    text.error().kind = ErrorKind::usage;
    return forward_error(text);
  }
  std::string token(trim(*text));
  if (token.size() < kShortestToken || token.find_first_of(" \t\r\n") != token.npos)
    return usage_error(fmt::format("{} has no valid token", file),
                       fmt::format("a token is one word of at least {} characters", kShortestToken),
                       fmt::format("create one with: (umask 077; openssl rand -hex 24 > {})", file));
  return token;
}

// The environment variables of ROS 2; the command line has precedence.
Result<std::optional<ros2::PublisherOptions>> ros2_options_from(const FlagValues& values) {
  if (!values.toggle("ros2")) {
    auto fine =
        reject_flags(values, {"ros-topic", "ros-domain", "ros-publisher"}, "needs --ros2", "", "add --ros2");
    if (!fine) return forward_error(fine);
    return std::nullopt;
  }
  auto options = ros2::publisher_options_from_environment();
  if (!options) return forward_error(options);
  values.read("ros-domain", options->domain);
  values.read("ros-topic", options->topic);
  if (!ros2::is_topic_name(options->topic))
    return usage_error(fmt::format("invalid --ros-topic {}", options->topic), "",
                       "use an absolute name, such as /diagnostics or /robot_7/diagnostics");
  return std::optional(std::move(*options));
}

Result<serve::ServeOptions> serve_options_from(const FlagValues& values) {
  serve::ServeOptions options;
  const std::string listen = values.text("listen");
  auto address = address_from(listen.empty() ? "127.0.0.1:9477" : listen);
  if (!address) return forward_error(address);
  options.address = std::move(*address);
  if (values.has("tls-cert") != values.has("tls-key"))
    return usage_error("--tls-cert and --tls-key need each other", "", "set both flags");
  if (values.has("tls-cert"))
    options.address.tls = serve::TlsFiles{values.text("tls-cert"), values.text("tls-key")};
  if (values.has("token-file")) {
    auto token = token_from(values.text("token-file"));
    if (!token) return forward_error(token);
    options.token = std::move(*token);
  }
  // Without protection, a remote address is refused. For a name without a port, the likely mistake is the
  // form.
  if (is_name_without_port(listen) && !serve::is_loopback_name(listen) && options.token.empty() &&
      !options.address.tls)
    return invalid_address(listen, "no port");
  if (auto read = read_alerts(values, "default", options.watch.alerts); !read) return forward_error(read);
  values.read("interval", options.watch.interval);
  values.read("history", options.history);
  options.watch.largest_processes = 10;
  values.read("processes", options.watch.largest_processes);
  options.watch.pss = false;  // no page or path shows it
  values.read("sysroot", options.watch.sysroot);
  auto ros2 = ros2_options_from(values);
  if (!ros2) return forward_error(ros2);
  options.ros2 = std::move(*ros2);
  values.read("ros-publisher", options.ros2_publisher);
  return options;
}

Result<int> serve_figures(const std::vector<std::string>& arguments) {
  auto parsed = parse_wrapped_command(serve_verb(), arguments, "headroom watch --");
  if (!parsed) return forward_error(parsed);
  if (!parsed->command.empty())
    return usage_error("headroom serve cannot run a command", "", "use headroom watch -- COMMAND");
  auto options = serve_options_from(parsed->values);
  if (!options) return forward_error(options);
  return serve::run_serve(*options);
}

std::vector<Flag> serve_flags() {
  return {text_flag("listen", "HOST:PORT", "address to serve on; a remote one needs a token or TLS")
              .with_default("127.0.0.1:9477"),
          text_flag("token-file", "FILE", "require the token in FILE with every request"),
          text_flag("tls-cert", "FILE", "serve HTTPS with this certificate (PEM)"),
          text_flag("tls-key", "FILE", "private key of the certificate (PEM)"),
          duration_flag("interval", "time between samples, 100 ms to an hour")
              .within(1e8, 3600e9)
              .with_default("1s"),
          duration_flag("history", "time span that the page shows").within(60e9).with_default("1h"),
          integer_flag("processes", "serve the N largest processes", 0, 1000).with_default("10"),
          alerts_flag("default"),
          toggle_flag("ros2", "also publish DiagnosticArray on /diagnostics (docs/ros2.md)"),
          text_flag("ros-topic", "NAME", "ROS 2 topic to publish on").with_default("/diagnostics").rare(),
          integer_flag("ros-domain", "ROS 2 domain ID", 0, 232).with_default("ROS_DOMAIN_ID, else 0").rare(),
          choice_flag("ros-publisher", {"auto", "rclcpp", "cyclonedds"}, "plug-in that publishes to ROS 2")
              .rare(),
          sysroot_flag()};
}

}  // namespace

const Verb& serve_verb() {
  static const Verb kVerb{
      .name = "serve",
      .summary = "Serve memory figures over HTTP: Prometheus, JSON, a live page",
      .usage = "headroom serve [FLAGS]",
      .description =
          "Samples the machine and serves the figures over HTTP. It answers on this machine only; a remote "
          "address needs a token or TLS. Paths: / is a live page, /metrics is for Prometheus. "
          "/api/v1/sample, /api/v1/history and /api/v1/alerts return JSON. /healthz reports whether samples "
          "arrive (docs/serve.md).",
      .examples = {"headroom serve", "headroom serve --listen 0.0.0.0:9477 --token-file /etc/headroom/token",
                   "headroom serve --alerts rules.toml --interval 500ms", "headroom serve --ros2"},
      .flags = serve_flags(),
      .run = serve_figures,
  };
  return kVerb;
}

}  // namespace headroom::cli
