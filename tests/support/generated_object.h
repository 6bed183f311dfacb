#pragma once
// An object of any size for tests of its readers, with content that follows from the offset. It counts requests.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/interruption.h"
#include "remote/object_client.h"
#include "remote/range_plan.h"

namespace codecfs {

class GeneratedObject final : public remote::ObjectClient {
 public:
  explicit GeneratedObject(uint64_t size) : size_(size) {}

  static std::byte byte_at(uint64_t offset) {
    return static_cast<std::byte>(((offset / kRun + 1) * 0x9E3779B97F4A7C15U) >> 56);
  }
  static bool is_right(uint64_t offset, Bytes bytes) {
    std::vector<std::byte> expected(bytes.size());
    generate(offset, expected);
    return std::memcmp(expected.data(), bytes.data(), bytes.size()) == 0;
  }

  Result<std::optional<remote::ObjectPart>> get(const std::string&, std::optional<remote::ObjectRange> range, uint64_t,
                                                const std::string& wanted) override {
    ++running_;
    most_running = std::max(most_running.load(), running_.load());
    std::this_thread::sleep_for(delay);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back({range->offset, range->size});
    }
    const bool is_interrupted = hangs && !Interruption::sleep(std::chrono::seconds(100));
    --running_;
    if (is_interrupted) return Interruption::error();
    if (fails && fails(*range)) return fail(EIO, "the server failed");
    if (!wanted.empty() && wanted != etag) return fail(ESTALE, "replaced");
    remote::ObjectPart part;
    part.total = size_;
    part.etag = etag;
    const uint64_t end = std::min(size_, range->offset + range->size);
    CODECFS_ASSIGN(part.bytes, Buffer::allocate(end - std::min(range->offset, end)));
    generate(range->offset, part.bytes.mutable_bytes());
    return part;
  }
  Result<std::optional<remote::ObjectPart>> get_if_changed(const std::string& key, const remote::ObjectRange& range,
                                                           const std::string& known) override {
    if (known != etag) return get(key, range, range.size, {});
    ++unchanged;
    remote::ObjectPart part;
    part.etag = known;
    return part;
  }
  [[nodiscard]] std::string identity_of(const std::string& key) const override { return "memory " + key; }
  Result<remote::ObjectList> list(const std::string&, bool, const std::string&) override { return fail(EIO, "list"); }
  Result<std::string> put(const std::string&, Bytes, const remote::WriteCondition&) override {
    return fail(EIO, "put");
  }
  Result<> check_conditions(const std::string&) override { return fail(EIO, "check_conditions"); }
  Result<> remove(const std::string&) override { return fail(EIO, "remove"); }
  [[nodiscard]] remote::RequestStatistics& statistics() const override { return statistics_; }

  /// The ranges that were requested since the last call.
  std::vector<remote::ByteRange> take_requests() {
    const std::lock_guard lock(mutex_);
    return std::exchange(requests_, {});
  }

  std::string etag = "\"1\"";
  std::function<bool(const remote::ObjectRange&)> fails;
  std::chrono::milliseconds delay{0};
  std::atomic<bool> hangs = false;  // until the thread is interrupted
  std::atomic<int> most_running = 0;
  std::atomic<int> unchanged = 0;  // answers that the object is still the same

 private:
  static constexpr uint64_t kRun = 61;  // bytes that are equal
  static void generate(uint64_t offset, MutableBytes bytes) {
    for (size_t done = 0; done < bytes.size();) {
      const uint64_t at = offset + done;
      const size_t run = std::min<size_t>(kRun - at % kRun, bytes.size() - done);
      std::memset(bytes.data() + done, std::to_integer<int>(byte_at(at)), run);
      done += run;
    }
  }

  const uint64_t size_;
  mutable remote::RequestStatistics statistics_;
  std::atomic<int> running_ = 0;
  std::mutex mutex_;
  std::vector<remote::ByteRange> requests_;
};

}  // namespace codecfs
