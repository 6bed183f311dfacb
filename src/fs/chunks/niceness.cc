#include "fs/chunks/niceness.h"

#include <sys/resource.h>

#include <utility>

namespace codecfs::fs {
namespace {

constexpr int kNice = 10;
constexpr int kMild = 3;  // where the thread could not return
// Work that takes so many times its processor time has waited, for a core or for the source. Beside one reader it is
// three times; a program that uses a core without pause leaves a tenth of it to a thread that is nice by 10.
constexpr int kWaited = 7;
constexpr int kCounted = 8;                // about so many pieces of work count
constexpr std::chrono::seconds kPause{1};  // before the thread is nice again

bool set_nice(int nice) { return setpriority(PRIO_PROCESS, 0, nice) == 0; }

}  // namespace

Niceness::Niceness(Meters meters) : meters_(std::move(meters)), own_(getpriority(PRIO_PROCESS, 0)), nice_(own_) {
  may_return_ = set_nice(own_ + 1) && set_nice(own_);
  set(own_ + (may_return_ ? kNice : kMild));
}

void Niceness::begin() {
  if (!may_return_) return;
  begun_ = meters_.elapsed();
  processor_ = meters_.processor();
  if (nice_ == own_ && begun_ >= nice_from_) set(own_ + kNice);
}

void Niceness::end() {
  if (!may_return_) return;
  const std::chrono::nanoseconds now = meters_.elapsed();
  taken_ += now - begun_ - taken_ / kCounted;
  used_ += meters_.processor() - processor_ - used_ / kCounted;
  if (taken_ <= kWaited * used_) return;
  set(own_);
  nice_from_ = now + kPause;
  taken_ = used_ = {};
}

void Niceness::set(int nice) {
  if (nice != nice_ && set_nice(nice)) nice_ = nice;
}

}  // namespace codecfs::fs
