#pragma once
// Objects of a bucket in memory, for tests of what reads them. It counts requests, and can let them wait.

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "base/interruption.h"
#include "remote/object_client.h"

namespace codecfs {

class MemoryObjects final : public remote::ObjectClient {
 public:
  void add(const std::string& key, std::string content) { objects_[key] = std::move(content); }

  Result<std::optional<remote::ObjectPart>> get(const std::string& key, std::optional<remote::ObjectRange> range,
                                                uint64_t, const std::string&) override {
    ++gets;
    CODECFS_TRY(pass());
    const auto found = objects_.find(key);
    if (found == objects_.end()) return std::nullopt;
    std::string_view content = found->second;
    remote::ObjectPart part;
    part.total = content.size();
    part.etag = "\"" + std::to_string(std::hash<std::string_view>()(content)) + "\"";
    if (range) {
      const uint64_t offset = range->is_at_end ? content.size() - std::min<uint64_t>(range->size, content.size())
                                               : std::min<uint64_t>(range->offset, content.size());
      content = content.substr(offset, range->size);
    }
    CODECFS_ASSIGN(part.bytes, Buffer::copy_of(std::as_bytes(std::span(content))));
    return part;
  }
  Result<std::optional<remote::ObjectPart>> get_if_changed(const std::string& key, const remote::ObjectRange& range,
                                                           const std::string&) override {
    return get(key, range, range.size, {});
  }
  Result<remote::ObjectList> list(const std::string& prefix, bool delimited, const std::string& token) override {
    ++lists;
    const int running = ++lists_now;
    most_lists = std::max(most_lists.load(), running);
    const Result<> passed = pass();
    --lists_now;
    CODECFS_TRY(passed);
    remote::ObjectList page;
    std::set<std::string> prefixes;
    for (auto at = token.empty() ? objects_.lower_bound(prefix) : objects_.upper_bound(token);
         at != objects_.end() && at->first.starts_with(prefix); ++at) {
      if (page.objects.size() + prefixes.size() == page_size) {
        page.next = std::prev(at)->first;
        break;
      }
      const size_t slash = at->first.find('/', prefix.size());
      if (delimited && slash != std::string::npos) {
        prefixes.insert(at->first.substr(0, slash + 1));
      } else {
        page.objects.push_back({at->first, at->second.size(), "\"" + at->first + "\"", 0});
      }
    }
    page.prefixes.assign(prefixes.begin(), prefixes.end());
    return page;
  }
  Result<std::string> put(const std::string&, Bytes, const remote::WriteCondition&) override {
    return fail(EROFS, "put");
  }
  Result<> remove(const std::string&) override { return fail(EROFS, "remove"); }
  [[nodiscard]] std::string identity_of(const std::string& key) const override { return "memory " + key; }
  [[nodiscard]] remote::RequestStatistics& statistics() const override { return statistics_; }

  size_t page_size = 1000;
  std::chrono::milliseconds delay{0};
  std::atomic<bool> hangs = false;  // until the thread is interrupted
  std::atomic<int> gets = 0;
  std::atomic<int> lists = 0;
  std::atomic<int> lists_now = 0;
  std::atomic<int> most_lists = 0;

 private:
  Result<> pass() const {
    if (hangs && !Interruption::sleep(std::chrono::seconds(100))) return Interruption::error();
    std::this_thread::sleep_for(delay);
    return {};
  }

  std::map<std::string, std::string> objects_;
  mutable remote::RequestStatistics statistics_;
};

}  // namespace codecfs
