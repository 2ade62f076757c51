// A publisher behind the C interface of publisher_plugin.h.
#pragma once

#include <memory>

#include "serve/ros2/publisher.h"
#include "serve/ros2/publisher_plugin.h"

namespace headroom::ros2 {

// Fails if the plug-in was built for another version of the interface.
Result<std::unique_ptr<DiagnosticsPublisher>> publisher_of(const hr_publisher_plugin* plugin);

}  // namespace headroom::ros2
