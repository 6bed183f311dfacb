#include "backends/api/source.h"

namespace codecfs {

Result<> Source::set_metadata(ObjectId variable, std::span<const std::string> dimensions,
                              std::span<const Attribute> set, std::span<const std::string> remove) {
  CODECFS_ASSIGN(const VariablePtr before, this->variable(variable));
  CODECFS_TRY(set_dimensions(variable, dimensions));
  if (set.empty() && remove.empty()) return {};
  const Result<> done = set_attributes(variable, set, remove);
  if (!done && before->dimensions) (void)set_dimensions(variable, *before->dimensions);
  return done;
}

}  // namespace codecfs
