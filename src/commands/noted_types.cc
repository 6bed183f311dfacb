#include "commands/noted_types.h"

#include <algorithm>

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

}  // namespace

Result<VariablePtr> NotedTypes::variable(ObjectId variable) {
  CODECFS_ASSIGN(VariablePtr found, source_->variable(variable));
  const auto types = stored_types(found->attributes, &found->stored_type);
  Json notes = types ? parse_stored_types(types->value) : Json::object();
  if (Json fill = notes_fill_ ? fill_of(*found) : Json(); !fill.is_null()) {
    notes["fill"] = std::move(fill);
    notes.emplace("type", Json());
  }
  if (notes.empty()) return found;
  auto noted = std::make_shared<Variable>(*found);
  noted->attributes.push_back({kStoredTypes, Json(print_json(notes))});
  return VariablePtr(std::move(noted));
}

}  // namespace codecfs::commands
