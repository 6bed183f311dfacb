#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/api/source.h"
#include "base/result.h"

namespace codecfs {

/// Returns `source`, made able to close_idle() if it is a dataset of this machine, and no folder of datasets. `path`,
/// `may_write`: as it was opened, and as it is opened again by `open`.
std::unique_ptr<Source> make_resting(
    std::unique_ptr<Source> source, const std::string& path, bool may_write,
    std::function<Result<std::unique_ptr<Source>>(const std::string& path, bool may_write)> open);

}  // namespace codecfs
