#pragma once
// Lets threads that want the same value at the same time share the work of one of them. Nothing is kept afterwards.
// Thread-safe.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/exceptions.h"
#include "base/interruption.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs {

template <class T>
class SingleFlight {
 public:
  /// What `make` returns, or the call of it with this key that runs already. What `make` throws is an error
  /// (error_of_exception()). EINTR: Interruption of this thread; that of the thread that works ends only its own call.
  Result<T> run(const std::string& key, const std::function<Result<T>()>& make) {
    const auto own = std::make_shared<Flight>();
    {
      UniqueLock<Mutex> lock(mutex_);
      for (auto found = flights_.find(key); found != flights_.end(); found = flights_.find(key)) {
        const std::shared_ptr<Flight> other = found->second;
        if (!Interruption::wait(other->ended, lock, [&] { return other->result.has_value(); }))
          return Interruption::error();
        const bool was_interrupted = !*other->result && other->result->error().code == EINTR;
        if (!was_interrupted || Interruption::is_requested()) return *other->result;
      }
      flights_.emplace(key, own);
    }
    // The others must not wait for ever, so nothing throws until they have the result.
    Result<T> made = without_exceptions(make);
    {
      const LockGuard lock(mutex_);
      own->result.emplace(std::move(made));
      own->ended.notify_all();
      flights_.erase(key);
    }
    return *own->result;  // which does not change any more
  }

 private:
  struct Flight {
    ConditionVariable ended;
    std::optional<Result<T>> result;  // guarded by mutex_
  };

  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Flight>> flights_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs
