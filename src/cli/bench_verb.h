// `headroom bench`.
#pragma once

#include <string>
#include <vector>

namespace headroom::cli {

int run_bench_verb(const std::vector<std::string>& arguments);

}  // namespace headroom::cli
