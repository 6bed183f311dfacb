#pragma once
// Common checks for Filter::check_new. All errors are EINVAL and give the valid range.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "model/variable.h"

namespace codecfs::filters {

/// At most `count` parameters. `what`: their meaning, for the message.
Result<> at_most(const FilterStage& stage, size_t count, std::string_view what);
/// The parameter at `index`, as a signed word, is in this range if it is given.
Result<> in_range(const FilterStage& stage, size_t index, std::string_view what, int64_t low, int64_t high);

/// Checks a new pipeline: its filters are known, can encode, and accept their parameters. Stages that are also in
/// `stored` are not checked, because a source may contain unusual ones. `item_size`: bytes of an element, 0 if unknown.
/// ENOENT, EINVAL.
Result<> check_new_chain(std::span<const FilterStage> chain, uint64_t item_size,
                         std::span<const FilterStage> stored = {});

}  // namespace codecfs::filters
