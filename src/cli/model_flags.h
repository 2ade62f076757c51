// The models of `headroom bench` on the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/flag_table.h"
#include "types/bench_options.h"

namespace headroom::cli {

// "NAME=PATH" or a path, followed by settings: ",backend=NAME", ",task=NAME", ",device=NAME", ",conf=X", …
Result<ModelSpec> parse_model(std::string_view text);

// The reverse: "NAME=PATH,conf=0.6".
std::string words_of(const ModelSpec& model);

// The keys of a model's settings: "conf", "threads", …
std::vector<std::string> model_keys();
// The values that a key accepts, for error messages.
std::string_view values_of_model_key(std::string_view key);
bool is_number_key(std::string_view key);
// Whether the value of a key is valid. Names of backends, tasks and devices are checked later.
bool is_model_setting(std::string_view key, std::string_view value);

// A name is shown in tables and becomes part of file names: letters, digits, spaces, '.', '_' and '-'.
Status check_model_name(std::string_view name);
// The name of a model without a given one: its file name without the extension.
std::string model_name_of(std::string_view path);

// Reads the models of --model and of the slots, with absolute paths and unique names. Fails if no model file
// exists. If some are missing, those models fail in the run, and the others run.
Status read_models(const FlagValues& values, BenchOptions& options);

}  // namespace headroom::cli
