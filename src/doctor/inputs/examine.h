// Examines all inputs of headroom doctor.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "report/finding/finding_views.h"

namespace headroom::doctor {

struct Examined {
  report::DoctorReport report;  // findings are unsorted; for DoctorReport::problems, one sentence per error
  std::optional<Error> first_error;  // the later ones are logged as warnings
};

// `inputs`: files, folders, "-". With `sysroot` also this machine: "/", or a tree.
Examined examine(const std::vector<std::string>& inputs, const std::optional<std::filesystem::path>& sysroot);

}  // namespace headroom::doctor
