#include "commands/noted_fills.h"

#include <algorithm>
#include <memory>

#include "model/data_type.h"
#include "model/json.h"

namespace codecfs::commands {

VariablePtr take_fill(VariablePtr variable) {
  const auto found = std::ranges::find(variable->attributes, kStoredTypes, &Attribute::name);
  if (found == variable->attributes.end() || !variable->fill_value.is_null()) return variable;
  Json notes = parse_stored_types(found->value);
  const Json fill = member(notes, "fill");
  if (fill.is_null()) return variable;
  auto element = fill_bytes(variable->type, fill);
  if (!element) return variable;
  auto filled = std::make_shared<Variable>(*variable);
  filled->fill = *std::move(element);
  notes.erase("fill");
  const auto note = filled->attributes.begin() + (found - variable->attributes.begin());
  if (notes == Json{{"type", nullptr}})
    filled->attributes.erase(note);
  else
    note->value = print_json(notes);
  return filled;
}

}  // namespace codecfs::commands
