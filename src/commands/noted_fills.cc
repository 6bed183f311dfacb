#include "commands/noted_fills.h"

#include <algorithm>
#include <vector>

#include "model/data_type.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

/// The fill value of which v2 knows nothing; null for zeros.
Json fill_of(const Variable& variable) {
  const bool is_told = !variable.fill_value.is_null() || variable.type.kind == TypeKind::object;
  const bool is_zero = std::ranges::all_of(variable.fill, [](std::byte b) { return b == std::byte{0}; });
  return is_told || is_zero ? Json() : fill_json(variable.type, variable.fill);
}

std::vector<Attribute>::iterator find_notes(Variable& variable) {
  return std::ranges::find(variable.attributes, kStoredTypes, &Attribute::name);
}

void note_fill(Variable& variable, Json fill) {
  const auto found = find_notes(variable);
  Json notes = found == variable.attributes.end() ? Json::object() : parse_stored_types(found->value);
  notes["fill"] = std::move(fill);
  notes.emplace("type", Json());
  Json text = print_json(notes);
  if (found == variable.attributes.end())
    variable.attributes.push_back({kStoredTypes, std::move(text)});
  else
    found->value = std::move(text);
}

/// Whether there was a note.
bool take_fill(Variable& variable) {
  const auto found = find_notes(variable);
  if (found == variable.attributes.end() || !variable.fill_value.is_null()) return false;
  Json notes = parse_stored_types(found->value);
  const Json fill = member(notes, "fill");
  if (fill.is_null()) return false;
  auto element = fill_bytes(variable.type, fill);
  if (!element) return false;
  variable.fill = *std::move(element);
  notes.erase("fill");
  if (notes == Json{{"type", nullptr}})
    variable.attributes.erase(found);
  else
    found->value = print_json(notes);
  return true;
}

}  // namespace

Result<VariablePtr> NotedFills::variable(ObjectId variable) {
  CODECFS_ASSIGN(VariablePtr found, source_->variable(variable));
  if (use_ == Use::note) {
    Json fill = fill_of(*found);
    if (fill.is_null()) return found;
    auto noted = std::make_shared<Variable>(*found);
    note_fill(*noted, std::move(fill));
    return VariablePtr(std::move(noted));
  }
  auto taken = std::make_shared<Variable>(*found);
  return take_fill(*taken) ? VariablePtr(std::move(taken)) : found;
}

}  // namespace codecfs::commands
