#include "commands/netcdf_booleans.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr char kMark[] = "dtype";

bool is_boolean_mark(const Attribute& attribute) { return attribute.name == kMark && *attribute.value == "bool"; }

/// Null if the variable has no booleans, or another attribute with the name of the mark.
std::shared_ptr<Variable> marked(const Variable& variable) {
  if (variable.type.kind != TypeKind::boolean || variable.unreadable_attributes) return nullptr;
  auto copy = std::make_shared<Variable>(variable);
  std::erase_if(copy->attributes, is_boolean_mark);
  if (std::ranges::find(copy->attributes, kMark, &Attribute::name) != copy->attributes.end()) return nullptr;
  copy->attributes.push_back({kMark, Json("bool")});
  return copy;
}

std::shared_ptr<Variable> numbered(const Variable& variable) {
  auto copy = marked(variable);
  if (copy == nullptr) return nullptr;
  copy->type.kind = TypeKind::signed_int;
  if (copy->fill_value->is_boolean()) copy->fill_value = copy->fill_value->get<bool>() ? 1 : 0;
  copy->is_fill_unmarked = true;
  std::erase_if(copy->attributes, [](const Attribute& attribute) { return attribute.name == kFillAttribute; });
  return copy;
}

}  // namespace

VariablePtr number_booleans(VariablePtr variable) {
  auto copy = numbered(*variable);
  return copy == nullptr ? variable : VariablePtr(std::move(copy));
}

VariablePtr number_booleans_for_nczarr(VariablePtr variable) {
  auto copy = numbered(*variable);
  if (copy == nullptr) return variable;
  copy->fill_value = Json();
  return copy;
}

VariablePtr mark_booleans(VariablePtr variable) {
  auto copy = marked(*variable);
  return copy == nullptr ? variable : VariablePtr(std::move(copy));
}

VariablePtr unmark_booleans(VariablePtr variable) {
  if (variable->type.kind != TypeKind::boolean || std::ranges::none_of(variable->attributes, is_boolean_mark))
    return variable;
  auto copy = std::make_shared<Variable>(*variable);
  std::erase_if(copy->attributes, is_boolean_mark);
  return copy;
}

bool has_numbered_booleans(const Variable& variable) {
  return variable.type.kind == TypeKind::signed_int && variable.type.size == 1 &&
         std::ranges::any_of(variable.attributes, is_boolean_mark);
}

}  // namespace codecfs::commands
