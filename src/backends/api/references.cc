#include "backends/api/references.h"

#include <utility>

#include "base/mutex.h"

namespace codecfs {
namespace {

Mutex rules_mutex;
ReferenceRules& rules() CODECFS_REQUIRES(rules_mutex) {
  static auto& set = *new ReferenceRules;
  return set;
}

}  // namespace

void set_reference_rules(ReferenceRules next) {
  const LockGuard lock(rules_mutex);
  rules() = std::move(next);
}

ReferenceRules reference_rules() {
  const LockGuard lock(rules_mutex);
  return rules();
}

}  // namespace codecfs
