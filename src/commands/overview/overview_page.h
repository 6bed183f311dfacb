#pragma once
// `codecfs info --html`: one page that shows a dataset, as xarray shows one in a notebook.

#include <chrono>
#include <cstddef>
#include <string>

#include "backends/api/source.h"
#include "base/result.h"
#include "commands/dataset_info.h"
#include "commands/readers.h"

namespace codecfs::commands::overview {

struct PageRules {
  size_t detailed = 1000;                // variables with attributes and pictures; the others have one line each
  std::chrono::milliseconds time{5000};  // for reading pictures
  size_t picture_bytes = 5'000'000;      // of the page
  size_t attribute_bytes = 3'000'000;
  size_t page_bytes = 18'500'000;  // objects behind it are not listed
};

/// The page: HTML without scripts, and without references to anything outside of it. Reads details and samples.
/// `generator`: of the footer ("codecfs 0.1.0"). ECANCELED; what cannot be read is shown where it is.
Result<std::string> make_page(Source& source, DatasetInfo& info, const PageRules& rules, const std::string& generator);

}  // namespace codecfs::commands::overview
