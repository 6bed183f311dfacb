#include "model/memory_estimate.h"

#include "model/json.h"

namespace codecfs {

uint64_t memory_estimate(const Json& value) {
  constexpr uint64_t kBlock = 32;  // minimum size of an allocation
  uint64_t bytes = sizeof(Json);
  if (value.is_string()) bytes += kBlock + value.get_ref<const std::string&>().size();
  if (value.is_array()) {
    bytes += kBlock;
    for (const Json& item : value) bytes += memory_estimate(item);
  }
  if (value.is_object()) {
    bytes += kBlock;
    for (const auto& [name, item] : value.get_ref<const Json::object_t&>())
      bytes += sizeof name + name.size() + memory_estimate(item);
  }
  return bytes;
}

uint64_t memory_estimate(const Variable& variable) {
  uint64_t bytes = sizeof variable + variable.fill.size() + memory_estimate(variable.fill_value);
  for (const Attribute& attribute : variable.attributes) bytes += sizeof attribute + memory_estimate(attribute.value);
  for (const FilterStage& stage : variable.filters)
    bytes += sizeof stage + stage.parameters.size() * sizeof(uint32_t) + memory_estimate(stage.codec);
  return bytes;
}

}  // namespace codecfs
