#pragma once
// Members of a codec's JSON, read liberally: numbers as 5, "5", 5.0 or true, since several writers disagree.

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "model/data_type.h"
#include "model/json_value.h"

namespace codecfs::filters {

/// The member `key` as an integer in [low, high]; `fallback` where it is missing or null. EINVAL.
Result<int64_t> integer_field(const Json& codec, const char* key, int64_t fallback, int64_t low, int64_t high);
/// As a number; EINVAL also where it is missing.
Result<double> number_field(const Json& codec, const char* key);
/// As a text; `fallback` where it is missing or null. EINVAL.
Result<std::string> text_field(const Json& codec, const char* key, std::string fallback);
/// As a dtype; none where it is missing or null. EINVAL.
Result<std::optional<DataType>> dtype_field(const Json& codec, const char* key);

}  // namespace codecfs::filters
