// How a finding begins; evidence, figures and cures are added to it.
#pragma once

#include <string>
#include <utility>

#include "types/finding.h"

namespace headroom::doctor {

inline Finding new_finding(const char* id, Severity severity, std::string title, std::string cause,
                           Confidence confidence = Confidence::certain) {
  Finding finding;
  finding.id = id;
  finding.severity = severity;
  finding.title = std::move(title);
  finding.cause = std::move(cause);
  finding.confidence = confidence;
  return finding;
}

}  // namespace headroom::doctor
