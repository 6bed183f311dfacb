#pragma once
// Copies of the kernel's pages of files that are open for reading and writing, and so may be mapped.
//
// The kernel writes back a dirty page of a mapping completely, including bytes that the mapping did not change. If
// another file shows the same bytes (a chunk and the npy view), another program may have changed them meanwhile. So
// only bytes that differ from the kernel's original page are stored.
//
// A copy must be exactly the page's content before the mapping changed it; otherwise there must be no copy, and the
// whole page is stored. A copy that is older or newer than the page would hide a change. Pages get their content from
// READ, from a write() of a whole page, and from pushes, which do not happen while a file has writers. The first writer
// makes the kernel drop its pages (no FOPEN_KEEP_CACHE).
//
// Memory is bounded: if the copies exceed the limit, a thread makes the kernel write back and drop the least recently
// read pages, and then drops their copies. Thread-safe.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "fs/given/invalidator.h"
#include "fs/nodes/nodes.h"

namespace codecfs::fs {

/// Selects bytes of a request to be stored: one byte for each, 0xff for selected ones, 0 for others. Empty: all.
using ByteMask = std::vector<std::byte>;

class PageCopies {
 public:
  static constexpr uint64_t kPage = 4096;                         // bytes
  static constexpr uint64_t kDefaultLimit = uint64_t{128} << 20;  // bytes of copies

  explicit PageCopies(uint64_t limit = kDefaultLimit) : limit_(limit) {}
  ~PageCopies() { stop(); }
  PageCopies(const PageCopies&) = delete;
  PageCopies& operator=(const PageCopies&) = delete;

  /// Required for dropping pages when the copies exceed the limit. Must be called before the first writer; `kernel`
  /// must outlive this object.
  void set_invalidator(Invalidator& kernel) { kernel_ = &kernel; }

  /// Enables copies for an inode during its lifetime.
  class Writer {
   public:
    Writer() = default;
    Writer(PageCopies& copies, Ino ino) : copies_(&copies), ino_(ino), is_first_(copies.add_writer(ino)) {}
    Writer(Writer&& other) noexcept
        : copies_(std::exchange(other.copies_, nullptr)), ino_(other.ino_), is_first_(other.is_first_) {}
    Writer& operator=(Writer&& other) noexcept {
      std::swap(copies_, other.copies_);
      std::swap(ino_, other.ino_);
      std::swap(is_first_, other.is_first_);
      return *this;
    }
    ~Writer() {
      if (copies_ != nullptr) copies_->remove_writer(ino_);
    }
    /// Whether the kernel may have pages without copies.
    [[nodiscard]] bool is_first() const { return is_first_; }

   private:
    PageCopies* copies_ = nullptr;
    Ino ino_ = 0;
    bool is_first_ = false;
  };

  /// Content of a READ reply, which will be in the kernel's page cache.
  void given(Ino ino, uint64_t offset, Bytes bytes);
  /// Content of a write(), which the kernel has put into its pages.
  void written(Ino ino, uint64_t offset, Bytes bytes);
  /// Must be called when the length of the file changes, because the kernel then changes its pages. Disables copies
  /// until the last writer has closed the file.
  void give_up(Ino ino);

  /// Comparison of a written-back range with the copies.
  struct WrittenBack {
    ByteMask changed;                // mask of changed bytes
    bool any = true;                 // at least one byte has changed
    std::vector<uint64_t> versions;  // of the pages' copies; 0: no copy
  };
  WrittenBack compare(Ino ino, uint64_t offset, Bytes bytes);
  /// Must be called after the range was stored. (On an error the kernel drops the pages instead.)
  void stored(Ino ino, uint64_t offset, Bytes bytes, const WrittenBack& compared);

  /// Memory of all copies, in bytes.
  uint64_t bytes();
  /// Stops dropping pages. Must be called while requests are still answered, or when no more can arrive.
  void stop();

 private:
  struct Key {
    Ino ino = 0;
    uint64_t page = 0;
  };
  struct Page {
    std::vector<std::byte> bytes;  // from the beginning of the page
    uint64_t version = 0;          // changes with the bytes
    std::list<Key>::iterator place;
  };
  struct Dropped {
    Key key;
    uint64_t version = 0;
  };
  struct File {
    unsigned writers = 0;
    bool given_up = false;
    std::unordered_map<uint64_t, Page> pages;
  };

  bool add_writer(Ino ino);
  void remove_writer(Ino ino);
  // Without memory there is no copy, so the page is stored completely.
  void put(Ino ino, File& file, uint64_t page, Bytes bytes) noexcept CODECFS_REQUIRES(mutex_);
  void change(File& file, uint64_t number, Page& page, uint64_t at, Bytes part) noexcept CODECFS_REQUIRES(mutex_);
  void start_thread_once() CODECFS_REQUIRES(mutex_);
  void erase(File& file, uint64_t page) CODECFS_REQUIRES(mutex_);
  void clear(File& file) CODECFS_REQUIRES(mutex_);
  void run(const std::stop_token& stop);

  const uint64_t limit_;
  Invalidator* kernel_ = nullptr;
  std::atomic<bool> any_{false};  // whether there are writers: tested before locking the mutex
  Mutex mutex_;
  std::condition_variable_any full_;
  std::unordered_map<Ino, File> files_ CODECFS_GUARDED_BY(mutex_);
  std::list<Key> order_ CODECFS_GUARDED_BY(mutex_);  // oldest copy first
  uint64_t version_ CODECFS_GUARDED_BY(mutex_) = 0;
  bool stopped_ CODECFS_GUARDED_BY(mutex_) = false;
  std::vector<Dropped> oldest_;  // of the thread
  std::jthread thread_;          // started when the limit is first reached, under mutex_, unless stopped_
};

/// Copies the bytes that the mask selects.
void copy_masked(std::byte* to, const std::byte* from, const std::byte* mask, size_t size);

}  // namespace codecfs::fs
