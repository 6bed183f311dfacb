#pragma once
// A bucket in memory, with the conditions of S3. It counts requests, and can let them wait. Thread-safe.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/interruption.h"
#include "remote/object_client.h"
#include "remote/signature.h"

namespace codecfs {

class MemoryObjects final : public remote::ObjectClient {
 public:
  /// Called before each operation with its method and key; an error is returned instead.
  std::function<Result<>(std::string_view method, const std::string& key)> before;
  bool heeds_conditions = true;
  size_t page_size = 1000;
  std::atomic<std::chrono::milliseconds> delay{std::chrono::milliseconds(0)};  // of GET and LIST
  std::atomic<bool> hangs = false;  // GET and LIST, until the thread is interrupted
  std::atomic<int> gets = 0;
  std::atomic<int> gets_now = 0;
  std::atomic<int> most_gets = 0;  // at the same time
  std::atomic<int> lists = 0;
  std::atomic<int> lists_now = 0;
  std::atomic<int> most_lists = 0;  // at the same time

  void set(const std::string& key, std::string_view content) {
    const std::lock_guard lock(mutex_);
    objects_[key] = content;
  }
  [[nodiscard]] std::optional<std::string> content_of(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(key);
    return found == objects_.end() ? std::nullopt : std::optional(found->second);
  }
  /// "PUT key", "GET key", ... since the last call.
  std::vector<std::string> take_requests() {
    const std::lock_guard lock(mutex_);
    return std::exchange(requests_, {});
  }

  Result<std::optional<remote::ObjectPart>> get(const std::string& key, std::optional<remote::ObjectRange> range,
                                                uint64_t limit, const std::string& etag) override {
    CODECFS_TRY(begin("GET", key));
    ++gets;
    const int running = ++gets_now;
    most_gets = std::max(most_gets.load(), running);
    const Result<> passed = pass();
    --gets_now;
    CODECFS_TRY(passed);
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(key);
    if (found == objects_.end()) return std::nullopt;
    const std::string& content = found->second;
    if (!etag.empty() && etag != etag_of(content)) return fail(ESTALE, "{}: replaced", key);
    size_t first = 0;
    size_t size = content.size();
    if (range && range->is_at_end) {
      size = std::min<size_t>(range->size, content.size());
      first = content.size() - size;
    } else if (range) {
      first = std::min<size_t>(range->offset, content.size());
      size = std::min<size_t>(range->size, content.size() - first);
    } else if (size > limit) {
      return fail(EFBIG, "{}: too large", key);
    }
    remote::ObjectPart part;
    CODECFS_ASSIGN(part.bytes, Buffer::copy_of(std::as_bytes(std::span(content).subspan(first, size))));
    part.etag = etag_of(content);
    part.total = content.size();
    return part;
  }
  Result<std::optional<remote::ObjectPart>> get_if_changed(const std::string& key, const remote::ObjectRange& range,
                                                           const std::string&) override {
    return get(key, range, range.size, {});
  }
  Result<remote::ObjectList> list(const std::string& prefix, bool delimited, const std::string& token) override {
    CODECFS_TRY(begin("LIST", prefix));
    ++lists;
    const int running = ++lists_now;
    most_lists = std::max(most_lists.load(), running);
    const Result<> passed = pass();
    --lists_now;
    CODECFS_TRY(passed);
    const std::lock_guard lock(mutex_);
    remote::ObjectList list;
    for (auto at = token.empty() ? objects_.lower_bound(prefix) : objects_.upper_bound(token);
         at != objects_.end() && at->first.starts_with(prefix); ++at) {
      const auto& [key, content] = *at;
      if (list.objects.size() + list.prefixes.size() == page_size) {
        list.next = std::prev(at)->first;
        break;
      }
      const size_t slash = key.find('/', prefix.size());
      if (!delimited || slash == key.npos) {
        list.objects.push_back({.key = key, .size = content.size(), .etag = etag_of(content), .modified = 0});
      } else if (list.prefixes.empty() || list.prefixes.back() != key.substr(0, slash + 1)) {
        list.prefixes.push_back(key.substr(0, slash + 1));
      }
    }
    return list;
  }
  Result<std::string> put(const std::string& key, Bytes content, const remote::WriteCondition& condition) override {
    CODECFS_TRY(begin("PUT", key));
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(key);
    if (heeds_conditions && condition.is_new && found != objects_.end()) return fail(EEXIST, "{}: exists", key);
    if (heeds_conditions && !condition.etag.empty() &&
        (found == objects_.end() || etag_of(found->second) != condition.etag))
      return fail(ESTALE, "{}: was changed", key);
    std::string& stored = objects_[key];
    stored.assign(reinterpret_cast<const char*>(content.data()), content.size());
    return etag_of(stored);
  }
  Result<> check_conditions(const std::string& key) override {
    CODECFS_TRY(begin("PROBE", key));
    if (!heeds_conditions) return fail(EOPNOTSUPP, "the server ignores the conditions of writes");
    return {};
  }
  Result<> remove(const std::string& key) override {
    CODECFS_TRY(begin("DELETE", key));
    const std::lock_guard lock(mutex_);
    objects_.erase(key);
    return {};
  }
  [[nodiscard]] std::string identity_of(const std::string& key) const override { return "memory " + key; }
  [[nodiscard]] remote::RequestStatistics& statistics() const override { return statistics_; }

 private:
  static std::string etag_of(const std::string& content) {
    return "\"" + remote::md5_hex(std::as_bytes(std::span(content))) + "\"";
  }
  Result<> begin(std::string_view method, const std::string& key) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(std::string(method) + " " + key);
    }
    return before ? before(method, key) : Result<>();
  }

  Result<> pass() const {
    if (hangs && !Interruption::sleep(std::chrono::seconds(100))) return Interruption::error();
    std::this_thread::sleep_for(delay.load());
    return {};
  }

  mutable remote::RequestStatistics statistics_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> objects_;
  std::vector<std::string> requests_;
};

}  // namespace codecfs
