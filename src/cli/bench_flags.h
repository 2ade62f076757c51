// The flags of `headroom bench`, and the options they make.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flag_table.h"
#include "cli/verbs.h"
#include "types/bench_options.h"

namespace headroom::cli {

// Puts stronger values over others. One spelling of a setting replaces the other: --gpu-mem-limit-gb on the
// command line a mem-limit in the file.
void override_with(FlagValues& values, const FlagValues& stronger);

// --source, --model, --model0, …
bool is_model_or_source(std::string_view flag);
// The value of such a flag, with its relative path taken from `folder`.
std::string path_from(const std::filesystem::path& folder, std::string_view flag, const std::string& value);

// For --dump-config: a file's relative paths are relative to the file, so a dump must have none.
void make_paths_absolute(FlagValues& values);

// Checks what single flags cannot: that there is a source and a model that can be read, that flags do not
// contradict each other. `warnings` receives what was changed (a clamped limit) and what is unwise.
Result<BenchOptions> bench_options_from(const FlagValues& values, std::vector<std::string>& warnings);

// A model: "NAME=PATH" or a path, followed by settings: ",backend=NAME", ",task=NAME", ",device=NAME",
// ",conf=X", …
Result<ModelSpec> parse_model(std::string_view text);

// The reverse: "NAME=PATH,conf=0.6".
std::string words_of(const ModelSpec& model);

// The keys of a model's settings: "conf", "threads", …
std::vector<std::string> model_keys();
// The values that a key accepts, for error messages.
std::string_view values_of_model_key(std::string_view key);
bool is_number_key(std::string_view key);
// Models of --models: each NAME_PROMPT is the model NAME in --weights-dir (a folder, or a file of that name)
// with this prompt.
Result<std::vector<ModelSpec>> read_model_list(const std::string& list, const std::string& folder);
// Whether the value of a key is valid. Names of backends, tasks and devices are checked later.
bool is_model_setting(std::string_view key, std::string_view value);

// A name is shown in tables and becomes part of file names: letters, digits, spaces, '.', '_' and '-'.
Status check_model_name(std::string_view name);
// The name of a model without a given one: its file name without the extension.
std::string model_name_of(std::string_view path);

// Reads the models of --model and of the slots, with absolute paths and unique names. Fails if no model file
// exists. If some are missing, those models fail in the run, and the others run.
Status read_models(const FlagValues& values, BenchOptions& options);

// Flags from the text of a TOML file (docs/configuration.md), which is called `name` in errors and origins.
// Every key is a flag's name, with dashes or underscores; models, source and limits may also be tables.
// Relative paths of models and sources are taken from `folder`. Unknown keys and wrong types are errors with
// their line.
Result<FlagValues> parse_config(std::string_view text, const std::string& name,
                                const std::filesystem::path& folder);
Result<FlagValues> read_config_file(const std::filesystem::path& path);

// The merged values as TOML that reads back to the same, each with its origin as a comment (--dump-config).
std::string to_toml(const FlagValues& values);

}  // namespace headroom::cli
