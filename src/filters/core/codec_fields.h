#pragma once
// Reads members of a codec's JSON liberally: numbers as 5, "5", 5.0 or true, since writers disagree.

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "model/data_type.h"
#include "model/json_value.h"

namespace codecfs::filters {

/// The member `key` as an integer in [low, high]; `fallback` if it is missing or null. EINVAL.
Result<int64_t> integer_field(const Json& codec, const char* key, int64_t fallback, int64_t low, int64_t high);
/// The member as a number. EINVAL, also if it is missing.
Result<double> number_field(const Json& codec, const char* key);
/// The member as a string; `fallback` if it is missing or null. EINVAL.
Result<std::string> text_field(const Json& codec, const char* key, std::string fallback);
/// The member as a dtype, named as numpy takes it; none if it is missing or null. EINVAL.
Result<std::optional<DataType>> dtype_field(const Json& codec, const char* key);

}  // namespace codecfs::filters
