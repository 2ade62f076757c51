// Examines one input of headroom doctor by its content.
#pragma once

#include <string>

#include "base/result.h"
#include "doctor/inputs/examination.h"

namespace headroom::doctor {

// What to do with a file that is neither text nor Headroom's: an error if the user named it, left out if it
// is only in a folder.
enum class IfBinary { error, leave_out };

// Recordings, snapshots, runs, logs of headroom watch and text of tegrastats and other tools have their own
// findings. Every other file is a log; "-" is standard input. After an error, earlier findings are kept.
Status read_input(const std::string& path, IfBinary if_binary, Examination& examination);

}  // namespace headroom::doctor
