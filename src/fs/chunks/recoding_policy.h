#pragma once
// What a change of a chunk does while its variable is being re-encoded, which may take hours.
//
// A thread that serves requests must not wait for that: the kernel may hold a directory, a page or a background slot
// until the request is answered, and other requests need the thread. So it opens a Scope, and functions that would wait
// return EBUSY. The caller that opened the scope learns from has_refused() that the request can be repeated where
// waiting is allowed (ParkedRequests). A thread without a scope may wait.

#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "base/result.h"

namespace codecfs::fs {

enum class DuringRecoding {
  wait,   // until it is over
  hold,   // keep the change in memory, and store it afterwards; EBUSY if there is too much of it
  refuse  // EBUSY; also instead of beginning a re-encoding
};

class RecodingPolicy {
 public:
  static constexpr std::chrono::milliseconds kInterval{100};  // between two calls of is_cancelled()

  class [[nodiscard]] Scope {
   public:
    /// `cancelled`: ends waits with EINTR.
    explicit Scope(DuringRecoding policy, std::function<bool()> cancelled = {})
        : policy_(policy), cancelled_(std::move(cancelled)), outer_(std::exchange(current_, this)) {}
    /// With the policy that the thread has already; to learn whether a part of its work was refused.
    Scope() : Scope(current(), current_ == nullptr ? std::function<bool()>() : current_->cancelled_) {}
    ~Scope() { current_ = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    /// Whether a function returned EBUSY because of a re-encoding.
    [[nodiscard]] bool has_refused() const { return has_refused_; }

   private:
    friend class RecodingPolicy;
    const DuringRecoding policy_;
    const std::function<bool()> cancelled_;
    Scope* const outer_;
    bool has_refused_ = false;
  };

  static DuringRecoding current() { return current_ == nullptr ? DuringRecoding::wait : current_->policy_; }
  static bool is_cancelled() { return current_ != nullptr && current_->cancelled_ && current_->cancelled_(); }
  /// For functions that do not wait.
  static std::unexpected<Error> refuse(std::string reason) {
    for (Scope* scope = current_; scope != nullptr; scope = scope->outer_) scope->has_refused_ = true;
    return std::unexpected(Error{EBUSY, std::move(reason)});
  }
  /// For changes of a variable that is being re-encoded.
  static std::unexpected<Error> refuse_change() {
    return refuse("the variable is being re-encoded (user._Progress tells how far); try again when it is done");
  }

 private:
  static inline thread_local Scope* current_ = nullptr;
};

}  // namespace codecfs::fs
