#pragma once
// A map of bounded size: what was used longest ago makes room. Safe from all threads; values are handed out as shared
// pointers, so that one in use outlives its place here.

#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace codecfs {

template <class Key, class Value>
class LruMap {
 public:
  using Pointer = std::shared_ptr<const Value>;

  explicit LruMap(size_t capacity) : capacity_(capacity) {}

  /// Null where the key is not there.
  Pointer get(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    items_.splice(items_.begin(), items_, found->second);
    return found->second->second;
  }

  void put(const Key& key, Pointer value) {
    const std::lock_guard lock(mutex_);
    if (const auto found = places_.find(key); found != places_.end()) {
      items_.erase(found->second);
      places_.erase(found);
    }
    items_.emplace_front(key, std::move(value));
    places_.emplace(key, items_.begin());
    if (items_.size() <= capacity_) return;
    places_.erase(items_.back().first);
    items_.pop_back();
  }

  void erase(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(key);
    if (found == places_.end()) return;
    items_.erase(found->second);
    places_.erase(found);
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    items_.clear();
    places_.clear();
  }

 private:
  using Items = std::list<std::pair<Key, Pointer>>;  // most recently used first

  const size_t capacity_;
  std::mutex mutex_;  // guards what follows
  Items items_;
  std::unordered_map<Key, typename Items::iterator> places_;
};

}  // namespace codecfs
