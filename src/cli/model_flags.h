// The models of `headroom bench` as a person names them.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/flag_table.h"
#include "types/bench_options.h"

namespace headroom::cli {

// "NAME=PATH", or a path alone, each with ",backend=NAME", ",task=NAME", ",device=NAME", ",conf=X" and
// ",iou=X" behind it.
Result<ModelSpec> parse_model(std::string_view text);

// The same again: "NAME=PATH,conf=0.6".
std::string words_of(const ModelSpec& model);

// A name is shown in tables and becomes part of file names: letters, digits, spaces, '.', '_' and '-'.
Status check_model_name(std::string_view name);
// The name of a model that was given by its path alone: that of its file, without the extension.
std::string model_name_of(std::string_view path);

// The models of --model and of the slots, with absolute paths, each name once. A file that is missing is an
// error only if no other can be read: among several it is that model's own failure, and the others run.
Status read_models(const FlagValues& values, BenchOptions& options);

}  // namespace headroom::cli
