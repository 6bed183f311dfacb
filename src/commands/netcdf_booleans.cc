#include "commands/netcdf_booleans.h"

#include <algorithm>

#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr char kMark[] = "dtype";
constexpr char kBoolean[] = "bool";

}  // namespace

bool number_booleans(Variable& variable) {
  if (variable.type.kind != TypeKind::boolean) return false;
  const auto mark = std::ranges::find(variable.attributes, kMark, &Attribute::name);
  if (mark == variable.attributes.end())
    variable.attributes.push_back({kMark, Json(kBoolean)});
  else if (*mark->value != kBoolean)
    return false;
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
  const auto mark = std::ranges::find(variable.attributes, kMark, &Attribute::name);
  return variable.type.kind == TypeKind::signed_int && variable.type.size == 1 && mark != variable.attributes.end() &&
         *mark->value == kBoolean;
}

}  // namespace codecfs::commands
