#pragma once
// What the checks of Filter::check_new have in common. All errors are EINVAL and name the valid range.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "model/variable.h"

namespace codecfs::filters {

/// At most `count` parameters. `what`: that they are, for the message.
Result<> at_most(const FilterStage& stage, size_t count, std::string_view what);
/// The parameter at `index`, a signed word, where it is given.
Result<> in_range(const FilterStage& stage, size_t index, std::string_view what, int64_t low, int64_t high);

/// The filters of a new chain are known, and have parameters that these filters take. Stages that are in `stored` too
/// are not looked at: a source may have odd ones. `item_size`: bytes of an element, 0 where it is not known. ENOENT,
/// EINVAL.
Result<> check_new_chain(std::span<const FilterStage> chain, uint64_t item_size,
                         std::span<const FilterStage> stored = {});

}  // namespace codecfs::filters
