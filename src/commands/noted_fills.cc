#include "commands/noted_fills.h"

#include <algorithm>

#include "model/data_type.h"
#include "model/json.h"

namespace codecfs::commands {

bool take_fill(Variable& variable) {
  const auto found = std::ranges::find(variable.attributes, kStoredTypes, &Attribute::name);
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

}  // namespace codecfs::commands
