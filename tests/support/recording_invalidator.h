#pragma once
// Lists the notifications to the kernel in their order, as texts. Thread-safe.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fs/given/invalidator.h"

namespace codecfs::fs {

class RecordingInvalidator final : public Invalidator {
 public:
  [[nodiscard]] bool has_kernel() const override { return true; }
  // The texts of the notifications. Inode numbers are shown as slot:local.
  static std::string content(Ino ino) { return "content of " + name_of_ino(ino); }
  static std::string part(Ino ino, uint64_t offset, uint64_t size) {
    return fmt::format("{} bytes at {} of {}", size, offset, name_of_ino(ino));
  }
  static std::string contents(Ino first, uint64_t count) {
    return fmt::format("content of {} from {}", count, name_of_ino(first));
  }
  static std::string attributes(Ino first, uint64_t count) {
    return fmt::format("attributes of {} from {}", count, name_of_ino(first));
  }
  static std::string name(Ino parent, std::string_view name) {
    return fmt::format("name {} in {}", name, name_of_ino(parent));
  }
  /// Of names_changed().
  static std::string created(Ino parent, std::string_view name) {
    return fmt::format("created {} in {}", name, name_of_ino(parent));
  }

  /// All since the last call.
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(notices_, {});
  }
  [[nodiscard]] bool has(const std::string& notice) {
    const std::lock_guard lock(mutex_);
    return std::ranges::find(notices_, notice) != notices_.end();
  }
  [[nodiscard]] bool has_waited_for(const std::string& notice) {
    const std::lock_guard lock(mutex_);
    return std::ranges::find(awaited_, notice) != awaited_.end();
  }
  /// The pages that were stored in the page cache, by inode.
  std::map<Ino, std::string> pages() {
    const std::lock_guard lock(mutex_);
    return pages_;
  }

  void content_changed(Ino ino, bool wait) override { add(content(ino), wait); }
  void part_changed(Ino ino, uint64_t offset, uint64_t size, bool wait) override { add(part(ino, offset, size), wait); }
  void contents_changed(Ino first, uint64_t count, bool wait) override { add(contents(first, count), wait); }
  void attributes_changed(Ino first, uint64_t count, bool wait) override { add(attributes(first, count), wait); }
  void name_changed(Ino parent, std::string changed, bool wait) override { add(name(parent, changed), wait); }
  void names_changed(Ino parent, std::vector<std::string> names) override {
    for (const std::string& each : names) add(created(parent, each), true);
  }
  bool store_pages(Ino ino, uint64_t offset, Bytes bytes) override {
    const std::lock_guard lock(mutex_);
    std::string& file = pages_[ino];
    file.resize(std::max<size_t>(file.size(), offset + bytes.size()));
    file.replace(offset, bytes.size(), reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  }

 private:
  static std::string name_of_ino(Ino ino) { return fmt::format("{}:{}", ino >> kLocalBits, ino & kLocalMask); }
  void add(std::string notice, bool wait) {
    const std::lock_guard lock(mutex_);
    if (wait) awaited_.push_back(notice);
    notices_.push_back(std::move(notice));
  }

  std::mutex mutex_;  // guards the following members
  std::vector<std::string> notices_;
  std::vector<std::string> awaited_;
  std::map<Ino, std::string> pages_;
};

}  // namespace codecfs::fs
