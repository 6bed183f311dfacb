#include "commands/netcdf_booleans.h"

#include <algorithm>

#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr char kMark[] = "dtype";

bool is_boolean_mark(const Attribute& attribute) { return attribute.name == kMark && *attribute.value == "bool"; }

}  // namespace

bool mark_booleans(Variable& variable) {
  if (variable.type.kind != TypeKind::boolean || variable.unreadable_attributes ||
      std::ranges::find(variable.attributes, kMark, &Attribute::name) != variable.attributes.end())
    return false;
  variable.attributes.push_back({kMark, Json("bool")});
  return true;
}

bool unmark_booleans(Variable& variable) {
  return variable.type.kind == TypeKind::boolean && std::erase_if(variable.attributes, is_boolean_mark) > 0;
}

bool number_booleans(Variable& variable) {
  if (variable.type.kind != TypeKind::boolean) return false;
  unmark_booleans(variable);
  if (!mark_booleans(variable)) return false;
  variable.type.kind = TypeKind::signed_int;
  if (variable.fill_value->is_boolean()) variable.fill_value = variable.fill_value->get<bool>() ? 1 : 0;
  variable.is_fill_unmarked = true;
  std::erase_if(variable.attributes, [](const Attribute& attribute) { return attribute.name == kFillAttribute; });
  return true;
}

bool number_booleans_for_nczarr(Variable& variable) {
  if (!number_booleans(variable)) return false;
  variable.fill_value = Json();
  return true;
}

bool has_numbered_booleans(const Variable& variable) {
  return variable.type.kind == TypeKind::signed_int && variable.type.size == 1 &&
         std::ranges::any_of(variable.attributes, is_boolean_mark);
}

}  // namespace codecfs::commands
