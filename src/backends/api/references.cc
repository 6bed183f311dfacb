#include "backends/api/references.h"

#include <utility>

#include "base/mutex.h"

namespace codecfs {
namespace {

Mutex mutex;
ReferenceRules& rules() CODECFS_REQUIRES(mutex) {
  static auto& set = *new ReferenceRules;
  return set;
}

}  // namespace

void set_reference_rules(ReferenceRules next) {
  const LockGuard lock(mutex);
  rules() = std::move(next);
}

ReferenceRules reference_rules() {
  const LockGuard lock(mutex);
  return rules();
}

}  // namespace codecfs
