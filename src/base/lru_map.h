#pragma once
// A map of bounded size that evicts the least recently used entry. Entries may have weights, whose sum is bounded too;
// the latest entry stays even if it alone exceeds the bound. Thread-safe. Values are returned as shared pointers, so a
// value in use survives its eviction.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"

namespace codecfs {

template <class Key, class Value, class Hash = std::hash<Key>>
class LruMap {
 public:
  using Pointer = std::shared_ptr<const Value>;

  explicit LruMap(size_t capacity, uint64_t most_weight = UINT64_MAX)
      : capacity_(capacity), most_weight_(most_weight) {}

  /// Null if the key is not in the map.
  Pointer get(const Key& key) {
    const LockGuard lock(mutex_);
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    items_.splice(items_.begin(), items_, found->second);
    return found->second->value;
  }

  void put(const Key& key, Pointer value, uint64_t weight = 0) {
    put_if(key, std::move(value), weight, [] { return true; });
  }

  /// Puts the value only if `is_current`, which is called under the lock, returns true. A value that was derived from
  /// an older state is then never in the map after an erase() that follows the end of that state.
  template <class IsCurrent>
  void put_if(const Key& key, Pointer value, uint64_t weight, IsCurrent is_current) {
    Items dropped;
    const LockGuard lock(mutex_);
    if (is_current()) insert(key, std::move(value), weight, dropped);
  }

  /// Changes a copy of the value, or a default value, and puts it without weight: one atomic step.
  template <class Change>
  void update(const Key& key, Change change) {
    Items dropped;
    const LockGuard lock(mutex_);
    const auto found = places_.find(key);
    Value value = found == places_.end() ? Value{} : *found->second->value;
    change(value);
    insert(key, std::make_shared<const Value>(std::move(value)), 0, dropped);
  }

  /// Removes and returns the value, if `condition`, which is called with it under the lock, returns true; else null.
  template <class Condition>
  Pointer take_if(const Key& key, Condition condition) {
    Items dropped;
    const LockGuard lock(mutex_);
    const auto found = places_.find(key);
    if (found == places_.end() || !condition(*found->second->value)) return nullptr;
    Pointer value = found->second->value;
    remove(key, dropped);
    return value;
  }
  Pointer take(const Key& key) {
    return take_if(key, [](const Value&) { return true; });
  }

  void erase(const Key& key) {
    Items dropped;
    const LockGuard lock(mutex_);
    remove(key, dropped);
  }

  void clear() {
    Items dropped;
    const LockGuard lock(mutex_);
    dropped.swap(items_);
    places_.clear();
    weight_ = 0;
  }

 private:
  struct Item {
    Key key;
    Pointer value;
    uint64_t weight;
  };
  using Items = std::list<Item>;  // most recently used first

  void insert(const Key& key, Pointer value, uint64_t weight, Items& dropped) CODECFS_REQUIRES(mutex_) {
    remove(key, dropped);
    Items made;  // not in the map if there is no memory for its place
    made.push_front({key, std::move(value), weight});
    places_.emplace(key, made.begin());
    items_.splice(items_.begin(), made);
    weight_ += weight;
    while (items_.size() > capacity_ || (weight_ > most_weight_ && items_.size() > 1))
      remove(items_.back().key, dropped);
  }

  /// `key` may be that of the item itself. `dropped` gets the item, for the caller to destroy it without the lock: the
  /// destructor of a value may take others.
  void remove(const Key& key, Items& dropped) CODECFS_REQUIRES(mutex_) {
    const auto found = places_.find(key);
    if (found == places_.end()) return;
    weight_ -= found->second->weight;
    dropped.splice(dropped.begin(), items_, found->second);
    places_.erase(found);
  }

  const size_t capacity_;
  const uint64_t most_weight_;
  Mutex mutex_{LockRank::lru_map};
  Items items_ CODECFS_GUARDED_BY(mutex_);
  uint64_t weight_ CODECFS_GUARDED_BY(mutex_) = 0;
  std::unordered_map<Key, typename Items::iterator, Hash> places_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs
