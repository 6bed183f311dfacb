#include "commands/noted_types.h"

#include <algorithm>

#include "commands/netcdf_booleans.h"
#include "model/data_type.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

/// "fill" of kStoredTypes; null for zeros.
Json fill_of(const Variable& variable) {
  const bool is_told = !variable.fill_value.is_null() || variable.type.kind == TypeKind::object;
  const bool is_zero = std::ranges::all_of(variable.fill, [](std::byte b) { return b == std::byte{0}; });
  return is_told || is_zero ? Json() : fill_json(variable.type, variable.fill);
}

/// "max_shape" of kStoredTypes; null if the variable cannot grow.
Json limits_of(const Variable& variable) {
  if (variable.max_shape.empty() || std::ranges::equal(variable.max_shape, variable.grid.shape())) return {};
  Json limits = Json::array();
  for (const std::optional<uint64_t>& most : variable.max_shape) limits.push_back(most ? Json(*most) : Json());
  return limits;
}

}  // namespace

Result<VariablePtr> NotedTypes::variable(ObjectId variable) {
  CODECFS_ASSIGN(VariablePtr found, WrappedSource::variable(variable));
  found = unmark_booleans(std::move(found));
  const auto types = stored_types(found->attributes, &found->stored_type);
  Json notes = types ? parse_stored_types(types->value) : Json::object();
  if (Json fill = notes_fill_ ? fill_of(*found) : Json(); !fill.is_null()) notes["fill"] = std::move(fill);
  if (Json limits = limits_of(*found); !limits.is_null()) notes["max_shape"] = std::move(limits);
  if (notes.empty()) return found;
  notes.emplace("type", Json());
  auto noted = std::make_shared<Variable>(*found);
  noted->attributes.push_back({kStoredTypes, Json(print_json(notes))});
  return VariablePtr(std::move(noted));
}

}  // namespace codecfs::commands
