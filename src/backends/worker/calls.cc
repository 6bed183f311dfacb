#include "backends/worker/calls.h"

namespace codecfs::worker {

const CallKind& kind_of(Call call) {
  const CallKind* found = &kReads;
  Calls::visit(static_cast<uint32_t>(call), [&]<class Row>() { found = &Row::kind; });
  return *found;
}

}  // namespace codecfs::worker
