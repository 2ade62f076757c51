/* The interface between Headroom and a publisher of diagnostics: headroom serve --ros2. It is plain C, so
 * that a plug-in can be built on the machine that has ROS 2, with another C++ library than Headroom's. A
 * plug-in is a shared library that exports headroom_publisher(). The rules of inference/backend_plugin.h
 * apply. */
#ifndef HEADROOM_PUBLISHER_PLUGIN_H
#define HEADROOM_PUBLISHER_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEADROOM_PUBLISHER_ABI 2
#define HEADROOM_PUBLISHER_SYMBOL "headroom_publisher"

typedef struct hr_publisher hr_publisher; /* a started publisher; opaque */

typedef struct hr_publisher_error {
  char why[1024];
  char fix[512];
} hr_publisher_error;

typedef struct hr_publisher_options {
  size_t struct_size;
  const char* topic;      /* "/diagnostics" */
  int32_t domain;         /* ROS_DOMAIN_ID */
  int32_t localhost_only; /* 1: only this machine */
  const char* const* static_peers;
  size_t static_peer_count;
} hr_publisher_options;

/* diagnostic_msgs/KeyValue, DiagnosticStatus and DiagnosticArray. */
typedef struct hr_key_value {
  const char* key;
  const char* value;
} hr_key_value;

typedef struct hr_diagnostic_status {
  const char* name;
  const char* message;
  const char* hardware_id;
  const hr_key_value* values;
  size_t value_count;
  int32_t level; /* 0 OK, 1 WARN, 2 ERROR, 3 STALE */
} hr_diagnostic_status;

typedef struct hr_diagnostic_array {
  int64_t stamp_ns; /* wall clock, since 1970 */
  const hr_diagnostic_status* status;
  size_t status_count;
} hr_diagnostic_array;

typedef struct hr_publisher_plugin {
  uint32_t abi_version; /* HEADROOM_PUBLISHER_ABI */
  size_t struct_size;
  const char* name;    /* "rclcpp" */
  const char* version; /* of the library that it was built with; "" if unknown */

  int (*start)(const hr_publisher_options* options, hr_publisher** publisher, hr_publisher_error* error);
  /* Sends the message to all subscribers without waiting for them. */
  int (*publish)(hr_publisher* publisher, const hr_diagnostic_array* array, hr_publisher_error* error);
  void (*close)(hr_publisher* publisher);
} hr_publisher_plugin;

typedef const hr_publisher_plugin* (*hr_publisher_function)(void);

#ifdef __cplusplus
}
#endif
#endif
