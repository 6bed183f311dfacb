#include "commands/noted_types.h"

namespace codecfs::commands {

Result<VariablePtr> NotedTypes::variable(ObjectId variable) {
  CODECFS_ASSIGN(VariablePtr found, source_->variable(variable));
  std::optional<Attribute> types = stored_types(found->attributes, &found->stored_type);
  if (!types) return found;
  auto noted = std::make_shared<Variable>(*found);
  noted->attributes.push_back(*std::move(types));
  return VariablePtr(std::move(noted));
}

}  // namespace codecfs::commands
