#include "base/fail_points.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <new>
#include <string_view>
#include <utility>

namespace codecfs {

void FailPoints::arm(FailPoint kind, int passed, int failed) {
  armed_ = FailPoint::none;
  left_ = passed;
  failed_ = failed;
  armed_ = kind;
}

void FailPoints::arm_from_environment() {
#ifdef CODECFS_FAIL_POINTS
  const char* const variable = std::getenv("CODECFS_FAIL_POINT");
  if (variable == nullptr) return;
  constexpr std::array<std::pair<std::string_view, FailPoint>, 4> kKinds{{{"thread:", FailPoint::thread},
                                                                          {"process:", FailPoint::process},
                                                                          {"descriptor:", FailPoint::descriptor},
                                                                          {"memory:", FailPoint::memory}}};
  const std::string_view text = variable;
  for (const auto& [name, kind] : kKinds) {
    if (!text.starts_with(name)) continue;
    int passed = 0;
    int failed = INT_MAX;
    const char* const end = text.data() + text.size();
    const auto first = std::from_chars(text.data() + name.size(), end, passed);
    if (first.ptr != end) std::from_chars(first.ptr + 1, end, failed);
    arm(kind, passed, failed);
  }
#endif
}

bool FailPoints::counts_as_failed(FailPoint kind) {
  if (left_.fetch_sub(1) > 0) return false;
  left_ = 0;
  if (failed_.fetch_sub(1) <= 0) {
    failed_ = 0;
    return false;
  }
  errno = kind == FailPoint::memory ? ENOMEM : kind == FailPoint::descriptor ? EMFILE : EAGAIN;
  return true;
}

void FailPoints::allocate() {
  if (fails(FailPoint::memory)) throw std::bad_alloc();
}

}  // namespace codecfs
