#pragma once
// Idle threads that take part in one piece of work, such as the blocks of a large chunk.
//
// The function that begins the work knows of threads (a mount's); the function that can divide it is many floors below.
// So the first opens a Helpers::Scope in its thread, and the second gives Helpers::current() to parallel_for().

#include <cstddef>
#include <functional>

namespace codecfs {

class Helpers {
 public:
  Helpers() = default;
  virtual ~Helpers() = default;
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

  /// Lets at most `count` idle threads call `work` once each, then or later, or never. Must not wait for them.
  virtual void help(size_t count, const std::function<void()>& work) = 0;

  /// Sets the helpers of this thread during its lifetime.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(Helpers& helpers) : before_(current_) { current_ = &helpers; }
    ~Scope() { current_ = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Helpers* const before_;
  };

  /// The helpers of this thread; null if there are none.
  static Helpers* current() { return current_; }

 private:
  static inline thread_local Helpers* current_ = nullptr;
};

}  // namespace codecfs
