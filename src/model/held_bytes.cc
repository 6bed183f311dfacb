#include "model/held_bytes.h"

namespace codecfs {

uint64_t held_bytes(const Json& value) {
  constexpr uint64_t kBlock = 32;  // what each allocation takes at least
  uint64_t bytes = sizeof(Json);
  if (value.is_string()) bytes += kBlock + value.get_ref<const std::string&>().size();
  if (value.is_array()) {
    bytes += kBlock;
    for (const Json& item : value) bytes += held_bytes(item);
  }
  if (value.is_object()) {
    bytes += kBlock;
    for (const auto& [name, item] : value.get_ref<const Json::object_t&>())
      bytes += sizeof name + name.size() + held_bytes(item);
  }
  return bytes;
}

uint64_t held_bytes(const Variable& variable) {
  uint64_t bytes = sizeof variable + variable.fill.size() + held_bytes(variable.fill_value);
  for (const Attribute& attribute : variable.attributes) bytes += sizeof attribute + held_bytes(attribute.value);
  for (const FilterStage& stage : variable.filters)
    bytes += sizeof stage + stage.parameters.size() * sizeof(uint32_t) + held_bytes(stage.codec);
  return bytes;
}

}  // namespace codecfs
