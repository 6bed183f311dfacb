#include "fs/chunks/failure_log.h"

#include "base/log.h"

namespace codecfs::fs {

void FailureLog::add(const Error& error, Clock::time_point now) {
  if (error.code != code_ || now - begun_ >= kWhile) {
    finish();
    code_ = error.code;
    begun_ = now;
    logged_ = 0;
  }
  if (logged_ < kMaxLogged) {
    ++logged_;
    log::error("{}", error.reason);
  } else {
    ++dropped_;
    last_ = error.reason;
  }
}

void FailureLog::finish() {
  if (dropped_ == 1) log::error("{}", last_);
  if (dropped_ > 1) log::error("{} more attempts to store chunks failed; the last: {}", dropped_, last_);
  dropped_ = 0;
}

}  // namespace codecfs::fs
