// Examines all inputs of headroom doctor.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "report/finding/finding_views.h"

namespace headroom::doctor {

struct DoctorInputs {
  std::vector<std::string> files;                // files, folders, "-"
  std::optional<std::filesystem::path> sysroot;  // also this machine: "/", or a tree
};

struct Examined {
  report::DoctorReport report;  // findings are unsorted; for DoctorReport::problems, one sentence per error
  std::optional<Error> first_error;  // the later ones are logged as warnings
};

Examined examine(const DoctorInputs& inputs);

}  // namespace headroom::doctor
